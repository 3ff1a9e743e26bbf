// A fixed team of threads that runs one function on all of them at a time. The caller is worker 0.
// Between runs the others spin briefly, then sleep: a decode step finds them awake, an idle program
// costs nothing.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <thread>
#include <type_traits>
#include <vector>

#include "base/threads/crowd.h"
#include "base/threads/wait_clock.h"

namespace troika {

// The barrier at which the active workers of a team meet. It spins briefly, then sleeps, so that it
// also works on a machine with fewer free cores than threads.
class Barrier {
 public:
  explicit Barrier(int n_threads) : n_threads_(n_threads) {}
  void wait();

  // Sets how many workers meet. REQUIRES: nobody waits.
  void resize(int n_threads) { n_threads_ = n_threads; }
  // Returns how long all workers together have slept here. Spinning does not count.
  double slept_us() const { return 1e-3 * static_cast<double>(slept_ns_.load()); }
  // Waits for a change as at the barrier, and counts the sleep.
  template <typename T>
  void wait_for(const std::atomic<T>& value, T old);

 private:
  int n_threads_;
  alignas(64) std::atomic<int> n_arrived_{0};
  alignas(64) std::atomic<uint32_t> round_{0};
  alignas(64) std::atomic<int64_t> slept_ns_{0};
};

class Team {
 public:
  // REQUIRES: n_threads >= 1, the caller included. The team's own threads keep to `cores`, if any
  // are named. Throws Error where the system does not let so many start.
  explicit Team(int n_threads, const std::vector<int>& cores = {});
  ~Team();
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  int size() const { return n_threads_; }
  // Returns the number of workers of the present run: they are 0 to n_active() - 1.
  int n_active() const { return n_active_; }
  Barrier& barrier() { return barrier_; }

  // Calls body(worker) once on every worker. When all have finished, it throws what a body threw
  // first, or returns. REQUIRES: called from one thread at a time; a body that meets others at the
  // barrier does not throw, because they would wait for ever.
  template <typename Body>
  void run(Body&& body) {
    FirstFailure failure;
    const auto guarded = [&](int worker) {
      try {
        body(worker);
      } catch (...) {
        failure.keep();
      }
    };
    run_some(n_threads_, guarded);
    failure.rethrow();
  }
  // Runs body(worker) on as many workers as find free cores, the first n_active(): these are fewer
  // than all where other programs keep workers from running. The body must not throw.
  template <typename Body>
  void run_where_free(Body&& body) {
    run_where_free(body, [] { return WaitTimes(); });
  }
  // Does what the function above does, where workers also wait for something else than cores.
  // waited() is asked before and behind the run, and tells how long workers have waited for it
  // until then. While some wait for a disk, the others sleep until it comes, and no other program
  // is to blame.
  template <typename Body, typename Waited>
  void run_where_free(Body&& body, Waited&& waited) {
    const double slept_before = barrier_.slept_us();
    const WaitTimes waited_before = waited();
    const double start = now_us();
    const int n_active = crowd_.n_active();
    run_some(n_active, body);
    const double excused = waited().others_us(waited_before, n_active);
    crowd_.record(now_us() - start, barrier_.slept_us() - slept_before - excused);
  }

 private:
  // Keeps the exception that was thrown first, by any worker.
  class FirstFailure {
   public:
    // REQUIRES: an exception is being handled.
    void keep() {
      if (!is_there_.exchange(true)) exception_ = std::current_exception();
    }
    // REQUIRES: all workers have finished.
    void rethrow() const {
      if (exception_ != nullptr) std::rethrow_exception(exception_);
    }

   private:
    std::atomic<bool> is_there_{false};
    std::exception_ptr exception_;
  };
  using Function = void (*)(void* context, int worker);
  template <typename Body>
  void run_some(int n_active, Body& body) {
    run_raw(
        n_active, [](void* context, int worker) { (*static_cast<Body*>(context))(worker); },
        const_cast<void*>(static_cast<const void*>(&body)));
  }
  static double now_us();
  void run_raw(int n_active, Function function, void* context);
  void announce(int n_active);
  void work(int worker);
  void sleep_until_wanted(int worker) const;
  void end_threads();

  const int n_threads_;
  Barrier barrier_;
  Function function_ = nullptr;
  void* context_ = nullptr;
  bool stop_ = false;
  int n_active_;
  Crowd crowd_;
  // Holds a count of rounds, and in the lowest 16 bits the number of active workers, so that an
  // idle worker reads nothing else.
  alignas(64) std::atomic<uint32_t> round_{0};
  alignas(64) std::atomic<int> n_running_{0};
  // Is the number of active workers of the last round. Workers beyond it sleep until it grows, so
  // that rounds do not wake them.
  alignas(64) std::atomic<int> n_wanted_;
  std::vector<std::thread> threads_;
};

// The part [begin, end) of `n_items` that falls to `worker`. It begins at a multiple of
// `granularity`.
struct Share {
  int64_t begin;
  int64_t end;
};
Share share_of(int64_t n_items, int worker, int n_workers, int64_t granularity = 1);

}  // namespace troika
