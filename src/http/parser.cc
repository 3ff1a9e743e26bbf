#include "http/parser.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "base/error.h"

namespace troika::http {
namespace {

constexpr size_t kMostMethodBytes = 32;
constexpr size_t kMostChunkLineBytes = 16;
// Lengths of more digits are refused before anybody computes with them.
constexpr size_t kMostLengthDigits = 15;
constexpr const char* kLongChunk = "A chunk of the body is longer than its length says.";
constexpr const char* kLateHeaders =
    "Headers behind a body in chunks are not read. Send them before it.";

bool is_token_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string_view::npos;
}

bool is_token(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), is_token_character);
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

bool is_control(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return (byte < 0x20 && c != '\t' && c != '\r' && c != '\n') || byte == 0x7f;
}

bool is_visible(char c) { return c > 0x20 && c < 0x7f; }

std::string_view trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

bool may_have_body(std::string_view method) {
  return method == "POST" || method == "PUT" || method == "PATCH";
}

bool is_known_method(std::string_view method) {
  return may_have_body(method) || method == "GET" || method == "HEAD" || method == "DELETE" ||
         method == "OPTIONS";
}

}  // namespace

void Parser::refuse(int status, std::string why) {
  refusal_ = {status, std::move(why)};
  state_ = State::kRefused;
}

size_t Parser::push(std::string_view bytes) {
  size_t n = 0;
  has_new_head_ = false;
  while (n < bytes.size() && state_ < State::kDone && !has_new_head_) {
    const std::string_view rest = bytes.substr(n);
    const bool is_data = state_ == State::kBody || state_ == State::kChunk;
    n += is_data ? push_body(rest) : push_line(rest);
  }
  return n;
}

// Looks at a line's bytes as they come, so that what can never become a request is refused at once.
size_t Parser::push_line(std::string_view bytes) {
  const size_t end = bytes.find('\n');
  const size_t n = end == std::string_view::npos ? bytes.size() : end + 1;
  const std::string_view part = bytes.substr(0, n);
  if (std::any_of(part.begin(), part.end(), is_control)) {
    const bool is_tls = state_ == State::kBegin && line_.empty() && part.front() == 0x16;
    refuse(400, is_tls ? "This is HTTPS, but the server speaks plain HTTP. Write http:// instead."
                       : "The head of the request holds a control character.");
    return n;
  }
  line_ += part;
  if (state_ <= State::kHeaders) n_head_bytes_ += n;
  check_line_size();
  if (state_ == State::kRefused) return n;
  const size_t carriage = line_.find('\r');
  const bool is_whole = end != std::string_view::npos;
  const size_t allowed = is_whole ? line_.size() - 2 : line_.size() - 1;
  if ((is_whole && carriage == std::string::npos) ||
      (carriage != std::string::npos && (line_.size() < 2 ? is_whole : carriage != allowed))) {
    refuse(400, "Lines of a request end with CR and LF, and neither stands alone.");
    return n;
  }
  if (is_whole) end_line();
  return n;
}

void Parser::check_line_size() {
  if (state_ == State::kBegin && line_.size() > limits_.target_bytes + kMostMethodBytes) {
    refuse(414, fmt::format("The request line has more than {} bytes.", limits_.target_bytes));
  } else if (state_ == State::kHeaders && n_head_bytes_ > limits_.head_bytes) {
    refuse(431, fmt::format("The head of the request has more than {} bytes.", limits_.head_bytes));
  } else if (state_ > State::kHeaders && line_.size() > kMostChunkLineBytes) {
    const char* const why =
        "The line before a chunk is too long: it holds a length and no extension.";
    refuse(400, state_ == State::kChunkEnd  ? kLongChunk
                : state_ == State::kTrailer ? kLateHeaders
                                            : why);
  }
}

