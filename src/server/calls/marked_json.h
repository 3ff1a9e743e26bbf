// Translates to JSON what a model writes with marks around texts and with bare keys.
#pragma once

#include <string>

namespace troika::server {

class MarkedJson {
 public:
  explicit MarkedJson(std::string mark) : mark_(std::move(mark)) {}

  // Takes what it understands from `held` and adds it to `json`. Returns true if the value has
  // ended.
  bool read(std::string* held, std::string* json);

 private:
  bool read_text(std::string* held, std::string* json);
  bool read_key(std::string* held, std::string* json);

  std::string mark_;
  std::string open_;  // the open brackets, from the outermost on
  bool is_text_ = false, is_key_next_ = false;
};

}  // namespace troika::server
