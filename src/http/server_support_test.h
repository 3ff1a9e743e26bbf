// A server behind a socket file with a handler that does what a path says, and clients of it.
#pragma once

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "http/server.h"
#include "tests/support/temp_folder.h"

namespace troika::http {

// A handler that answers "/echo" at once, "/large" with kLargeBytes, "/later" on a thread of its
// own, "/stream" with as many parts as the client reads, and "/never" and "/keep" not at all. The
// request for "/keep" is held until some client has left.
class Echo : public Handler {
 public:
  ~Echo() override {
    for (std::thread& thread : threads_) thread.join();
  }
  void on_request(const std::shared_ptr<Exchange>& exchange, Request request) override {
    if (request.path == "/echo") {
      exchange->reply({200, "text/plain", request.method + " " + request.body});
    } else if (request.path == "/large") {
      count(&n_large_);
      exchange->reply({200, "text/plain", std::string(kLargeBytes, 'x')});
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
      if (request.path == "/keep") {
        kept_.push_back(std::move(request));
        keeping_ = exchange;
      }
      count(&n_asked_);
    }
  }
  void on_gone(const std::shared_ptr<Exchange>& exchange) override {
    EXPECT_TRUE(exchange->is_gone());
    kept_.clear();
    count(&n_gone_);
  }
  void on_drained(const std::shared_ptr<Exchange>&) override { count(&n_drained_); }
  void on_time_up(const std::shared_ptr<Exchange>& exchange) override {
    exchange->reply({503, "text/plain", "too late"});
  }
  // Holds more bytes for the request for "/keep". REQUIRES: it was asked for.
  std::shared_ptr<const HeldBytes> hold_more(size_t n_bytes) const {
    return keeping_->hold(n_bytes);
  }
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
  int n_gone() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return n_gone_;
  }
  // Counts requests for "/large".
  int n_large() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return n_large_;
  }
  size_t most_waiting() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return most_waiting_;
  }
  static constexpr int kParts = 4000;
  static constexpr size_t kLargeBytes = size_t{4} << 20;

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
  std::vector<Request> kept_;
  std::shared_ptr<Exchange> keeping_;  // of the last request for "/keep"
  std::mutex mutex_;
  std::condition_variable changed_;
  int n_asked_ = 0, n_gone_ = 0, n_drained_ = 0, n_large_ = 0;
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

}  // namespace troika::http
