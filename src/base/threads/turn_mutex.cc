#include "base/threads/turn_mutex.h"

#include "base/error.h"

namespace troika {

void TurnMutex::lock() {
  std::unique_lock<std::mutex> lock(mutex_);
  if (!is_held_) {
    is_held_ = true;
    return;
  }
  Waiter me;
  (last_ != nullptr ? last_->next : first_) = &me;
  last_ = &me;
  me.has_news.wait(lock, [&] { return me.has_turn; });
}

// The mutex stays held where somebody waits: it is theirs before anybody else can ask.
void TurnMutex::unlock() {
  const std::lock_guard<std::mutex> lock(mutex_);
  TROIKA_ASSERT(is_held_);
  if (first_ == nullptr) {
    is_held_ = false;
    return;
  }
  Waiter* const next = first_;
  first_ = next->next;
  if (first_ == nullptr) last_ = nullptr;
  next->has_turn = true;
  next->has_news.notify_one();  // under the mutex, because the waiter goes away with its turn
}

bool TurnMutex::is_awaited() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return first_ != nullptr;
}

}  // namespace troika
