#include "base/threads/team.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <system_error>

#include "base/error.h"
#include "base/system.h"
#include "base/threads/spin.h"

namespace troika {
namespace {

constexpr uint32_t kActiveBits = 16;
constexpr uint32_t kActiveMask = (1u << kActiveBits) - 1;

int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace

template <typename T>
void Barrier::wait_for(const std::atomic<T>& value, T old) {
  const int64_t start = now_ns();
  if (wait_for_change(value, old)) {
    slept_ns_.fetch_add(now_ns() - start, std::memory_order_relaxed);
  }
}

void Barrier::wait() {
  if (n_threads_ == 1) return;
  const uint32_t round = round_.load(std::memory_order_acquire);
  if (n_arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == n_threads_) {
    n_arrived_.store(0, std::memory_order_relaxed);
    store_and_notify(&round_, round + 1);
  } else {
    wait_for(round_, round);
  }
}

Team::Team(int n_threads, const std::vector<int>& cores)
    : n_threads_(n_threads),
      barrier_(n_threads),
      n_active_(n_threads),
      crowd_(n_threads),
      n_wanted_(n_threads) {
  TROIKA_ASSERT(n_threads >= 1 && static_cast<uint32_t>(n_threads) <= kActiveMask);
  try {
    threads_.reserve(static_cast<size_t>(n_threads - 1));
    for (int worker = 1; worker < n_threads; ++worker) {
      threads_.emplace_back([this, worker, cores] {
        bind_to_cores(cores);
        work(worker);
      });
    }
  } catch (const std::system_error&) {
    end_threads();
    throw Error(
        fmt::format("the system lets this program start only {} of {} threads. Choose fewer with "
                    "‹threads›, or raise the limit on threads or memory.",
                    threads_.size() + 1, n_threads));
  } catch (...) {
    end_threads();
    throw;
  }
}

Team::~Team() { end_threads(); }

void Team::end_threads() {
  stop_ = true;
  announce(n_threads_);
  for (std::thread& thread : threads_) thread.join();
}

double Team::now_us() { return 1e-3 * static_cast<double>(now_ns()); }

void Team::announce(int n_active) {
  const int n_before = n_wanted_.load(std::memory_order_relaxed);
  if (n_active < n_before) n_wanted_.store(n_active, std::memory_order_relaxed);
  if (n_active > n_before) store_and_notify(&n_wanted_, n_active);
  const uint32_t count = (round_.load(std::memory_order_relaxed) >> kActiveBits) + 1;
  store_and_notify(&round_, count << kActiveBits | static_cast<uint32_t>(n_active));
}

void Team::run_raw(int n_active, Function function, void* context) {
  n_active_ = n_active;
  barrier_.resize(n_active);
  if (n_active > 1) {
    function_ = function;
    context_ = context;
    n_running_.store(n_active - 1, std::memory_order_relaxed);
    announce(n_active);
  }
  function(context, 0);
  for (int left = n_running_.load(std::memory_order_acquire); left != 0;
       left = n_running_.load(std::memory_order_acquire)) {
    barrier_.wait_for(n_running_, left);
  }
}

void Team::work(int worker) {
  uint32_t seen = 0;
  while (true) {
    wait_for_change(round_, seen);
    seen = round_.load(std::memory_order_acquire);
    if (static_cast<uint32_t>(worker) >= (seen & kActiveMask)) {
      sleep_until_wanted(worker);
      continue;
    }
    if (stop_) return;
    function_(context_, worker);
    if (n_running_.fetch_sub(1, std::memory_order_acq_rel) == 1) n_running_.notify_one();
  }
}

// The next round has another number of active workers than the one that the worker saw, so it is
// told from that one, however many were between them.
void Team::sleep_until_wanted(int worker) const {
  for (int n = n_wanted_.load(); n <= worker; n = n_wanted_.load()) n_wanted_.wait(n);
}

Share share_of(int64_t n_items, int worker, int n_workers, int64_t granularity) {
  const int64_t n_units = (n_items + granularity - 1) / granularity;
  const int64_t begin = n_units * worker / n_workers * granularity;
  const int64_t end = n_units * (worker + 1) / n_workers * granularity;
  return {std::min(begin, n_items), std::min(end, n_items)};
}

}  // namespace troika
