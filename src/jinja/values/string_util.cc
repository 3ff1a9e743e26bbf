#include "jinja/values/string_util.h"

#include <algorithm>

#include "jinja/values/unicode.h"

namespace troika::jinja {

namespace {

bool in(const std::vector<uint32_t>& set, uint32_t c) {
  return std::find(set.begin(), set.end(), c) != set.end();
}

bool ends_line(uint32_t c) {
  return (c >= 10 && c <= 13) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 ||
         c == 0x2029;
}

std::string between_characters(Runtime& rt, const std::string& s, const std::string& with,
                               int64_t most) {
  rt.heap.step(s.size() * (1 + with.size() / 16));
  std::string out;
  size_t i = 0;
  while (i <= s.size()) {
    if (most-- != 0) {
      rt.heap.expect(out.size() + with.size() + s.size());
      out += with;
    } else {
      out.append(s, i, std::string::npos);
      break;
    }
    const size_t begin = i;
    if (i == s.size()) {
      break;
    }
    utf8_next(s, i);
    out.append(s, begin, i - begin);
  }
  return out;
}

}  // namespace

std::string replaced(Runtime& rt, const std::string& s, const std::string& old,
                     const std::string& with, int64_t most) {
  if (old.empty()) {
    return between_characters(rt, s, with, most);
  }
  step_search(rt, s, old);
  std::string out;
  size_t i = 0;
  while (most-- != 0) {
    const size_t found = s.find(old, i);
    if (found == std::string::npos) {
      break;
    }
    rt.heap.expect(out.size() + (found - i) + with.size() + s.size());
    rt.heap.step(1 + with.size() / 16);
    out.append(s, i, found - i);
    out += with;
    i = found + old.size();
  }
  out.append(s, i, std::string::npos);
  return out;
}

Value stripped(Runtime& rt, const Value& s, const Value& chars, bool left, bool right) {
  const std::string& text = s.str();
  rt.heap.step_bytes(text.size());
  if (chars.is_missing() || chars.is_none()) {
    const std::string_view rest = strip_space(text, left, right);
    return rest.size() == text.size() ? s : rt.text(std::string(rest), s.is_safe());
  }
  if (!chars.is_string()) {
    rt.require_defined(chars);
    rt.fail("strip needs its characters as a string, not as a " + type_name(chars));
  }
  rt.heap.step(chars.str().size() / 4);
  rt.heap.expect(chars.str().size() * sizeof(uint32_t));
  const std::vector<uint32_t> set = utf8_decode(chars.str());
  size_t begin = 0;
  for (size_t i = 0; left && i < text.size(); begin = i) {
    rt.heap.step(1 + set.size() / 16);
    if (!in(set, utf8_next(text, i))) {
      break;
    }
  }
  size_t end = text.size();
  // Characters can be found from the front only, so the places where they begin are stored.
  std::vector<size_t> starts;
  if (right) {
    rt.heap.expect(text.size() * sizeof(size_t));
    for (size_t i = begin; i < text.size();) {
      starts.push_back(i);
      utf8_next(text, i);
    }
  }
  while (!starts.empty()) {
    rt.heap.step(1 + set.size() / 16);
    size_t i = starts.back();
    if (!in(set, utf8_next(text, i))) {
      break;
    }
    end = starts.back();
    starts.pop_back();
  }
  return rt.text(text.substr(begin, end - begin), s.is_safe());
}

std::vector<std::string_view> lines_of(Runtime& rt, std::string_view s, bool keep_ends) {
  rt.heap.step(s.size() / 4);
  rt.heap.expect(s.size() * sizeof(std::string_view));
  std::vector<std::string_view> lines;
  size_t begin = 0;
  for (size_t i = 0; i < s.size();) {
    const size_t end = i;
    const uint32_t c = utf8_next(s, i);
    if (!ends_line(c)) {
      continue;
    }
    i += c == '\r' && i < s.size() && s[i] == '\n' ? 1 : 0;
    lines.push_back(s.substr(begin, (keep_ends ? i : end) - begin));
    begin = i;
  }
  if (begin < s.size()) {
    lines.push_back(s.substr(begin));
  }
  return lines;
}

std::string centered(Runtime& rt, const Value& s, int64_t width, const std::string& fill) {
  const auto n = static_cast<int64_t>(s.text().n_chars);
  if (width <= n) {
    return s.str();
  }
  const auto n_pad = static_cast<size_t>(width - n);
  // Where the width is odd, Python puts the odd character on the left.
  const size_t n_left = n_pad / 2 + (n_pad & static_cast<size_t>(width) & 1);
  if (n_pad > rt.heap.limits().memory_bytes) {
    rt.heap.expect(n_pad);
  }
  rt.heap.expect(s.str().size() + n_pad * fill.size());
  rt.heap.step(n_pad / 4);
  std::string out;
  for (size_t i = 0; i < n_left; ++i) {
    out += fill;
  }
  out += s.str();
  for (size_t i = n_left; i < n_pad; ++i) {
    out += fill;
  }
  return out;
}

}  // namespace troika::jinja
