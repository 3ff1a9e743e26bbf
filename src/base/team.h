// A fixed team of threads that runs one function on all of them at a time. The caller is worker 0.
// Between runs the others spin briefly, then sleep: a decode step finds them awake, an idle program
// costs nothing.
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>
#include <type_traits>
#include <vector>

namespace troika {

// All threads of a team meet here. Spins briefly, then sleeps, so that it also works on a machine
// with fewer free cores than threads.
class Barrier {
 public:
  explicit Barrier(int n_threads) : n_threads_(n_threads) {}
  void wait();

 private:
  const int n_threads_;
  alignas(64) std::atomic<int> n_arrived_{0};
  alignas(64) std::atomic<uint32_t> round_{0};
};

class Team {
 public:
  // n_threads >= 1, the caller included. The team's own threads keep to `cores`, if any are named.
  explicit Team(int n_threads, const std::vector<int>& cores = {});
  ~Team();
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  int size() const { return n_threads_; }
  Barrier& barrier() { return barrier_; }

  // Calls body(worker) once on every worker and returns when all have finished. The body must not
  // throw. REQUIRES: called from one thread at a time.
  template <typename Body>
  void run(Body&& body) {
    using Plain = std::remove_reference_t<Body>;
    run_raw([](void* context, int worker) { (*static_cast<Plain*>(context))(worker); },
            const_cast<void*>(static_cast<const void*>(&body)));
  }

 private:
  using Function = void (*)(void* context, int worker);
  void run_raw(Function function, void* context);
  void work(int worker);

  const int n_threads_;
  Barrier barrier_;
  Function function_ = nullptr;
  void* context_ = nullptr;
  bool stop_ = false;
  alignas(64) std::atomic<uint32_t> round_{0};
  alignas(64) std::atomic<int> n_running_{0};
  std::vector<std::thread> threads_;
};

// The part [begin, end) of `n_items` that falls to `worker`, in whole multiples of `granularity`.
struct Part {
  int64_t begin;
  int64_t end;
};
Part part_of(int64_t n_items, int worker, int n_workers, int64_t granularity = 1);

}  // namespace troika
