#include "http/server.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <thread>

#include "http/server_support_test.h"

namespace troika::http {
namespace {

TEST_F(HttpServer, AnswersOneAfterAnotherOnOneConnection) {
  start();
  Client client(path_);
  client.send(get("/echo") + get("/later") +
              "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nab" +
              "HEAD /echo HTTP/1.1\r\nHost: a\r\n\r\n" + last("/echo"));
  const std::string all = client.read();
  EXPECT_TRUE(all.starts_with("HTTP/1.1 200 OK\r\nDate: ")) << all;
  EXPECT_NE(all.find("Content-Length: 4\r\n\r\nGET HTTP"), std::string::npos) << all;
  EXPECT_NE(all.find("chunked\r\n\r\n4\r\none \r\n3\r\ntwo\r\n0\r\n\r\nHTTP"), std::string::npos)
      << all;
  EXPECT_NE(all.find("\r\n\r\nPOST abHTTP"), std::string::npos) << all;
  EXPECT_NE(all.find("Content-Length: 5\r\n\r\nHTTP"), std::string::npos) << all;
  EXPECT_TRUE(all.ends_with("Connection: close\r\n\r\nGET ")) << all;
}

TEST_F(HttpServer, StreamsToOldClientsUntilTheConnectionEnds) {
  start();
  const std::string all = Client(path_).ask("GET /later HTTP/1.0\r\n\r\n");
  EXPECT_TRUE(all.ends_with("\r\n\r\none two")) << all;
  EXPECT_EQ(all.find("chunked"), std::string::npos) << all;
}

TEST_F(HttpServer, AsksForTheBodyOfWhoWaits) {
  start();
  Client client(path_);
  client.send(
      "POST /echo HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 2\r\n"
      "Connection: close\r\n\r\n");
  EXPECT_EQ(client.read("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  EXPECT_TRUE(client.ask("ab").ends_with("\r\n\r\nPOST ab"));
}

TEST_F(HttpServer, RefusesAHeadBeforeItsBodyComes) {
  start();
  const std::string head = "POST /secret HTTP/1.1\r\nHost: a\r\n";
  for (const char* const more :
       {"Content-Length: 16000000\r\n\r\n", "Transfer-Encoding: chunked\r\n\r\n",
        "Expect: 100-continue\r\nContent-Length: 2\r\n\r\n", "Content-Length: 2\r\n\r\nab"}) {
    const std::string all = Client(path_).ask(head + more);
    EXPECT_TRUE(all.starts_with("HTTP/1.1 401 ")) << all;
    EXPECT_NE(all.find("Connection: close\r\n"), std::string::npos) << all;
    EXPECT_TRUE(all.ends_with("\r\n\r\nWho are you?")) << all;
  }
  // A body that comes at once with a good head is read as ever.
  EXPECT_TRUE(Client(path_)
                  .ask("POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n"
                       "Expect: 100-continue\r\nConnection: close\r\n\r\nab")
                  .ends_with("Connection: close\r\n\r\nPOST ab"));
}

TEST_F(HttpServer, RefusesAndEnds) {
  start({.limits = {.body_bytes = 100}, .most_body_bytes = 150});
  EXPECT_TRUE(Client(path_).ask("nonsense\r\n\r\n").starts_with("HTTP/1.1 400 Bad Request\r\n"));
  const std::string post = "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: ";
  const std::string large = Client(path_).ask(post + "101\r\n\r\n");
  EXPECT_TRUE(large.starts_with("HTTP/1.1 413 ")) << large;
  EXPECT_NE(large.find("\r\n\r\n/echo: The body has more"), std::string::npos) << large;
  // What the client sends behind a refused request does not destroy the refusal.
  const std::string all = Client(path_).ask("x\r\n" + std::string(1 << 20, 'x'));
  EXPECT_TRUE(all.starts_with("HTTP/1.1 400 ")) << all;
  const std::string head = Client(path_).ask("HEAD / HTTP/1.1\r\n\r\n");
  EXPECT_TRUE(head.starts_with("HTTP/1.1 400 ") && head.ends_with("\r\n\r\n")) << head;
}

// The bodies of all requests together are limited as long as somebody holds them, however long the
// answers take.
TEST_F(HttpServer, LimitsTheBodiesThatAreHeld) {
  start({.limits = {.body_bytes = 100}, .most_body_bytes = 150});
  const auto post = [](const std::string& path) {
    return "POST " + path + " HTTP/1.1\r\nHost: a\r\nContent-Length: 90\r\n";
  };
  const std::string body(90, 'x');
  const std::string second = post("/echo") + "Connection: close\r\n\r\n" + body;
  Client waiting(path_), keeping(path_);
  waiting.send(post("/never") + "\r\n" + body);
  handler_.wait_for_asked(1);
  EXPECT_TRUE(Client(path_).ask(second).starts_with("HTTP/1.1 200 "));
  keeping.send(post("/keep") + "\r\n" + body);
  handler_.wait_for_asked(2);
  EXPECT_TRUE(Client(path_).ask(second).starts_with("HTTP/1.1 503 "));
  // A handler may hold more than the server would take, and who sends no body is served.
  auto held = handler_.hold_more(1000);
  EXPECT_TRUE(Client(path_)
                  .ask("GET /echo HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
                  .starts_with("HTTP/1.1 200 "));
  held.reset();
  keeping.leave();
  handler_.wait_for_gone(1);
  EXPECT_TRUE(Client(path_).ask(second).starts_with("HTTP/1.1 200 "));
}

TEST_F(HttpServer, TellsThatAClientHasLeft) {
  start();
  Client client(path_);
  client.send(get("/never"));
  handler_.wait_for_asked(1);
  client.leave();
  handler_.wait_for_gone(1);
  Client half(path_);
  half.send(get("/never"));
  handler_.wait_for_asked(2);
  half.end_sending();
  handler_.wait_for_gone(2);
  EXPECT_EQ(half.read(), "");
  // The server also notices that a client has left which had sent requests ahead.
  Client eager(path_);
  eager.send(get("/never"));
  handler_.wait_for_asked(3);
  std::string ahead;
  while (ahead.size() < 2 * Connection::kMostAhead) ahead += get("/echo");
  eager.send(ahead);
  eager.leave();
  handler_.wait_for_gone(3);
}

TEST_F(HttpServer, AnswersWhatWasAskedBeforeTheClientEndedItsSide) {
  start();
  Client client(path_);
  client.send(get("/echo"));
  client.end_sending();
  EXPECT_TRUE(client.read().ends_with("\r\n\r\nGET "));
  Client several(path_);
  several.send(get("/echo") + get("/echo") + get("/echo"));
  several.end_sending();
  const std::string all = several.read();
  size_t n = 0;
  for (size_t at = 0; (at = all.find("\r\n\r\nGET ", at)) != std::string::npos; ++at) ++n;
  EXPECT_EQ(n, 3u) << all;
  // A body is read to its end, though it is longer than what is read ahead at once.
  const std::string body(200'000, 'x');
  Client large(path_);
  large.send("POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 200000\r\n\r\n" + body);
  large.end_sending();
  EXPECT_TRUE(large.read().ends_with("\r\n\r\nPOST " + body));
}

TEST_F(HttpServer, AnAnswerPausesBehindWhatNobodyReads) {
  start();
  Client client(path_);
  client.send(last("/stream"));
  const std::string head = client.read("\r\n\r\n");
  EXPECT_NE(head.find("200"), std::string::npos);
  const std::string all = client.read();
  size_t n = 0;
  for (const char c : all) n += c == 'x' ? 1 : 0;
  EXPECT_EQ(n, static_cast<size_t>(Echo::kParts) * 1000);
  // Between two pauses the server writes no more than may wait and what the socket took meanwhile.
  EXPECT_LT(handler_.most_waiting(), 3000u);
}

TEST_F(HttpServer, EndsThoseWhoAreTooSlow) {
  start({.patience = {.idle = 0.3, .head = 0.2, .body = 0.2, .write = 0.2, .linger = 0.1}});
  EXPECT_TRUE(Client(path_).ask("GET /echo HT").starts_with("HTTP/1.1 408 "));
  EXPECT_TRUE(Client(path_)
                  .ask("POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\na")
                  .starts_with("HTTP/1.1 408 "));
  EXPECT_EQ(Client(path_).read(), "");  // shows that a silent client is ended
  Client deaf(path_);
  deaf.send(get("/stream"));
  handler_.wait_for_gone(1);
}

TEST_F(HttpServer, StopsWhenAnswersUnderWayHaveEnded) {
  start();
  Client idle(path_), reading(path_);
  idle.send(get("/echo"));
  idle.read("GET ");
  reading.send(get("/stream"));
  reading.read("\r\n\r\n");
  server_->stop();
  EXPECT_EQ(idle.read(), "");
  EXPECT_TRUE(reading.read().ends_with("0\r\n\r\n"));
  stop();
  EXPECT_FALSE(std::filesystem::exists(path_));
}

TEST_F(HttpServer, EndsAConnectionWhoseAnswerWasNotReadYetWhenItStopped) {
  start({.grace = 1000});
  Client client(path_);
  client.send(get("/large"));
  client.read("\r\n\r\n");
  server_->stop();
  EXPECT_EQ(client.read().size(), Echo::kLargeBytes);
  EXPECT_EQ(client.ask(get("/echo")), "");
}

TEST_F(HttpServer, ListensNoMoreWhileAnswersUnderWayEnd) {
  start({.grace = 1e6});
  Client client(path_);
  client.send(get("/never"));
  handler_.wait_for_asked(1);
  server_->stop();
  while (std::filesystem::exists(path_)) std::this_thread::yield();
  stop();
}

TEST_F(HttpServer, WhoIsNotAnsweredInTimeIsToldSo) {
  start({.grace = 0, .last_words = 1e6});  // ends with the last connection
  Client client(path_);
  client.send(get("/never"));
  handler_.wait_for_asked(1);
  server_->stop();
  EXPECT_TRUE(client.read().ends_with("too late"));
  stop();
}

TEST_F(HttpServer, ASecondStopDoesNotWait) {
  start({.grace = 1e6});  // whoever waited would wait longer than any test may take
  Client client(path_);
  client.send(get("/never") + get("/echo"));
  handler_.wait_for_asked(1);
  server_->stop();
  server_->stop();
  stop();
}

}  // namespace
}  // namespace troika::http
