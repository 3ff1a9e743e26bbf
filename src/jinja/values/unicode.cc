#include "jinja/values/unicode.h"

#include <utf8proc.h>

namespace troika::jinja {

namespace {

int category(uint32_t c) {
  return c < 0x110000 ? utf8proc_category(static_cast<utf8proc_int32_t>(c)) : UTF8PROC_CATEGORY_CN;
}

bool is_cased(uint32_t c) { return is_upper(c) || is_lower(c) || is_title(c); }

uint32_t mapped(uint32_t c, utf8proc_int32_t (*map)(utf8proc_int32_t)) {
  return c < 0x110000 ? static_cast<uint32_t>(map(static_cast<utf8proc_int32_t>(c))) : c;
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
  if (c == 0xDF) {
    out += "SS";
  } else {
    utf8_append(out, mapped(c, utf8proc_toupper));
  }
}

void append_title(std::string& out, uint32_t c) {
  if (c == 0xDF) {
    out += "Ss";
  } else {
    utf8_append(out, mapped(c, utf8proc_totitle));
  }
}

void append_lower(std::string& out, uint32_t c) {
  if (c == 0x130) {
    out += "i\u0307";
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
  for (size_t i = 0; i < s.size();) {
    append_lower(out, utf8_next(s, i));
  }
  return out;
}

std::string casefold(std::string_view s) {
  std::string out;
  for (size_t i = 0; i < s.size();) {
    const uint32_t c = utf8_next(s, i);
    if (c == 0xDF) {
      out += "ss";
    } else {
      append_lower(out, c);
    }
  }
  return out;
}

std::string capitalize(std::string_view s) {
  std::string out;
  for (size_t i = 0; i < s.size();) {
    const bool first = i == 0;
    const uint32_t c = utf8_next(s, i);
    first ? append_title(out, c) : append_lower(out, c);
  }
  return out;
}

std::string title(std::string_view s) {
  std::string out;
  bool in_word = false;
  for (size_t i = 0; i < s.size();) {
    const uint32_t c = utf8_next(s, i);
    in_word ? append_lower(out, c) : append_title(out, c);
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
    size_t start = end - 1;
    while (start > begin && end - start < 4 &&
           (static_cast<unsigned char>(s[start]) & 0xC0) == 0x80) {
      --start;
    }
    size_t next = start;
    if (!is_space(utf8_next(s.substr(0, end), next)) || next != end) {
      break;
    }
    end = start;
  }
  return s.substr(begin, end - begin);
}

}  // namespace troika::jinja
