// One connection: bytes in, requests out, and answers back in their order. It knows its socket, but
// not who waits for its events.
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
  double idle = 75;   // between requests
  double head = 10;   // from the first byte to the end of the head
  double body = 20;   // for each 64 KiB of the body, and for what is left of it
  double write = 30;  // for each 16 KiB of an answer
  double linger = 2;  // to read why it was refused
};

class Connection {
 public:
  Connection(Descriptor socket, const Limits& limits, const Patience& patience, Time now);

  int fd() const { return socket_.get(); }
  Parser& parser() { return parser_; }

  // What came and is not yet a request; read no more than this much ahead.
  static constexpr size_t kMostAhead = size_t{64} << 10;
  // Reads what is there. False where the connection is broken.
  bool receive();
  // Everything that came has been read, and nothing more will come.
  bool saw_end() const { return saw_end_; }
  // Gives received bytes to the parser, up to the end of a request.
  void parse(Time now);
  bool has_unread() const { return !in_.empty(); }

  void send(std::string_view bytes, Time now);
  // Writes what the socket takes. False where the connection is broken.
  bool flush(Time now);
  size_t n_unsent() const { return out_.size() - n_sent_; }

  // The connection ends once everything is sent; what still comes is thrown away.
  void end_after_sending() { is_ending_ = true; }
  bool is_ending() const { return is_ending_; }
  // Says that nothing more is sent, and waits a moment for the client to do the same: to close at
  // once could destroy what it has not read yet.
  void linger(Time now);
  bool is_lingering() const { return is_lingering_; }

  bool wants_to_read() const { return !saw_end_ && (is_lingering_ || in_.size() < kMostAhead); }
  // The next request begins with the next byte.
  bool is_idle() const { return exchange == nullptr && parser_.is_idle() && in_.empty(); }
  void begin_idle(Time now) { deadline_ = now + seconds(patience_.idle); }

  enum class Late : uint8_t { kNo, kIdle, kHead, kBody, kWrite, kLinger };
  // Says what the client has taken too long for.
  Late late(Time now) const;

  // The request that is being answered; null between requests. Of its answer:
  std::shared_ptr<Exchange> exchange;
  bool is_begun = false;  // the head is sent
  bool is_chunked = false;
  bool is_head_only = false;
  bool is_last = false;       // the connection ends behind it
  size_t n_body_counted = 0;  // of bodies, by the server
  uint32_t events = 0;        // that the server waits for

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
  size_t n_sent_ = 0;          // of `out_`
  size_t n_sent_in_time_ = 0;  // since the deadline for writing was set
  size_t n_body_in_time_ = 0;  // bytes of the body when its deadline was set
  bool saw_end_ = false;
  bool is_ending_ = false;
  bool is_lingering_ = false;
  bool was_in_body_ = false;
  Time deadline_;        // for reading
  Time write_deadline_;  // while there is something unsent
};

}  // namespace troika::http
