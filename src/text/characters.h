// Sees a text as characters with their Unicode classes, which pre-tokenizers look at.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace troika::text {

// A set of these bits describes a character.
enum CharClass : uint16_t {
  kLetter = 1 << 0,       // L
  kNumber = 1 << 1,       // N
  kMark = 1 << 2,         // M
  kPunctuation = 1 << 3,  // P
  kSymbol = 1 << 4,       // S
  kWhite = 1 << 5,        // the property White_Space, which \s means in the models' own patterns
  kUpper = 1 << 6,        // Lu, Lt
  kLower = 1 << 7,        // Ll
  kCaseless = 1 << 8,     // Lm, Lo
  kNewline = 1 << 9,      // \r \n
};

uint16_t classes_of(uint32_t code);

// The characters of a text. A byte that is not UTF-8 is a character of its own, with the code and
// the classes of U+FFFD.
struct Characters {
  explicit Characters(std::string_view text);

  size_t size() const { return codes.size(); }

  std::vector<uint32_t> codes;
  std::vector<uint16_t> classes;
  std::vector<uint32_t> begins;  // the byte offsets; there is one more than characters
};

// Some characters in a row; what is outside of them does not exist.
class View {
 public:
  static constexpr uint32_t kNothing = 0xffffffff;

  View(const Characters& text, size_t begin, size_t end) : text_(text), begin_(begin), end_(end) {}

  size_t begin() const { return begin_; }
  size_t end() const { return end_; }
  uint32_t code(size_t i) const { return i < end_ ? text_.codes[i] : kNothing; }
  bool is(size_t i, uint16_t classes) const { return i < end_ && (text_.classes[i] & classes); }
  bool is_not(size_t i, uint16_t classes) const {
    return i < end_ && !(text_.classes[i] & classes);
  }
  // Returns the end of the run of characters of (not of) these classes that begins at i.
  size_t run(size_t i, uint16_t classes) const {
    while (is(i, classes)) ++i;
    return i;
  }
  size_t run_not(size_t i, uint16_t classes) const {
    while (is_not(i, classes)) ++i;
    return i;
  }

 private:
  const Characters& text_;
  size_t begin_;
  size_t end_;
};

}  // namespace troika::text
