// JSON with marks of its own around texts, and bare keys: what it means in JSON.
#pragma once

#include <string>

namespace troika::server {

class MarkedJson {
 public:
  explicit MarkedJson(std::string mark) : mark_(std::move(mark)) {}

  // Takes what it understands from `held` and adds it to `json`. True: the value has ended.
  bool read(std::string* held, std::string* json);

 private:
  bool read_text(std::string* held, std::string* json);
  bool read_key(std::string* held, std::string* json);

  std::string mark_;
  std::string open_;  // brackets, from the outermost on
  bool is_text_ = false, is_key_next_ = false;
};

}  // namespace troika::server
