#include "http/server.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <condition_variable>
#include <cstring>
#include <filesystem>
#include <thread>

#include "base/error.h"
#include "tests/support/temp_folder.h"

namespace troika::http {
namespace {

// A handler that answers "/echo" at once, "/later" on a thread of its own, "/stream" with as many
// parts as the client reads, and "/never" not at all.
class Echo : public Handler {
 public:
  ~Echo() override {
    for (std::thread& thread : threads_) thread.join();
  }
  void on_request(const std::shared_ptr<Exchange>& exchange, Request request) override {
    if (request.path == "/echo") {
      exchange->reply({200, "text/plain", request.method + " " + request.body});
    } else if (request.path == "/later") {
      threads_.emplace_back([exchange] {
        exchange->begin({200, "text/plain", ""});
        exchange->write("one ");
        exchange->write("two");
        exchange->end();
      });
    } else if (request.path == "/stream") {
      threads_.emplace_back([this, exchange] { write_all(exchange); });
    } else {
      count(&n_asked_);
    }
  }
  void on_gone(const std::shared_ptr<Exchange>& exchange) override {
    EXPECT_TRUE(exchange->is_gone());
    count(&n_gone_);
  }
  void on_drained(const std::shared_ptr<Exchange>&) override { count(&n_drained_); }
  Response refusal(const Refusal& refusal, const std::string& path) override {
    return {refusal.status, "text/plain", path + ": " + refusal.why};
  }
  std::optional<Response> on_head(const Request& request) override {
    EXPECT_TRUE(request.body.empty());
    if (request.path != "/secret") return std::nullopt;
    return Response{401, "text/plain", "Who are you?"};
  }

  // Waits until n requests came that are never answered.
  void wait_for_asked(int n) {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [&] { return n_asked_ >= n; });
  }
  void wait_for_gone(int n) {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [&] { return n_gone_ >= n; });
  }
  size_t most_waiting() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return most_waiting_;
  }
  static constexpr int kParts = 4000;

 private:
  void write_all(const std::shared_ptr<Exchange>& exchange) {
    exchange->begin({200, "text/plain", ""});
    int seen = 0;
    for (int i = 0; i < kParts && !exchange->is_gone(); ++i) {
      exchange->write(std::string(1000, 'x'));
      if (!exchange->is_full()) continue;
      std::unique_lock<std::mutex> lock(mutex_);
      most_waiting_ = std::max(most_waiting_, static_cast<size_t>(i - seen));
      changed_.wait(lock, [&] { return n_drained_ > 0 || n_gone_ > 0; });
      n_drained_ = 0;
      seen = i;
    }
    exchange->end();
  }
  void count(int* counter) {
    const std::lock_guard<std::mutex> lock(mutex_);
    ++*counter;
    changed_.notify_all();
  }

  std::vector<std::thread> threads_;
  std::mutex mutex_;
  std::condition_variable changed_;
  int n_asked_ = 0, n_gone_ = 0, n_drained_ = 0;
  size_t most_waiting_ = 0;
};

