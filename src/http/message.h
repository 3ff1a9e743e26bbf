// Requests and responses as plain data.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace troika::http {

struct Header {
  std::string name;  // of a request: in lower case
  std::string value;
};

struct Request {
  std::string method;
  std::string path;   // as it was sent: nothing is decoded
  std::string query;  // behind "?"
  std::vector<Header> headers;
  std::string body;
  int minor_version = 1;     // of HTTP/1
  bool wants_close = false;  // the connection is to end behind the answer

  // Null where there is none; the first of several. The name is in lower case.
  const std::string* header(std::string_view name) const;
};

struct Response {
  int status = 200;
  std::string type = "application/json";
  std::string body;
  std::vector<Header> headers{};  // beside those that every response has
};

// What is wrong with a request: a status and a sentence.
struct Refusal {
  int status = 0;
  std::string why;
};

// "Not Found" for 404.
const char* reason_of(int status);

// Whether two texts of ASCII are the same but for the case of letters.
bool is_same_word(std::string_view a, std::string_view b);

// The head of a response up to and with its empty line. `length` < 0: the body comes in chunks, or
// ends with the connection.
std::string head_of(const Response& response, long long length, bool is_chunked, bool is_last);

// One chunk of a body; REQUIRES that it is not empty, which would be the end.
std::string chunk_of(std::string_view bytes);
inline constexpr std::string_view kLastChunk = "0\r\n\r\n";
inline constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";

}  // namespace troika::http
