#include "jinja/values/unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <iterator>

#include "jinja/values/special_casing.h"

namespace troika::jinja {

namespace {

int category(uint32_t c) {
  return c < 0x110000 ? utf8proc_category(static_cast<utf8proc_int32_t>(c)) : UTF8PROC_CATEGORY_CN;
}

bool is_cased(uint32_t c) { return is_upper(c) || is_lower(c) || is_title(c); }

uint32_t mapped(uint32_t c, utf8proc_int32_t (*map)(utf8proc_int32_t)) {
  return c < 0x110000 ? static_cast<uint32_t>(map(static_cast<utf8proc_int32_t>(c))) : c;
}

// Says whether a sigma looks past the character for the letters around it (Case_Ignorable).
bool is_case_ignorable(uint32_t c) {
  constexpr uint32_t kMarks[] = {0x27,   0x2E,   0x3A,   0xB7,   0x387,  0x55F,
                                 0x5F4,  0x2018, 0x2019, 0x2024, 0x2027, 0xFE13,
                                 0xFE52, 0xFE55, 0xFF07, 0xFF0E, 0xFF1A};
  switch (category(c)) {
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_SK:
      return true;
    default:
      return std::binary_search(std::begin(kMarks), std::end(kMarks), c);
  }
}

// Says whether the capital sigma at bytes `begin` to `end` is the last letter of a word, and not
// its only one.
bool ends_word(std::string_view s, size_t begin, size_t end) {
  uint32_t before = ' ', behind = ' ';
  while (begin > 0 && is_case_ignorable(before = utf8_previous(s, begin))) before = ' ';
  while (end < s.size() && is_case_ignorable(behind = utf8_next(s, end))) behind = ' ';
  return is_cased(before) && !is_cased(behind);
}

void append_all(std::string& out, const uint16_t (&of)[3]) {
  for (size_t i = 0; i < 3 && of[i] != 0; ++i) utf8_append(out, of[i]);
}

}  // namespace

uint32_t utf8_next(std::string_view s, size_t& i) {
  const auto byte = [&](size_t k) { return static_cast<unsigned char>(s[k]); };
  const unsigned char lead = byte(i);
  if (lead < 0x80) {
    ++i;
    return lead;
  }
  const int n = lead >= 0xF0 && lead < 0xF5 ? 4 : lead >= 0xE0 ? 3 : 2;
  const bool possible = lead >= 0xC2 && lead < 0xF5 && i + static_cast<size_t>(n) <= s.size();
  uint32_t c = lead & (0x7F >> n);
  for (int k = 1; possible && k < n; ++k) {
    const unsigned char next = byte(i + static_cast<size_t>(k));
    if ((next & 0xC0) != 0x80) {
      c = 0;
      break;
    }
    c = c << 6 | (next & 0x3F);
  }
  constexpr uint32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
  if (!possible || c < kLeast[n] || c >= 0x110000 || (c >= 0xD800 && c < 0xE000)) {
    ++i;
    return kRawByte | lead;
  }
  i += static_cast<size_t>(n);
  return c;
}

uint32_t utf8_previous(std::string_view s, size_t& i) {
  const size_t end = i;
  size_t begin = end - 1;
  while (begin > 0 && end - begin < 4 && (static_cast<unsigned char>(s[begin]) & 0xC0) == 0x80) {
    --begin;
  }
  i = begin;
  const uint32_t c = utf8_next(s.substr(0, end), begin);
  if (begin == end) return c;
  i = end - 1;
  return kRawByte | static_cast<unsigned char>(s[i]);
}

size_t utf8_length(std::string_view s) {
  size_t n = 0;
  for (size_t i = 0; i < s.size(); ++n) {
    // Most text is ASCII, and the characters of every new string are counted.
    if (static_cast<unsigned char>(s[i]) < 0x80) {
      ++i;
    } else {
      utf8_next(s, i);
    }
  }
  return n;
}

void utf8_append(std::string& out, uint32_t c) {
  const auto put = [&](uint32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (c >= kRawByte || c < 0x80) {
    put(c & 0xFF);
  } else if (c < 0x800) {
    put(0xC0 | c >> 6);
    put(0x80 | (c & 0x3F));
  } else if (c < 0x10000) {
    put(0xE0 | c >> 12);
    put(0x80 | (c >> 6 & 0x3F));
    put(0x80 | (c & 0x3F));
  } else {
    put(0xF0 | c >> 18);
    put(0x80 | (c >> 12 & 0x3F));
    put(0x80 | (c >> 6 & 0x3F));
    put(0x80 | (c & 0x3F));
  }
}

std::vector<uint32_t> utf8_decode(std::string_view s) {
  std::vector<uint32_t> out;
  out.reserve(s.size());
  for (size_t i = 0; i < s.size();) {
    out.push_back(utf8_next(s, i));
  }
  return out;
}

size_t utf8_offset(std::string_view s, size_t n) {
  size_t i = 0;
  for (; n > 0 && i < s.size(); --n) {
    utf8_next(s, i);
  }
  return i;
}

bool is_space(uint32_t c) {
  if (c < 0x80) {
    return (c >= 9 && c <= 13) || (c >= 28 && c <= 32);
  }
  return c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 ||
         c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

bool is_alpha(uint32_t c) {
  const int k = category(c);
  return k >= UTF8PROC_CATEGORY_LU && k <= UTF8PROC_CATEGORY_LO;
}

bool is_decimal(uint32_t c) { return category(c) == UTF8PROC_CATEGORY_ND; }

bool is_digit(uint32_t c) {
  return is_decimal(c) || c == 0xB2 || c == 0xB3 || c == 0xB9 || c == 0x2070 ||
         (c >= 0x2074 && c <= 0x2079) || (c >= 0x2080 && c <= 0x2089) ||
         (c >= 0x2460 && c <= 0x2468);
}

bool is_numeric(uint32_t c) {
  const int k = category(c);
  return k >= UTF8PROC_CATEGORY_ND && k <= UTF8PROC_CATEGORY_NO;
}

bool is_upper(uint32_t c) { return category(c) == UTF8PROC_CATEGORY_LU; }
bool is_title(uint32_t c) { return category(c) == UTF8PROC_CATEGORY_LT; }
bool is_lower(uint32_t c) { return category(c) == UTF8PROC_CATEGORY_LL || c == 0xAA || c == 0xBA; }

bool is_printable(uint32_t c) {
  if (c == ' ') {
    return true;
  }
  const int k = category(c);
  return k != UTF8PROC_CATEGORY_CN && k < UTF8PROC_CATEGORY_ZS;
}

void append_upper(std::string& out, uint32_t c) {
  if (const SpecialCase* special = find_special_case(c)) {
    append_all(out, special->upper);
  } else {
    utf8_append(out, mapped(c, utf8proc_toupper));
  }
}

void append_title(std::string& out, uint32_t c) {
  const SpecialCase* special = find_special_case(c);
  if (special != nullptr && special->title[0] != 0) {
    append_all(out, special->title);
  } else {
    utf8_append(out, mapped(c, utf8proc_totitle));
  }
}

void append_lower(std::string& out, std::string_view s, size_t at) {
  size_t next = at;
  const uint32_t c = utf8_next(s, next);
  if (c == 0x130) {
    out += "i\u0307";
  } else if (c == 0x3A3) {
    utf8_append(out, ends_word(s, at, next) ? 0x3C2 : 0x3C3);
  } else {
    utf8_append(out, mapped(c, utf8proc_tolower));
  }
}

std::string to_upper(std::string_view s) {
  std::string out;
  for (size_t i = 0; i < s.size();) {
    append_upper(out, utf8_next(s, i));
  }
  return out;
}

std::string to_lower(std::string_view s) {
  std::string out;
  for (size_t i = 0; i < s.size(); utf8_next(s, i)) {
    append_lower(out, s, i);
  }
  return out;
}

std::string casefold(std::string_view s) {
  std::string out;
  for (size_t i = 0; i < s.size();) {
    const uint32_t c = utf8_next(s, i);
    utf8proc_int32_t folded[4];
    int boundary = 0;  // is for those who take texts apart into what readers see as characters
    const utf8proc_ssize_t n =
        c < 0x110000 ? utf8proc_decompose_char(static_cast<utf8proc_int32_t>(c), folded, 4,
                                               UTF8PROC_CASEFOLD, &boundary)
                     : 0;
    if (n < 1 || n > 4) utf8_append(out, c);
    for (utf8proc_ssize_t k = 0; k < n && n <= 4; ++k) {
      utf8_append(out, static_cast<uint32_t>(folded[k]));
    }
  }
  return out;
}

std::string capitalize(std::string_view s) {
  std::string out;
  for (size_t i = 0; i < s.size();) {
    const size_t at = i;
    const uint32_t c = utf8_next(s, i);
    at == 0 ? append_title(out, c) : append_lower(out, s, at);
  }
  return out;
}

std::string title(std::string_view s) {
  std::string out;
  bool in_word = false;
  for (size_t i = 0; i < s.size();) {
    const size_t at = i;
    const uint32_t c = utf8_next(s, i);
    in_word ? append_lower(out, s, at) : append_title(out, c);
    in_word = is_cased(c);
  }
  return out;
}

std::string_view strip_space(std::string_view s, bool left, bool right) {
  size_t begin = 0;
  while (left && begin < s.size()) {
    size_t next = begin;
    if (!is_space(utf8_next(s, next))) {
      break;
    }
    begin = next;
  }
  size_t end = s.size();
  while (right && end > begin) {
    size_t start = end;
    if (!is_space(utf8_previous(s, start))) {
      break;
    }
    end = start;
  }
  return s.substr(begin, end - begin);
}

}  // namespace troika::jinja
