// The thread that reads requests: JSON, templates, tokens and grammars of one client must not keep
// others from hearing whether the server lives.
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

  // Whether the thread stands back where others want to compute.
  enum class Pace : uint8_t { kUsual, kBehindOthers };

  explicit Desk(Pace pace = Pace::kUsual) : thread_([this, pace] { run(pace); }) {}
  ~Desk();

  // Ends the thread behind what it does now; what is posted from then on is never done.
  void stop();
  // Does the work later, unless its client has gone by then.
  void post(std::shared_ptr<http::Exchange> exchange, Work work);

 private:
  struct Item {
    std::shared_ptr<http::Exchange> exchange;
    Work work;
  };
  void run(Pace pace);

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Item> items_;
  bool is_stopping_ = false;
  std::thread thread_;
};

}  // namespace troika::server
