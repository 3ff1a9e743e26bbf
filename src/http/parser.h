// Makes requests of a connection's bytes, as HTTP/1.1 (RFC 9112). No two readers may ever
// understand one request differently, so whatever could be read in two ways is refused, and so is
// what no client of this server needs, though the RFC has servers read it: targets with a host,
// extensions of chunks and headers behind a body.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "http/message.h"

namespace troika::http {

struct Limits {
  size_t target_bytes = 4096;
  size_t head_bytes = 32768;  // limits the request line and all headers together
  int n_headers = 100;
  size_t body_bytes = size_t{16} << 20;
};

class Parser {
 public:
  explicit Parser(const Limits& limits) : limits_(limits) {}

  // Takes bytes up to the end of the request, or to what is wrong with it. Also stops at the end of
  // a head that announces a body. Returns the number of bytes that it took.
  size_t push(std::string_view bytes);

  bool is_idle() const { return state_ == State::kBegin && line_.empty(); }
  bool is_done() const { return state_ == State::kDone; }
  bool is_refused() const { return state_ == State::kRefused; }
  bool is_reading_head() const { return state_ <= State::kHeaders; }
  bool is_reading_body() const { return state_ >= State::kBody && state_ < State::kDone; }
  // Returns what is wrong. Nothing can be read behind it. REQUIRES: is_refused().
  const Refusal& refusal() const { return refusal_; }
  // Says that the last bytes taken end a head that announces a body. The next push() reads the
  // body.
  bool has_new_head() const { return has_new_head_; }
  // Says that the head is there and that the client waits for "100 Continue" before the body.
  bool awaits_continue() const { return expects_continue_ && is_reading_body(); }
  void told_continue() { expects_continue_ = false; }
  // Counts the bytes of the body that are here.
  size_t n_body_bytes() const { return request_.body.size(); }
  // Gives the memory of the body back. Nothing may be read from this connection behind it.
  void drop_body() { std::string().swap(request_.body); }
  // Returns the request as far as it is known. The method, for example, decides whether the answer
  // to a refused request has a body.
  const Request& request() const { return request_; }

  // Returns the request, and begins to read the next one. REQUIRES: is_done().
  Request take();

 private:
  // The states come in the order of the bytes.
  enum class State : uint8_t {
    kBegin,  // reads the request line
    kHeaders,
    kBody,       // reads a body whose length the head says
    kChunkSize,  // reads the line before a chunk
    kChunk,
    kChunkEnd,  // reads the line end behind a chunk
    kTrailer,   // reads the empty line behind the last chunk
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
  size_t n_left_ = 0;  // counts the bytes of the body, or of its chunk, that are still to come
  bool has_new_head_ = false;
  bool expects_continue_ = false;
  bool saw_empty_line_ = false;  // says that an empty line stood before the request line
};

}  // namespace troika::http
