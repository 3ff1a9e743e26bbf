#include "server/desk/desk.h"

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <future>
#include <memory>

namespace troika::server {
namespace {

std::shared_ptr<http::Exchange> exchange_of(size_t connection) {
  return std::make_shared<http::Exchange>(std::make_shared<http::Mailbox>(), connection);
}

// Works of clients that have gone take no place in the line, and what they hold is given back.
TEST(Desk, ForgetsTheWorksOfAnExchange) {
  Desk desk;
  std::promise<void> begun, may_end, is_done;
  desk.post(exchange_of(1), [&] {
    begun.set_value();
    may_end.get_future().wait();
  });
  begun.get_future().wait();
  const auto gone = exchange_of(2), stays = exchange_of(3);
  const auto body = std::make_shared<int>();
  bool was_done = false;
  desk.post(gone, [&was_done, body] { was_done = true; });
  desk.post(
      gone, [&was_done, body] { was_done = true; }, Desk::Place::kFront);
  desk.post(stays, [&] { is_done.set_value(); });
  EXPECT_EQ(desk.n_waiting(), 2u);
  desk.forget(gone.get());
  EXPECT_EQ(desk.n_waiting(), 1u);
  EXPECT_EQ(body.use_count(), 1);
  may_end.set_value();
  is_done.get_future().wait();
  EXPECT_FALSE(was_done);
}

// A client whose works always stand in front does not keep another one's from being done.
TEST(Desk, DoesWorkAtTheBackWhileWorkInFrontNeverEnds) {
  Desk desk;
  const auto busy = exchange_of(1);
  std::promise<void> is_done;
  std::atomic<bool> may_end = false;
  std::function<void()> again = [&] {
    if (!may_end) desk.post(busy, again, Desk::Place::kFront);
  };
  desk.post(busy, again, Desk::Place::kFront);
  desk.post(exchange_of(2), [&] { is_done.set_value(); });
  is_done.get_future().wait();
  may_end = true;
  desk.stop();
}

}  // namespace
}  // namespace troika::server
