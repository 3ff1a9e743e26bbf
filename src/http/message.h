// Holds HTTP requests and responses as plain data, and writes the parts of a response as bytes.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace troika::http {

struct Header {
  std::string name;  // in lower case where the header belongs to a request
  std::string value;
};

struct Request {
  std::string method;
  std::string path;   // the path as it was sent: nothing is decoded
  std::string query;  // what stands behind "?"
  std::vector<Header> headers;
  // Counts the body's bytes for the server that limits them, until it is destroyed; may be null.
  std::shared_ptr<const void> counted{};
  std::string body;
  int minor_version = 1;     // 1 for HTTP/1.1, 0 for HTTP/1.0
  bool wants_close = false;  // says that the connection is to end behind the answer
  // Says that the method has a body and no header says how long, so that there is none.
  bool lacks_length = false;

  // Returns the value of the first header with this name, which is in lower case; null if there is
  // none.
  const std::string* header(std::string_view name) const;
};

struct Response {
  int status = 200;
  std::string type = "application/json";
  std::string body;
  std::vector<Header> headers{};  // headers beside those that every response has
};

// Says what is wrong with a request: an HTTP status and a sentence.
struct Refusal {
  int status = 0;
  std::string why;
};

// Returns the words for a status, e.g. "Not Found" for 404.
const char* reason_of(int status);

// Says whether two texts of ASCII are the same but for the case of letters.
bool is_same_word(std::string_view a, std::string_view b);

// Returns the head of a response up to and with its empty line. If `length` is negative, the body
// comes in chunks or ends with the connection.
std::string head_of(const Response& response, long long length, bool is_chunked, bool is_last);

// Returns one chunk of a body. REQUIRES that `bytes` is not empty: an empty chunk ends the body.
std::string chunk_of(std::string_view bytes);
inline constexpr std::string_view kLastChunk = "0\r\n\r\n";
inline constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";

}  // namespace troika::http