void Parser::end_line() {
  std::string whole;
  whole.swap(line_);
  const std::string_view line = std::string_view(whole).substr(0, whole.size() - 2);
  switch (state_) {
    case State::kBegin:
      // Some clients send a line end behind a body, so one empty line before a request is allowed.
      if (line.empty() && !saw_empty_line_) {
        saw_empty_line_ = true;
      } else {
        read_request_line(line);
      }
      break;
    case State::kHeaders:
      if (line.empty()) {
        end_head();
      } else {
        read_header(line);
      }
      break;
    case State::kChunkSize:
      read_chunk_size(line);
      break;
    case State::kChunkEnd:
      if (!line.empty()) {
        refuse(400, kLongChunk);
      } else {
        state_ = State::kChunkSize;
      }
      break;
    case State::kTrailer:
      if (!line.empty()) {
        refuse(400, kLateHeaders);
      } else {
        state_ = State::kDone;
      }
      break;
    default:
      TROIKA_ASSERT(false);
  }
}

void Parser::read_request_line(std::string_view line) {
  const size_t first = line.find(' ');
  const size_t second = first == std::string_view::npos ? first : line.find(' ', first + 1);
  if (second == std::string_view::npos || line.find(' ', second + 1) != std::string_view::npos) {
    refuse(400, "The first line of a request is METHOD TARGET HTTP/1.1 with single spaces.");
    return;
  }
  const std::string_view method = line.substr(0, first), version = line.substr(second + 1);
  if (!is_token(method)) {
    refuse(400, "The method of the request is no word.");
  } else if (version.size() != 8 || !version.starts_with("HTTP/") || !is_digit(version[5]) ||
             version[6] != '.' || !is_digit(version[7])) {
    refuse(400, "The first line of a request ends with HTTP/1.1.");
  } else if (version[5] != '1') {
    refuse(505, "This server speaks HTTP/1.1 and HTTP/1.0.");
  } else if (!is_known_method(method)) {
    refuse(501, "This server does not know the method of the request.");
  } else {
    request_.method = method;
    request_.minor_version = std::min(version[7] - '0', 1);  // later ones are read as 1.1
    request_.wants_close = request_.minor_version == 0;
    state_ = State::kHeaders;
    read_target(line.substr(first + 1, second - first - 1));
  }
}

void Parser::read_target(std::string_view target) {
  if (target.size() > limits_.target_bytes) {
    refuse(414, fmt::format("The target has more than {} bytes.", limits_.target_bytes));
    return;
  }
  const bool is_plain = std::all_of(target.begin(), target.end(), is_visible) &&
                        target.find('#') == std::string_view::npos;
  if (!target.starts_with('/') || !is_plain) {
    refuse(400, "The target of a request is a path such as /health; this server is no proxy.");
    return;
  }
  const size_t question = std::min(target.find('?'), target.size());
  request_.path = target.substr(0, question);
  request_.query = target.substr(std::min(question + 1, target.size()));
}

void Parser::read_header(std::string_view line) {
  const size_t colon = line.find(':');
  if (line.front() == ' ' || line.front() == '\t') {
    refuse(400, "A header that goes on in another line is not read.");
    return;
  }
  if (colon == std::string_view::npos || !is_token(line.substr(0, colon))) {
    refuse(400, "A header is NAME: VALUE, without a space before the colon.");
    return;
  }
  if (request_.headers.size() >= static_cast<size_t>(limits_.n_headers)) {
    refuse(431, fmt::format("The request has more than {} headers.", limits_.n_headers));
    return;
  }
  Header header{std::string(line.substr(0, colon)), std::string(trimmed(line.substr(colon + 1)))};
  for (char& c : header.name) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  read_framing(header);
  request_.headers.push_back(std::move(header));
}

