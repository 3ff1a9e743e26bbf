#include "text/patterns.h"

#include <algorithm>

namespace troika::text::patterns {
namespace {

// Returns the small form of ASCII letters, and of the long s, which is an s in any case.
uint32_t lower(uint32_t code) {
  if (code == 0x17f) return 's';
  return code >= 'A' && code <= 'Z' ? code + 32 : code;
}

size_t at_most(const View& v, size_t at, uint16_t classes, size_t n) {
  size_t end = at;
  while (end < at + n && v.is(end, classes)) ++end;
  return end;
}

bool is_letter_ascii(uint32_t code) {
  return (code >= 'a' && code <= 'z') || (code >= 'A' && code <= 'Z');
}

bool is_sign_ascii(uint32_t code) {
  return code > ' ' && code < 0x7f && !is_letter_ascii(code) && !(code >= '0' && code <= '9');
}

}  // namespace

size_t contraction(const View& v, size_t at, bool any_case) {
  if (v.code(at) != '\'') return 0;
  const uint32_t first = any_case ? lower(v.code(at + 1)) : v.code(at + 1);
  if (first == 's' || first == 't' || first == 'm' || first == 'd') return 2;
  const uint32_t second = any_case ? lower(v.code(at + 2)) : v.code(at + 2);
  const bool long_one = (first == 'r' && second == 'e') || (first == 'v' && second == 'e') ||
                        (first == 'l' && second == 'l');
  return long_one ? 3 : 0;
}

size_t spaces(const View& v, size_t at) {
  const size_t end = v.run(at, kWhite);
  // The last space belongs to the word that follows.
  return end - at > 1 && end < v.end() ? end - 1 : end;
}

size_t newlines_or_spaces(const View& v, size_t at) {
  const size_t run_end = v.run(at, kWhite);
  for (size_t end = run_end; end > at; --end) {
    if (v.is(end - 1, kNewline)) return end;
  }
  return spaces(v, at);
}

size_t number(const View& v, size_t at) { return at_most(v, at, kNumber, 1); }
size_t numbers(const View& v, size_t at) { return v.run(at, kNumber); }
size_t three_numbers(const View& v, size_t at) { return at_most(v, at, kNumber, 3); }
size_t newline(const View& v, size_t at) { return at_most(v, at, kNewline, 1); }

size_t three_digits(const View& v, size_t at) {
  for (size_t i = at; i < at + 3; ++i) {
    if (v.code(i) < '0' || v.code(i) > '9') return at;
  }
  return at + 3;
}

size_t line(const View& v, size_t at) {
  const bool is_newline = v.code(at) == '\n';
  size_t end = at;
  while (end < v.end() && (v.code(end) == '\n') == is_newline) ++end;
  return end;
}

size_t gpt2(const View& v, size_t at) {
  if (const size_t n = contraction(v, at, false)) return at + n;
  const size_t i = at + (v.code(at) == ' ');
  if (v.is(i, kLetter)) return v.run(i, kLetter);
  if (v.is(i, kNumber)) return v.run(i, kNumber);
  const uint16_t others = kWhite | kLetter | kNumber;
  if (v.is_not(i, others)) return v.run_not(i, others);
  return spaces(v, at);
}

namespace {

// A pattern of the family that began with GPT-4's.
struct Cl100k {
  size_t max_numbers;
  uint16_t letters = kLetter;
  bool newlines_after_signs = true;
};

size_t cl100k(const View& v, size_t at, const Cl100k& p) {
  if (const size_t n = contraction(v, at, true)) return at + n;
  const size_t i = at + v.is_not(at, kNewline | kLetter | kNumber);
  if (v.is(i, p.letters)) return v.run(i, p.letters);
  if (v.is(at, p.letters)) return v.run(at, p.letters);
  if (v.is(at, kNumber)) return at_most(v, at, kNumber, p.max_numbers);
  const size_t sign = at + (v.code(at) == ' ');
  const uint16_t others = kWhite | kNumber | p.letters;
  if (v.is_not(sign, others)) {
    const size_t end = v.run_not(sign, others);
    return p.newlines_after_signs ? v.run(end, kNewline) : end;
  }
  return newlines_or_spaces(v, at);
}

}  // namespace

size_t llama3(const View& v, size_t at) { return cl100k(v, at, {.max_numbers = 3}); }
size_t qwen2(const View& v, size_t at) { return cl100k(v, at, {.max_numbers = 1}); }
size_t minicpm5(const View& v, size_t at) { return cl100k(v, at, {.max_numbers = SIZE_MAX / 2}); }
size_t qwen35(const View& v, size_t at) {
  return cl100k(v, at, {.max_numbers = 1, .letters = kLetter | kMark});
}
size_t seed_coder(const View& v, size_t at) {
  return cl100k(v, at, {.max_numbers = 1, .newlines_after_signs = false});
}

namespace {

constexpr uint16_t kUpperLike = kUpper | kCaseless | kMark;
constexpr uint16_t kLowerLike = kLower | kCaseless | kMark;

// Matches U*S+ with the backtracking of a regular expression: U* gives back as little as it must.
size_t word_with_lower(const View& v, size_t at) {
  const size_t upper_end = v.run(at, kUpperLike);
  if (v.is(upper_end, kLowerLike)) return v.run(upper_end, kLowerLike);
  for (size_t end = upper_end; end > at; --end) {
    if (v.is(end - 1, kLowerLike)) return end;
  }
  return at;
}

// Matches U+S*, where U*S+ did not match: no S follows.
size_t word_of_upper(const View& v, size_t at) { return v.run(at, kUpperLike); }

size_t o200k_word(const View& v, size_t at) {
  const bool has_prefix = v.is_not(at, kNewline | kLetter | kNumber);
  for (const auto word : {word_with_lower, word_of_upper}) {
    if (has_prefix) {
      const size_t end = word(v, at + 1);
      if (end > at + 1) return end;
    }
    const size_t end = word(v, at);
    if (end > at) return end;
  }
  return at;
}

size_t o200k(const View& v, size_t at, bool contractions, size_t max_numbers) {
  const size_t word_end = o200k_word(v, at);
  if (word_end > at) return word_end + (contractions ? contraction(v, word_end, true) : 0);
  if (v.is(at, kNumber)) return at_most(v, at, kNumber, max_numbers);
  const size_t sign = at + (v.code(at) == ' ');
  const uint16_t others = kWhite | kLetter | kNumber;
  if (v.is_not(sign, others)) {
    size_t end = v.run_not(sign, others);
    while (v.is(end, kNewline) || v.code(end) == '/') ++end;
    return end;
  }
  return newlines_or_spaces(v, at);
}

}  // namespace

size_t gpt4o(const View& v, size_t at) { return o200k(v, at, true, 3); }
size_t tekken(const View& v, size_t at) { return o200k(v, at, false, 1); }

size_t space_letters(const View& v, size_t at) {
  const size_t i = at + v.is(at, kWhite);
  return v.is(i, kLetter) ? v.run(i, kLetter) : at;
}

size_t space_punctuation(const View& v, size_t at) {
  const size_t i = at + v.is(at, kWhite);
  return v.is(i, kPunctuation) ? v.run(i, kPunctuation) : at;
}

size_t deepseek3(const View& v, size_t at) {
  if (is_sign_ascii(v.code(at)) && is_letter_ascii(v.code(at + 1))) {
    size_t end = at + 1;
    while (is_letter_ascii(v.code(end))) ++end;
    return end;
  }
  const uint16_t letters = kLetter | kMark;
  const size_t i = at + v.is_not(at, kNewline | kLetter | kPunctuation | kSymbol);
  if (v.is(i, letters)) return v.run(i, letters);
  if (v.is(at, letters)) return v.run(at, letters);
  const size_t sign = at + (v.code(at) == ' ');
  if (v.is(sign, kPunctuation | kSymbol)) {
    return v.run(v.run(sign, kPunctuation | kSymbol), kNewline);
  }
  return newlines_or_spaces(v, at);
}

namespace {

size_t signs(const View& v, size_t at, std::u32string_view also) {
  size_t end = at;
  while (v.is(end, kPunctuation) || also.find(v.code(end)) != std::u32string_view::npos) ++end;
  return end;
}

}  // namespace

size_t falcon_signs(const View& v, size_t at) { return signs(v, at, U"$+<=>^~|`"); }
size_t default_signs(const View& v, size_t at) { return signs(v, at, U"$+<=>^~|"); }

size_t bloom(const View& v, size_t at) {
  constexpr std::u32string_view kSigns = U"(|.,!?…。，、।۔،)";
  const size_t begin = at + (v.code(at) == ' ');
  size_t end = begin;
  while (v.is_not(end, kWhite) && kSigns.find(v.code(end)) == std::u32string_view::npos) ++end;
  return end > begin ? end : at;
}

}  // namespace troika::text::patterns
