#include "base/team.h"

#include <algorithm>

#include "base/error.h"
#include "base/spin.h"
#include "base/system.h"

namespace troika {
void Barrier::wait() {
  if (n_threads_ == 1) return;
  const uint32_t round = round_.load(std::memory_order_acquire);
  if (n_arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == n_threads_) {
    n_arrived_.store(0, std::memory_order_relaxed);
    round_.store(round + 1, std::memory_order_release);
    round_.notify_all();
  } else {
    wait_for_change(round_, round);
  }
}

Team::Team(int n_threads, const std::vector<int>& cores)
    : n_threads_(n_threads), barrier_(n_threads) {
  TROIKA_ASSERT(n_threads >= 1);
  threads_.reserve(static_cast<size_t>(n_threads - 1));
  for (int worker = 1; worker < n_threads; ++worker) {
    threads_.emplace_back([this, worker, cores] {
      bind_to_cores(cores);
      work(worker);
    });
  }
}

Team::~Team() {
  stop_ = true;
  round_.fetch_add(1, std::memory_order_release);
  round_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void Team::run_raw(Function function, void* context) {
  if (n_threads_ > 1) {
    function_ = function;
    context_ = context;
    n_running_.store(n_threads_ - 1, std::memory_order_relaxed);
    round_.fetch_add(1, std::memory_order_release);
    round_.notify_all();
  }
  function(context, 0);
  for (int left = n_running_.load(std::memory_order_acquire); left != 0;
       left = n_running_.load(std::memory_order_acquire)) {
    wait_for_change(n_running_, left);
  }
}

void Team::work(int worker) {
  uint32_t seen = 0;
  while (true) {
    wait_for_change(round_, seen);
    ++seen;
    if (stop_) return;
    function_(context_, worker);
    if (n_running_.fetch_sub(1, std::memory_order_acq_rel) == 1) n_running_.notify_one();
  }
}

Part part_of(int64_t n_items, int worker, int n_workers, int64_t granularity) {
  const int64_t n_units = (n_items + granularity - 1) / granularity;
  const int64_t begin = n_units * worker / n_workers * granularity;
  const int64_t end = n_units * (worker + 1) / n_workers * granularity;
  return {std::min(begin, n_items), std::min(end, n_items)};
}

}  // namespace troika