// Reads headers that say where the request ends, and what happens to the connection then.
void Parser::read_framing(const Header& header) {
  if (header.name == "content-length") {
    read_length(header.value);
  } else if (header.name == "transfer-encoding") {
    if (framing_.is_chunked) {
      refuse(400, "The request has two headers Transfer-Encoding.");
    } else if (!is_same_word(header.value, "chunked")) {
      refuse(501, "Of transfer encodings the server knows chunked alone.");
    }
    framing_.is_chunked = true;
  } else if (header.name == "host") {
    if (++framing_.n_hosts > 1) refuse(400, "The request has two headers Host.");
  } else if (header.name == "expect") {
    if (is_same_word(header.value, "100-continue")) {
      expects_continue_ = request_.minor_version > 0;
    } else {
      refuse(417, "Of expectations the server knows 100-continue alone.");
    }
  } else if (header.name == "connection") {
    read_connection(header.value);
  }
}

void Parser::read_length(const std::string& value) {
  if (framing_.has_length) {
    refuse(400, "The request has two headers Content-Length.");
    return;
  }
  if (value.empty() || !std::all_of(value.begin(), value.end(), is_digit)) {
    refuse(400, "Content-Length is a number of bytes in decimal digits.");
    return;
  }
  framing_.has_length = true;
  framing_.length = limits_.body_bytes + 1;
  const size_t n_zeros = std::min(value.find_first_not_of('0'), value.size() - 1);
  if (value.size() - n_zeros <= kMostLengthDigits) {
    std::from_chars(value.data() + n_zeros, value.data() + value.size(), framing_.length);
  }
}

void Parser::read_connection(std::string_view value) {
  while (!value.empty()) {
    const size_t comma = std::min(value.find(','), value.size());
    if (is_same_word(trimmed(value.substr(0, comma)), "close")) request_.wants_close = true;
    value.remove_prefix(std::min(comma + 1, value.size()));
  }
}

void Parser::end_head() {
  if (framing_.n_hosts == 0 && request_.minor_version > 0) {
    refuse(400, "A request of HTTP/1.1 needs the header Host.");
  } else if (framing_.is_chunked && framing_.has_length) {
    refuse(400, "The request has both Content-Length and Transfer-Encoding.");
  } else if (framing_.is_chunked && request_.minor_version == 0) {
    refuse(400, "A request of HTTP/1.0 cannot come in chunks.");
  } else if (framing_.is_chunked) {
    state_ = State::kChunkSize;
  } else if (framing_.length > limits_.body_bytes) {
    refuse(413, fmt::format("The body has more than {} bytes.", limits_.body_bytes));
  } else {
    request_.lacks_length = !framing_.has_length && may_have_body(request_.method);
    n_left_ = framing_.length;
    state_ = n_left_ > 0 ? State::kBody : State::kDone;
  }
  has_new_head_ = is_reading_body();
}

void Parser::read_chunk_size(std::string_view line) {
  size_t size = 0;
  const char* const end = line.data() + line.size();
  const auto number = std::from_chars(line.data(), end, size, 16);
  // std::from_chars() would accept a sign, which a chunk's length must not have.
  const bool begins_well = !line.empty() && line.front() != '-' && line.front() != '+';
  if (!begins_well || number.ec != std::errc() || number.ptr != end) {
    refuse(400, "The line before a chunk is its length in hexadecimal digits, and nothing else.");
  } else if (size > limits_.body_bytes - request_.body.size()) {
    refuse(413, fmt::format("The body has more than {} bytes.", limits_.body_bytes));
  } else {
    n_left_ = size;
    state_ = size > 0 ? State::kChunk : State::kTrailer;
  }
}

size_t Parser::push_body(std::string_view bytes) {
  const size_t n = std::min(bytes.size(), n_left_);
  request_.body += bytes.substr(0, n);
  n_left_ -= n;
  if (n_left_ == 0) state_ = state_ == State::kBody ? State::kDone : State::kChunkEnd;
  return n;
}

Request Parser::take() {
  TROIKA_ASSERT(is_done());
  Request request = std::move(request_);
  *this = Parser(limits_);
  return request;
}

}  // namespace troika::http
