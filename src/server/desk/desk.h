// A desk is a thread that reads requests, so that the JSON, templates, tokens and grammars of one
// client do not keep the server's thread from answering others.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "http/exchange.h"

namespace troika::server {

class Desk {
 public:
  using Work = std::function<void()>;

  // Says whether the thread stands back where others want to compute.
  enum class Pace : uint8_t { kUsual, kBehindOthers };

  explicit Desk(Pace pace = Pace::kUsual) : thread_([this, pace] { run(pace); }) {}
  ~Desk();

  // Ends the thread after its present work. Work that still waits, or is posted later, is never
  // done.
  void stop();
  // Says where work stands among the works that wait: those of the front are done first, but one
  // at the back is done behind each few of them, so that it does not wait for ever.
  enum class Place : uint8_t { kFront, kBack };

  // Does the work later, unless its client has gone by then.
  void post(std::shared_ptr<http::Exchange> exchange, Work work, Place place = Place::kBack);
  // Drops the works of an exchange, whose client has gone.
  void forget(const http::Exchange* exchange);
  // Counts works at the back that wait.
  size_t n_waiting() const;

 private:
  struct Item {
    std::shared_ptr<http::Exchange> exchange;
    Work work;
  };
  void run(Pace pace);

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Item> front_, back_;
  bool is_stopping_ = false;
  std::thread thread_;
};

}  // namespace troika::server
