// Bytes of a connection to requests: strict HTTP/1.1 (RFC 9112). Two readers of one request must
// never see two different ones, so whatever could be read in two ways is refused.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "http/message.h"

namespace troika::http {

struct Limits {
  size_t target_bytes = 4096;
  size_t head_bytes = 32768;  // the request line and all headers
  int n_headers = 100;
  size_t body_bytes = size_t{16} << 20;
};

class Parser {
 public:
  explicit Parser(const Limits& limits) : limits_(limits) {}

  // Takes bytes up to the end of the request, or to what is wrong with it; returns how many.
  size_t push(std::string_view bytes);

  bool is_idle() const { return state_ == State::kBegin && line_.empty(); }
  bool is_done() const { return state_ == State::kDone; }
  bool is_refused() const { return state_ == State::kRefused; }
  bool is_reading_body() const { return state_ >= State::kBody && state_ < State::kDone; }
  // What is wrong; nothing can be read behind it. REQUIRES: is_refused().
  const Refusal& refusal() const { return refusal_; }
  // The head is there and the client waits for a word before it sends the body.
  bool awaits_continue() const { return expects_continue_ && is_reading_body(); }
  void told_continue() { expects_continue_ = false; }
  // Bytes of the body that are here.
  size_t n_body_bytes() const { return request_.body.size(); }
  // What of the head is known, as for whether the answer to a refusal has a body.
  const Request& request() const { return request_; }

  // The request, behind which another one may come. REQUIRES: is_done().
  Request take();

 private:
  // The states come in the order of the bytes.
  enum class State : uint8_t {
    kBegin,  // the request line
    kHeaders,
    kBody,       // of a length that is known
    kChunkSize,  // a line before each chunk
    kChunk,
    kChunkEnd,  // the line end behind a chunk
    kTrailer,   // the empty line behind the last one
    kDone,
    kRefused,
  };
  struct Framing {
    bool has_length = false;
    bool is_chunked = false;
    int n_hosts = 0;
    size_t length = 0;
  };

  void refuse(int status, std::string why);
  size_t push_line(std::string_view bytes);
  size_t push_body(std::string_view bytes);
  void check_line_size();
  void end_line();
  void read_request_line(std::string_view line);
  void read_target(std::string_view target);
  void read_header(std::string_view line);
  void read_framing(const Header& header);
  void read_length(const std::string& value);
  void read_connection(std::string_view value);
  void end_head();
  void read_chunk_size(std::string_view line);

  Limits limits_;
  State state_ = State::kBegin;
  Refusal refusal_;
  Request request_;
  Framing framing_;
  std::string line_;
  size_t n_head_bytes_ = 0;
  size_t n_left_ = 0;  // of the body, or of its chunk
  bool expects_continue_ = false;
  bool saw_empty_line_ = false;  // before the request line
};

}  // namespace troika::http
