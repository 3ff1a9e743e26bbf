#include "tests/support/http_client.h"

#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <charconv>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <utility>

namespace troika::test_support {
namespace {

// A sanitizer makes minutes of seconds of work, where other tests compute too.
constexpr int kMostSeconds = 600;
constexpr size_t kMostChunkBytes = size_t{1} << 30;

}  // namespace

HttpClient::HttpClient(const std::string& socket_path) : socket_(socket(AF_UNIX, SOCK_STREAM, 0)) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, socket_path.c_str(), sizeof(address.sun_path) - 1);
  if (connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) {
    close(socket_);
    throw std::runtime_error("Nobody listens at " + socket_path);
  }
  const timeval most = {kMostSeconds, 0};
  setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &most, sizeof(most));
}

HttpClient::~HttpClient() { leave(); }

void HttpClient::leave() {
  if (socket_ >= 0) close(socket_);
  socket_ = -1;
}

void HttpClient::send(std::string_view bytes) const {
  while (!bytes.empty()) {
    const ssize_t n = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n <= 0) return;
    bytes.remove_prefix(static_cast<size_t>(n));
  }
}

bool HttpClient::read_more() {
  char buffer[4096];
  const ssize_t n = recv(socket_, buffer, sizeof(buffer), 0);
  if (n > 0) seen_.append(buffer, static_cast<size_t>(n));
  return n > 0;
}

std::string HttpClient::read_until(std::string_view text) {
  while (seen_.find(text) == std::string::npos && read_more()) {
  }
  return std::exchange(seen_, "");
}

HttpAnswer HttpClient::get(const std::string& path, const std::string& headers) {
  send("GET " + path + " HTTP/1.1\r\nHost: localhost\r\n" + headers + "\r\n");
  return read_answer();
}

HttpAnswer HttpClient::post(const std::string& path, std::string_view json,
                            const std::string& headers) {
  send("POST " + path +
       " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: " +
       std::to_string(json.size()) + "\r\n" + headers + "\r\n" + std::string(json));
  return read_answer();
}

HttpAnswer HttpClient::read_answer() {
  HttpAnswer answer = read_what_comes();
  // A server that closes without a word has given no answer, which callers see by its status.
  if (answer.status != 0 && !answer.is_whole) {
    throw std::runtime_error("An answer was cut short:\n" + answer.head + "\n" + answer.body);
  }
  return answer;
}

HttpAnswer HttpClient::read_what_comes() {
  HttpAnswer answer;
  size_t end = std::string::npos;
  while ((end = seen_.find("\r\n\r\n")) == std::string::npos) {
    if (!read_more()) return answer;
  }
  answer.head = seen_.substr(0, end + 2);
  seen_.erase(0, end + 4);
  answer.status = std::atoi(answer.head.c_str() + answer.head.find(' '));
  const size_t length = answer.head.find("Content-Length: ");
  if (length != std::string::npos) {
    const auto n = static_cast<size_t>(std::atoll(answer.head.c_str() + length + 16));
    while (seen_.size() < n && read_more()) {
    }
    answer.is_whole = seen_.size() >= n;
    answer.body = seen_.substr(0, n);
    seen_.erase(0, n);
    return answer;
  }
  while (true) {  // takes one chunk in each turn
    const size_t line = seen_.find("\r\n");
    size_t n = 0;
    if (line != std::string::npos) {
      const char* const end_of_line = seen_.data() + line;
      const auto [end, problem] = std::from_chars(seen_.data(), end_of_line, n, 16);
      if (problem != std::errc() || end != end_of_line || n > kMostChunkBytes) return answer;
    }
    if (line == std::string::npos || seen_.size() < line + 2 + n + 2) {
      if (!read_more()) return answer;
      continue;
    }
    answer.is_whole = n == 0;
    answer.body += seen_.substr(line + 2, n);
    seen_.erase(0, line + 2 + n + 2);
    if (n == 0) return answer;
  }
}

}  // namespace troika::test_support
