// A mutex whose holders take turns: who asked first gets it first. An ordinary one goes to whoever
// is awake, which is mostly the thread that has just given it back, so that one that computes pass
// after pass would leave nothing to the others.
#pragma once

#include <condition_variable>
#include <mutex>

namespace troika {

class TurnMutex {
 public:
  TurnMutex() = default;
  TurnMutex(const TurnMutex&) = delete;
  TurnMutex& operator=(const TurnMutex&) = delete;

  void lock();
  void unlock();
  // Says whether a thread waits for its turn.
  bool is_awaited() const;

 private:
  // Stands on the stack of a thread that waits.
  struct Waiter {
    std::condition_variable has_news;
    bool has_turn = false;
    Waiter* next = nullptr;
  };

  mutable std::mutex mutex_;  // of what follows
  bool is_held_ = false;
  Waiter* first_ = nullptr;
  Waiter* last_ = nullptr;
};

}  // namespace troika
