#include "server/desk/desk.h"

#include <sys/resource.h>

#include <algorithm>
#include <iterator>
#include <vector>

namespace troika::server {
namespace {

constexpr int kBehind = 10;  // the thread's "nice" value
// Counts works of the front behind each other while some wait at the back.
constexpr int kMostInFront = 8;

}  // namespace

Desk::~Desk() { stop(); }

void Desk::stop() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    is_stopping_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

void Desk::post(std::shared_ptr<http::Exchange> exchange, Work work, Place place) {
  const std::lock_guard<std::mutex> lock(mutex_);
  (place == Place::kFront ? front_ : back_).push_back({std::move(exchange), std::move(work)});
  changed_.notify_all();
}

// What the works hold, as bodies of requests, is given back behind the lock.
void Desk::forget(const http::Exchange* exchange) {
  std::vector<Item> dropped;
  const std::lock_guard<std::mutex> lock(mutex_);
  for (std::deque<Item>* items : {&front_, &back_}) {
    const auto kept = std::stable_partition(items->begin(), items->end(), [&](const Item& item) {
      return item.exchange.get() != exchange;
    });
    std::move(kept, items->end(), std::back_inserter(dropped));
    items->erase(kept, items->end());
  }
}

size_t Desk::n_waiting() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return back_.size();
}

void Desk::run(Pace pace) {
  // On Linux this sets the priority of the calling thread alone. If the system refuses, the thread
  // keeps the usual priority.
  if (pace == Pace::kBehindOthers) setpriority(PRIO_PROCESS, 0, kBehind);
  int n_in_front = 0;
  while (true) {
    Item item;
    {
      std::unique_lock<std::mutex> lock(mutex_);
      changed_.wait(lock, [&] { return !front_.empty() || !back_.empty() || is_stopping_; });
      if (is_stopping_) return;
      const bool takes_back = front_.empty() || (n_in_front >= kMostInFront && !back_.empty());
      n_in_front = takes_back || back_.empty() ? 0 : n_in_front + 1;
      std::deque<Item>& items = takes_back ? back_ : front_;
      item = std::move(items.front());
      items.pop_front();
    }
    if (!item.exchange->is_gone()) item.work();
  }
}

}  // namespace troika::server
