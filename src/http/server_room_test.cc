// Tests whom the server ends where many want to be served.
#include <gtest/gtest.h>

#include <string>

#include "http/server_support_test.h"

namespace troika::http {
namespace {

using HttpServerRoom = HttpServer;

TEST_F(HttpServerRoom, ASilentConnectionMakesRoomForAnother) {
  start({.most_connections = 2});
  Client silent(path_), busy(path_);
  busy.send(get("/never"));
  handler_.wait_for_asked(1);
  for (int i = 0; i < 5; ++i) {
    EXPECT_TRUE(Client(path_).ask(last("/echo")).ends_with("GET "));
  }
  EXPECT_EQ(silent.read(), "");
  // Two connections that wait for answers are both kept.
  Client second(path_);
  second.send(get("/never"));
  handler_.wait_for_asked(2);
  const std::string answer = Client(path_).ask(last("/echo"));
  EXPECT_TRUE(answer.empty() || answer.starts_with("HTTP/1.1 503 ")) << answer;
}

TEST_F(HttpServerRoom, TheConnectionThatWaitedLongestMakesRoom) {
  start({.most_connections = 2});
  Client first(path_), second(path_);
  for (Client* const client : {&first, &second, &first}) {
    client->send(get("/echo"));
    client->read("GET ");
  }
  // The second connection was accepted later, and yet it has waited longer since its last request.
  EXPECT_TRUE(Client(path_).ask(last("/echo")).ends_with("GET "));
  EXPECT_EQ(second.read(), "");
  first.send(last("/echo"));
  EXPECT_TRUE(first.read().ends_with("GET "));
}

// Whoever begins as many requests as there are places, and ends none, locks nobody out.
TEST_F(HttpServerRoom, AHeadThatDoesNotEndMakesRoomForAnother) {
  start({.most_connections = 3});
  Client busy(path_), first(path_), second(path_);
  busy.send(get("/never"));
  handler_.wait_for_asked(1);
  first.send("GET /echo HT");
  second.send("GET /echo HTTP/1.1\r\nHost: a\r\nX: ");
  for (int i = 0; i < 3; ++i) {
    const std::string answer = Client(path_).ask(last("/echo"));
    EXPECT_TRUE(answer.ends_with("GET ")) << answer;
  }
  busy.leave();
  handler_.wait_for_gone(1);
}

// A few large bodies that come slowly lock nobody out: the largest of them makes room.
TEST_F(HttpServerRoom, ALargeBodyThatIsComingMakesRoomForASmallerOne) {
  start({.limits = {.body_bytes = 100}, .most_body_bytes = 200});
  const auto head = [](int length) {
    return "POST /echo HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: " +
           std::to_string(length) + "\r\n\r\n";
  };
  const auto begin = [&](Client& client, int n_bytes) {
    client.send(
        "POST /echo HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 100\r\n"
        "Expect: 100-continue\r\n\r\n");
    EXPECT_NE(client.read("\r\n\r\n").find(" 100 "), std::string::npos);
    client.send(std::string(static_cast<size_t>(n_bytes), 'x'));
  };
  Client larger(path_), smaller(path_);
  begin(larger, 95);
  begin(smaller, 85);
  for (int i = 0; i < 3; ++i) {
    const std::string answer = Client(path_).ask(head(50) + std::string(50, 'y'));
    EXPECT_TRUE(answer.starts_with("HTTP/1.1 200 ")) << answer;
  }
  EXPECT_TRUE(larger.read().starts_with("HTTP/1.1 503 "));
  const std::string rest = smaller.ask(std::string(15, 'x'));
  EXPECT_TRUE(rest.starts_with("HTTP/1.1 200 ")) << rest;
}

// What clients do not read of whole answers is limited for all of them together.
TEST_F(HttpServerRoom, WhoReadsALargeAnswerSlowestMakesRoomForAnother) {
  start({.most_unsent_bytes = Echo::kLargeBytes * 3 / 2});
  Client first(path_), second(path_), third(path_);
  const auto ask = [](Client& client) {
    client.send(last("/large"));
    EXPECT_NE(client.read("\r\n\r\n").find(" 200 "), std::string::npos);
  };
  ask(first);
  EXPECT_EQ(first.read().size(), Echo::kLargeBytes);  // alone it may read as it likes
  ask(second);
  ask(third);
  EXPECT_LT(second.read().size(), Echo::kLargeBytes);
  EXPECT_EQ(third.read().size(), Echo::kLargeBytes);
}

}  // namespace
}  // namespace troika::http
