// Tests whom the server ends where many want to be served.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <string>

#include "http/server_support_test.h"

namespace {

// Counts how many sockets the system shall refuse to watch, as one refuses that is out of memory.
std::atomic<int> n_watches_refused = 0;

}  // namespace

#if !defined(__SANITIZE_THREAD__)
// Stands before the system's function of this name. The sanitizer of threads has one of its own in
// this place, from which it learns what happens before what.
extern "C" int epoll_ctl(int epoll, int what, int fd, epoll_event* event) noexcept {
  if (what == EPOLL_CTL_ADD && n_watches_refused.load() > 0) {
    n_watches_refused.fetch_sub(1);
    errno = ENOSPC;
    return -1;
  }
  return static_cast<int>(syscall(SYS_epoll_ctl, epoll, what, fd, event));
}
#endif

namespace troika::http {
namespace {

using HttpServerRoom = HttpServer;

sockaddr_in on_this_machine(int port) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

// Returns this process's socket whose other end is the client's; -1 if there is none.
int other_end_of(int client) {
  sockaddr_in own = {}, peer = {};
  socklen_t size = sizeof(own);
  if (getsockname(client, reinterpret_cast<sockaddr*>(&own), &size) != 0) return -1;
  for (int fd = 0; fd < 1024; ++fd) {
    size = sizeof(peer);
    if (getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &size) != 0) continue;
    if (peer.sin_family == AF_INET && peer.sin_port == own.sin_port) return fd;
  }
  return -1;
}

// A client that has gone without a word, its cable pulled, is missed by the system, which the
// server has asked to look.
TEST_F(HttpServerRoom, SilentClientsAreAskedWhetherTheyLive) {
  std::vector<Listener> listeners;
  listeners.push_back(Listener::tcp("127.0.0.1", 0));
  const sockaddr_in address = on_this_machine(listeners.front().port());
  server_ = std::make_unique<Server>(std::move(listeners), ServerOptions(), handler_);
  thread_ = std::thread([this] { server_->run(); });
  const Descriptor client(socket(AF_INET, SOCK_STREAM, 0));
  ASSERT_EQ(connect(client.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  const std::string request = get("/never");
  ASSERT_GT(::send(client.get(), request.data(), request.size(), 0), 0);
  handler_.wait_for_asked(1);
  const int accepted = other_end_of(client.get());
  ASSERT_GE(accepted, 0);
  int is_asked = 0;
  socklen_t size = sizeof(is_asked);
  ASSERT_EQ(getsockopt(accepted, SOL_SOCKET, SO_KEEPALIVE, &is_asked, &size), 0);
  EXPECT_NE(is_asked, 0);
}

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
  // A newcomer that sends nothing reads why it is turned away: bytes that the server has not read
  // when it closes a socket could destroy what it has sent.
  const std::string answer = Client(path_).read();
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 503 ")) << answer;
  EXPECT_EQ(handler_.n_gone(), 0);
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

// A system that watches no more sockets for now ends no server.
TEST_F(HttpServerRoom, WhoCannotBeWaitedForIsTurnedAway) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the sanitizer of threads must see which sockets are watched";
#endif
  start();
  Client before(path_);
  before.send(get("/echo"));
  EXPECT_TRUE(before.read("GET ").ends_with("GET "));
  n_watches_refused = 1;
  EXPECT_TRUE(Client(path_).read().starts_with("HTTP/1.1 503 "));
  EXPECT_EQ(n_watches_refused, 0);
  EXPECT_TRUE(Client(path_).ask(last("/echo")).ends_with("GET "));
  EXPECT_TRUE(before.ask(last("/echo")).ends_with("GET "));
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

// An answer larger than all clients together may leave unread would be ended in the middle.
TEST_F(HttpServerRoom, AnAnswerThatIsLargerThanAnyMayBeIsASentence) {
  start({.most_unsent_bytes = Echo::kLargeBytes / 2});
  const std::string answer = Client(path_).ask(last("/large"));
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 500 ")) << answer.substr(0, 100);
  EXPECT_NE(answer.find("larger than what this server sends"), std::string::npos);
}

// Who sends requests and takes no answers has only some of them answered.
TEST_F(HttpServerRoom, RequestsWaitUntilEarlierAnswersAreTaken) {
  constexpr int kRequests = 5;
  start();
  Client client(path_);
  std::string requests;
  for (int i = 1; i < kRequests; ++i) requests += "GET /large HTTP/1.1\r\nhost: x\r\n\r\n";
  client.send(requests + last("/large"));
  // The server has looked at this client when others have been answered.
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(Client(path_).ask(last("/echo")).ends_with("GET "));
  EXPECT_EQ(handler_.n_large(), 1);
  const std::string all = client.read();
  constexpr int64_t kOfHead = 1;  // counts those of "text/plain"
  EXPECT_EQ(std::count(all.begin(), all.end(), 'x'), kRequests * (kOfHead + Echo::kLargeBytes));
}

}  // namespace
}  // namespace troika::http
