// Tokens to text while they are being generated: what is shown is always whole characters, and
// never the beginning of a stop string.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace troika::text {

// Bytes to UTF-8: holds back an incomplete character at the end until it is complete or certain to
// be invalid. Invalid bytes become U+FFFD: one for each longest run that could have begun a
// character, as the Unicode standard recommends.
class Utf8Stream {
 public:
  std::string push(std::string_view bytes);
  // No more bytes come: what was held back is invalid.
  std::string finish();

 private:
  std::string held_;  // at most 3 bytes
};

// Finds the first of some strings in a text that comes in pieces.
class StopFinder {
 public:
  // Empty strings are ignored.
  explicit StopFinder(std::vector<std::string> stops);

  // The text that is now certain not to belong to a stop string. After a stop string was found
  // nothing more comes out; the stop string itself never does.
  std::string push(std::string_view text);
  // No more text comes: returns what was held back.
  std::string finish();
  bool stopped() const { return !found_.empty(); }
  const std::string& found() const { return found_; }

 private:
  // How many bytes at the end of the held text may be the beginning of a stop string.
  size_t possible_stop_bytes() const;

  std::vector<std::string> stops_;
  std::string held_;
  std::string found_;
};

class TextStream {
 public:
  struct Options {
    std::vector<std::string> stops;
    bool render_special = false;
    // The text begins here: the space that the tokenizer puts in front of texts is taken away. Not
    // where tokens continue a text.
    bool at_beginning = false;
  };
  // The tokenizer must outlive the stream.
  TextStream(const Tokenizer& tokenizer, Options options);

  // The text that the token makes certain; often empty.
  std::string push(Token token);
  std::string finish();
  // A stop string was found: no further text comes.
  bool stopped() const { return stops_.stopped(); }
  const std::string& stop() const { return stops_.found(); }

 private:
  const Tokenizer& tokenizer_;
  bool render_special_;
  bool strip_space_;
  Utf8Stream utf8_;
  StopFinder stops_;
};

}  // namespace troika::text
