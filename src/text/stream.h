// Turns tokens into text while they are being generated. What is shown is always whole characters,
// and never the beginning of a stop string.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "text/stop_finder.h"
#include "text/tokenizer.h"

namespace troika::text {

// Turns bytes into UTF-8. It holds back an incomplete character at the end until it is complete or
// certain to be invalid. Invalid bytes become U+FFFD: one for each longest run that could have
// begun a character, as the Unicode standard recommends.
class Utf8Stream {
 public:
  std::string push(std::string_view bytes);
  // Says that no more bytes come, so that held bytes are invalid.
  std::string finish();

 private:
  std::string held_;  // at most 3 bytes
};

class TextStream {
 public:
  struct Options {
    std::vector<std::string> stops;
    bool render_special = false;
    // Says that the text begins here, so that the space is taken away that the tokenizer puts in
    // front of texts. It is false where tokens continue a text.
    bool at_beginning = false;
  };
  // The tokenizer must outlive the stream.
  TextStream(const Tokenizer& tokenizer, Options options);

  // Returns the text that the token makes certain; often empty.
  std::string push(Token token);
  std::string finish();
  // Counts the pushed tokens from the first on up to the last of whose text something has come out.
  int n_shown() const { return n_shown_; }
  // Says that a stop string was found: no further text comes.
  bool stopped() const { return stops_.stopped(); }
  const std::string& stop() const { return stops_.found(); }

 private:
  std::string show(std::string text);

  const Tokenizer& tokenizer_;
  bool render_special_;
  bool strip_space_;
  Utf8Stream utf8_;
  StopFinder stops_;
  std::vector<size_t> begins_;  // where the texts of tokens begin; those that are shown go in time
  size_t n_begins_shown_ = 0;   // counts those of `begins_` that are shown
  size_t n_bytes_ = 0;          // counts bytes of the tokens' whole characters
  size_t n_bytes_shown_ = 0;    // counts those of them that have come out
  int n_shown_ = 0;
};

}  // namespace troika::text
