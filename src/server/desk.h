// The thread that reads requests: JSON, templates, tokens and grammars of one client must not keep
// others from hearing whether the server lives.
#pragma once

#include <condition_variable>
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

  Desk() : thread_([this] { run(); }) {}
  ~Desk();

  // Does the work later, unless its client has gone by then.
  void post(std::shared_ptr<http::Exchange> exchange, Work work);

 private:
  struct Item {
    std::shared_ptr<http::Exchange> exchange;
    Work work;
  };
  void run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Item> items_;
  bool is_stopping_ = false;
  std::thread thread_;
};

}  // namespace troika::server
