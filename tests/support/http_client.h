// A client of an HTTP server at a unix socket. It sends one request at a time, or bytes as they
// are.
#pragma once

#include <string>
#include <string_view>

namespace troika::test_support {

struct HttpAnswer {
  int status = 0;  // stays 0 where no answer came
  std::string head;
  std::string body;  // leaves out the lengths of chunks
  // Says whether the body has the length that the head tells, or ends with the chunk that says so.
  bool is_whole = false;
};

class HttpClient {
 public:
  explicit HttpClient(const std::string& socket_path);
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  HttpAnswer get(const std::string& path, const std::string& headers = "");
  HttpAnswer post(const std::string& path, std::string_view json, const std::string& headers = "");
  void send(std::string_view bytes) const;
  // Reads until `text` or the end has come, and returns everything that came since the last call.
  std::string read_until(std::string_view text);
  // Reads an answer. Throws where it is cut short, so that no test takes it for a whole one.
  HttpAnswer read_answer();
  // Reads an answer, or what there is of it.
  HttpAnswer read_what_comes();
  // Closes the connection.
  void leave();

 private:
  bool read_more();

  int socket_ = -1;
  std::string seen_;
};

}  // namespace troika::test_support
