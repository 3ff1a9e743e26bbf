// A connection to one client: it reads requests from a socket and sends the answers in the order of
// the requests. Somebody else waits for the socket's events.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "http/exchange.h"
#include "http/listener.h"
#include "http/parser.h"

namespace troika::http {

using Time = std::chrono::steady_clock::time_point;

// How long a client may take for something before its connection ends, in seconds.
struct Patience {
  double idle = 75;   // limits the pause between requests
  double head = 10;   // limits the time from a request's first byte to the end of its head
  double body = 20;   // limits the time for each 64 KiB of a body, and for the rest of it
  double write = 30;  // limits the time to take each 16 KiB of an answer
  double linger = 2;  // limits the time to read the last answer and close the connection
};

class Connection {
 public:
  Connection(Descriptor socket, const Limits& limits, const Patience& patience, Time now);

  int fd() const { return socket_.get(); }
  Parser& parser() { return parser_; }
  const Parser& parser() const { return parser_; }

  // Limits the bytes that are read ahead of the request that is being answered.
  static constexpr size_t kMostAhead = size_t{64} << 10;
  // Limits the bytes of earlier answers that the client has yet to take before its next request is
  // answered.
  static constexpr size_t kMostBehind = size_t{64} << 10;
  // Reads what the socket has. Returns false where the connection is broken.
  bool receive();
  // Says that everything that came has been read, and that nothing more will come.
  bool saw_end() const { return saw_end_; }
  // Gives received bytes to the parser, up to the end of a request.
  void parse(Time now);
  bool has_unread() const { return !in_.empty(); }

  void send(std::string_view bytes, Time now);
  // Writes what the socket takes. Returns false where the connection is broken.
  bool flush(Time now);
  size_t n_unsent() const { return out_.size() - n_sent_; }
  // Returns when it ends if nothing more is taken. REQUIRES: something is unsent.
  Time unsent_until() const { return write_deadline_; }

  // Lets the connection end once everything is sent. What still comes is thrown away.
  void end_after_sending() {
    is_ending_ = true;
    in_.clear();
  }
  bool is_ending() const { return is_ending_; }
  // Tells the client that nothing more is sent, and waits a moment for the client to tell the same:
  // closing the socket at once could destroy bytes that the client has not read yet.
  void linger(Time now);
  bool is_lingering() const { return is_lingering_; }

  bool wants_to_read() const { return !saw_end_ && (is_lingering_ || in_.size() < kMostAhead); }
  // Says that no request has begun: the next byte is the first of one.
  bool is_idle() const { return exchange == nullptr && parser_.is_idle() && in_.empty(); }
  void begin_idle(Time now) { deadline_ = now + seconds(patience_.idle); }
  // Says that a request has begun and that its head is not whole.
  bool awaits_head() const {
    return exchange == nullptr && !is_ending_ && !parser_.is_idle() && parser_.is_reading_head();
  }
  // Returns when it ends if nothing more comes. REQUIRES: it is idle or awaits a head.
  Time waits_until() const { return deadline_; }

  enum class Late : uint8_t { kNo, kIdle, kHead, kBody, kWrite, kLinger };
  // Says what the client has taken too long for.
  Late late(Time now) const;

  // The request that is being answered; null between requests. The four marks below are about its
  // answer.
  std::shared_ptr<Exchange> exchange;
  bool is_begun = false;  // says that the answer's head is sent
  bool is_chunked = false;
  bool is_head_only = false;
  bool is_last = false;         // says that the connection ends behind the answer
  size_t n_body_counted = 0;    // counts the bytes of this body in the server's total
  size_t n_unsent_counted = 0;  // counts the unsent bytes in the server's total
  uint32_t events = 0;          // the events of the socket that the server waits for

 private:
  static std::chrono::steady_clock::duration seconds(double s) {
    return std::chrono::duration_cast<std::chrono::steady_clock::duration>(
        std::chrono::duration<double>(s));
  }

  Descriptor socket_;
  Patience patience_;
  Parser parser_;
  std::string in_;
  std::string out_;
  size_t n_sent_ = 0;          // counts bytes at the front of `out_` that are sent
  size_t n_sent_in_time_ = 0;  // counts bytes sent since the deadline for writing was set
  size_t n_body_in_time_ = 0;  // counts the body's bytes that had come when its deadline was set
  bool saw_end_ = false;
  bool is_ending_ = false;
  bool is_lingering_ = false;
  bool was_in_body_ = false;
  Time deadline_;        // the deadline for reading
  Time write_deadline_;  // the deadline for writing; it counts while something is unsent
};

}  // namespace troika::http