class Client {
 public:
  explicit Client(const std::string& path) : socket_(socket(AF_UNIX, SOCK_STREAM, 0)) {
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, path.c_str(), sizeof(address.sun_path) - 1);
    EXPECT_EQ(connect(socket_.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    timeval most = {30, 0};
    setsockopt(socket_.get(), SOL_SOCKET, SO_RCVTIMEO, &most, sizeof(most));
  }
  void send(std::string_view bytes) const {
    while (!bytes.empty()) {
      const ssize_t n = ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (n <= 0) return;
      bytes.remove_prefix(static_cast<size_t>(n));
    }
  }
  // Reads everything up to `end`, or to the end of the connection.
  std::string read(std::string_view end = {}) {
    char buffer[4096];
    while (end.empty() || seen_.find(end) == std::string::npos) {
      const ssize_t n = recv(socket_.get(), buffer, sizeof(buffer), 0);
      if (n <= 0) break;
      seen_.append(buffer, static_cast<size_t>(n));
    }
    const size_t at =
        end.empty() ? seen_.size() : std::min(seen_.size(), seen_.find(end) + end.size());
    std::string part = seen_.substr(0, at);
    seen_.erase(0, at);
    return part;
  }
  std::string ask(std::string_view bytes) {
    send(bytes);
    return read();
  }
  void leave() { socket_.reset(); }
  void end_sending() const { shutdown(socket_.get(), SHUT_WR); }

 private:
  Descriptor socket_;
  std::string seen_;
};

class HttpServer : public testing::Test {
 protected:
  void start(const ServerOptions& options = {}) {
    path_ = folder_.file("s");
    std::vector<Listener> listeners;
    listeners.push_back(Listener::unix_socket(path_));
    server_ = std::make_unique<Server>(std::move(listeners), options, handler_);
    thread_ = std::thread([this] { server_->run(); });
  }
  void stop() {
    if (!thread_.joinable()) return;
    server_->stop();
    thread_.join();
    server_.reset();
  }
  void TearDown() override {
    if (server_ != nullptr) server_->stop();
    stop();
  }
  static std::string get(const std::string& path, const std::string& more = "") {
    return "GET " + path + " HTTP/1.1\r\nHost: a\r\n" + more + "\r\n";
  }
  static std::string last(const std::string& path) { return get(path, "Connection: close\r\n"); }

  test::TempFolder folder_;
  std::string path_;
  Echo handler_;
  std::unique_ptr<Server> server_;
  std::thread thread_;
};

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
  // The bodies of all requests together are limited too, and an answer frees its part.
  Client first(path_);
  first.send("POST /never HTTP/1.1\r\nHost: a\r\nContent-Length: 90\r\n\r\n" +
             std::string(90, 'x'));
  handler_.wait_for_asked(1);
  const std::string second = post + "90\r\nConnection: close\r\n\r\n" + std::string(90, 'x');
  EXPECT_TRUE(Client(path_).ask(second).starts_with("HTTP/1.1 503 "));
  first.leave();
  handler_.wait_for_gone(1);
  EXPECT_TRUE(Client(path_).ask(second).starts_with("HTTP/1.1 200 "));
}

// A few large bodies that come slowly lock nobody out: the largest of them makes room.
TEST_F(HttpServer, ALargeBodyThatIsComingMakesRoomForASmallerOne) {
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

TEST_F(HttpServer, ASilentConnectionMakesRoomForAnother) {
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

TEST_F(HttpServer, TheConnectionThatWaitedLongestMakesRoom) {
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
TEST_F(HttpServer, AHeadThatDoesNotEndMakesRoomForAnother) {
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

TEST_F(HttpServer, ASecondStopDoesNotWait) {
  start();
  Client client(path_);
  client.send(get("/never") + get("/echo"));
  handler_.wait_for_asked(1);
  server_->stop();
  server_->stop();
  stop();
}

TEST(Listeners, SayWhereTheyListen) {
  const Listener listener = Listener::tcp("127.0.0.1", 0);
  EXPECT_GT(listener.port(), 0);
  EXPECT_EQ(listener.name(), "http://127.0.0.1:" + std::to_string(listener.port()));
  EXPECT_THROW(Listener::tcp("127.0.0.1", listener.port()), Error);
  EXPECT_THROW(Listener::tcp("example.org", 0), UsageError);
}

TEST(Listeners, ReplaceSocketsThatAreLeftBehindAlone) {
  const test::TempFolder folder;
  const std::string path = folder.file("s");
  {
    const Listener listener = Listener::unix_socket(path);
    EXPECT_EQ(std::filesystem::status(path).permissions(), std::filesystem::perms(0600));
    EXPECT_THROW(Listener::unix_socket(path), Error);  // a server already listens there
  }
  EXPECT_FALSE(std::filesystem::exists(path));
  {
    Descriptor dead(socket(AF_UNIX, SOCK_STREAM, 0));
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, path.c_str(), sizeof(address.sun_path) - 1);
    ASSERT_EQ(bind(dead.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  }
  EXPECT_NO_THROW(Listener::unix_socket(path));
  test::write_whole(path, "precious");
  EXPECT_THROW(Listener::unix_socket(path), Error);
  EXPECT_THROW(Listener::unix_socket(std::string(200, 'a')), UsageError);
}

}  // namespace
}  // namespace troika::http
