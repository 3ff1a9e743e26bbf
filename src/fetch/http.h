// One request of HTTP, however it is made: libcurl makes it, tests play it.
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
  std::vector<std::string> fields;  // "Range: bytes=100-"
  int most_seconds = 0;             // for the whole answer; 0: as long as bytes come
};

struct HttpHead {
  int status = 0;
  std::map<std::string, std::string> fields;  // names in lower case

  // Empty where there is no such field.
  std::string field(const std::string& name) const {
    const auto found = fields.find(name);
    return found == fields.end() ? std::string() : found->second;
  }
};

// Who takes an answer. What these throw ends the request and comes out of get().
struct HttpSink {
  // Once, before the body; false: the body is not wanted.
  std::function<bool(const HttpHead& head)> head;
  // Pieces of the body; false: no more is wanted.
  std::function<bool(std::span<const std::byte> bytes)> body;
};

class Transport {
 public:
  virtual ~Transport() = default;
  // Asks once and follows nothing. Returns why the answer did not come to its end, as the end of a
  // sentence; empty where it did, or where the sink stopped it.
  virtual std::string get(const HttpRequest& request, const HttpSink& sink) = 0;
};

}  // namespace troika::fetch
