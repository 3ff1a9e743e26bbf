// One request of HTTP, whoever makes it: libcurl does, and tests imitate it.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace troika::fetch {

struct HttpRequest {
  std::string url;
  std::vector<std::string> fields;  // such as "Range: bytes=100-"
  int most_seconds = 0;             // for the whole answer; 0: it may take as long as bytes come
};

struct HttpHead {
  int status = 0;
  std::map<std::string, std::string> fields;  // names in lower case

  // Returns an empty text where there is no such field.
  std::string field(const std::string& name) const {
    const auto found = fields.find(name);
    return found == fields.end() ? std::string() : found->second;
  }
};

// Takes an answer. What its functions throw ends the request and comes out of get().
struct HttpSink {
  // Is called once, before the body. Returns false if the body is not wanted.
  std::function<bool(const HttpHead& head)> head;
  // Takes a piece of the body. Returns false if no more is wanted.
  std::function<bool(std::span<const std::byte> bytes)> body;
};

class Transport {
 public:
  virtual ~Transport() = default;
  // Makes one request and follows no redirection. Returns why the answer did not come to its end,
  // as the end of a sentence; empty where it did, or where the sink stopped it.
  virtual std::string get(const HttpRequest& request, const HttpSink& sink) = 0;
};

}  // namespace troika::fetch
