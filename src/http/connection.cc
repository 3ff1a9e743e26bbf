#include "http/connection.h"

#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>

namespace troika::http {
namespace {

constexpr size_t kReadBytes = 65536;
constexpr int kMostReads = 4;
constexpr size_t kBodyStride = size_t{64} << 10;
constexpr size_t kWriteStride = size_t{16} << 10;
// Is the least number of sent bytes that are taken off the front of the buffer at once.
constexpr size_t kForgetBytes = size_t{64} << 10;

}  // namespace

Connection::Connection(Descriptor socket, const Limits& limits, const Patience& patience, Time now)
    : socket_(std::move(socket)), patience_(patience), parser_(limits) {
  begin_idle(now);
}

bool Connection::receive() {
  char buffer[kReadBytes];
  // The number of reads is limited, so that a client that sends without end lets others have a
  // turn.
  for (int i = 0; i < kMostReads && wants_to_read(); ++i) {
    const ssize_t n = recv(fd(), buffer, sizeof(buffer), 0);
    if (n > 0) {
      if (!is_lingering_ && !is_ending_) in_.append(buffer, static_cast<size_t>(n));
      continue;
    }
    if (n < 0 && errno == EINTR) continue;
    if (n == 0) saw_end_ = true;
    return n == 0 || errno == EAGAIN || errno == EWOULDBLOCK;
  }
  return true;
}

void Connection::parse(Time now) {
  if (in_.empty()) return;
  const bool was_idle = parser_.is_idle();
  in_.erase(0, parser_.push(in_));
  if (parser_.is_done() || parser_.is_refused()) {
    was_in_body_ = false;
    return;
  }
  if (was_idle && !parser_.is_idle()) deadline_ = now + seconds(patience_.head);
  if (!parser_.is_reading_body()) return;
  const size_t n = parser_.n_body_bytes();
  if (!was_in_body_ || n >= n_body_in_time_ + kBodyStride) {
    was_in_body_ = true;
    n_body_in_time_ = n;
    deadline_ = now + seconds(patience_.body);
  }
}

void Connection::send(std::string_view bytes, Time now) {
  if (n_unsent() == 0) {
    write_deadline_ = now + seconds(patience_.write);
    n_sent_in_time_ = 0;
  }
  out_ += bytes;
}

bool Connection::flush(Time now) {
  while (n_unsent() > 0) {
    const ssize_t n = ::send(fd(), out_.data() + n_sent_, n_unsent(), MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno == EAGAIN || errno == EWOULDBLOCK;
    n_sent_ += static_cast<size_t>(n);
    n_sent_in_time_ += static_cast<size_t>(n);
    if (n_sent_in_time_ >= kWriteStride) {
      n_sent_in_time_ = 0;
      write_deadline_ = now + seconds(patience_.write);
    }
    // What is unsent moves to the front, so at least as much must have been sent since the last
    // time.
    const bool is_half_sent = n_sent_ >= kForgetBytes && n_sent_ >= n_unsent();
    if (is_half_sent || n_unsent() == 0) {
      out_.erase(0, n_sent_);
      n_sent_ = 0;
    }
  }
  return true;
}

void Connection::linger(Time now) {
  is_lingering_ = true;
  in_.clear();
  deadline_ = now + seconds(patience_.linger);
  shutdown(fd(), SHUT_WR);
}

Connection::Late Connection::late(Time now) const {
  if (n_unsent() > 0) return now >= write_deadline_ ? Late::kWrite : Late::kNo;
  if (now < deadline_) return Late::kNo;
  if (is_lingering_) return Late::kLinger;
  if (exchange != nullptr || is_ending_) return Late::kNo;
  if (parser_.is_reading_body()) return Late::kBody;
  return parser_.is_idle() ? Late::kIdle : Late::kHead;
}

}  // namespace troika::http
