// Methods that look for a string in a string, and those that say of which characters a string
// consists.
#include <fmt/format.h>

#include <algorithm>

#include "jinja/functions/builtins.h"
#include "jinja/values/unicode.h"

namespace troika::jinja {

namespace {

// The part of a string between the optional arguments i and i + 1, which are clamped as in Python.
struct Window {
  std::string_view text;
  int64_t start = 0;     // counts characters
  bool possible = true;  // false where `start` lies behind the end
};

Window window_of(Runtime& rt, const Args& a, size_t i) {
  const Text& whole = a.at[0].text();
  const auto n = static_cast<int64_t>(whole.n_chars);
  const auto bound = [&](size_t k, int64_t fallback) {
    const bool given = a.has(k) && !a.at[k].is_none();
    const int64_t b = given ? int_argument(rt, a, k, fallback) : fallback;
    return b < 0 ? std::max<int64_t>(b + n, 0) : b;
  };
  const int64_t start = bound(i, 0);
  const int64_t end = std::min(bound(i + 1, n), n);
  if (start > end) {
    return {{}, start, false};
  }
  const size_t from = utf8_offset(whole.bytes, static_cast<size_t>(start));
  const size_t to = utf8_offset(whole.bytes, static_cast<size_t>(end));
  return {std::string_view(whole.bytes).substr(from, to - from), start, true};
}

int64_t position(Runtime& rt, const Args& a, bool from_right) {
  const std::string& needle = string_argument(rt, a, 1, "what is looked for");
  rt.heap.step_bytes(a.at[0].str().size());
  const Window w = window_of(rt, a, 2);
  if (!w.possible) {
    return -1;
  }
  step_search(rt, w.text, needle);
  const size_t found = from_right ? w.text.rfind(needle) : w.text.find(needle);
  if (found == std::string_view::npos) {
    return -1;
  }
  return w.start + static_cast<int64_t>(utf8_length(w.text.substr(0, found)));
}

Value find(Runtime& rt, Args& a) { return Value::of(position(rt, a, false)); }
Value rfind(Runtime& rt, Args& a) { return Value::of(position(rt, a, true)); }

Value found_or_fail(Runtime& rt, int64_t i) {
  if (i < 0) {
    rt.fail("index() does not find what it looks for");
  }
  return Value::of(i);
}

Value index(Runtime& rt, Args& a) { return found_or_fail(rt, position(rt, a, false)); }
Value rindex(Runtime& rt, Args& a) { return found_or_fail(rt, position(rt, a, true)); }

Value count(Runtime& rt, Args& a) {
  const std::string& needle = string_argument(rt, a, 1, "what is counted");
  rt.heap.step_bytes(a.at[0].str().size());
  const Window w = window_of(rt, a, 2);
  if (!w.possible) {
    return Value::of(int64_t{0});
  }
  if (needle.empty()) {
    return Value::of(static_cast<int64_t>(utf8_length(w.text)) + 1);
  }
  step_search(rt, w.text, needle);
  int64_t n = 0;
  for (size_t i = 0; (i = w.text.find(needle, i)) != std::string_view::npos; i += needle.size()) {
    ++n;
  }
  return Value::of(n);
}

bool stands_at_end(Runtime& rt, const Args& a, bool at_start) {
  const bool is_cut = a.has(2) || a.has(3);
  rt.heap.step_bytes(is_cut ? a.at[0].str().size() : 0);
  const Window w = is_cut ? window_of(rt, a, 2) : Window{a.at[0].str()};
  const auto matches = [&](const Value& v) {
    if (!v.is_string()) {
      rt.require_defined(v);
      rt.fail(fmt::format("a string can start or end with a string, not with a {}", type_name(v)));
    }
    rt.heap.step_bytes(std::min(w.text.size(), v.str().size()));
    return w.possible && (at_start ? w.text.starts_with(v.str()) : w.text.ends_with(v.str()));
  };
  if (a.at[1].is(Shape::kTuple)) {
    const auto& choices = a.at[1].sequence().items;
    rt.heap.step(choices.size());
    return std::any_of(choices.begin(), choices.end(), matches);
  }
  return matches(a.at[1]);
}

Value startswith(Runtime& rt, Args& a) { return Value::of(stands_at_end(rt, a, true)); }
Value endswith(Runtime& rt, Args& a) { return Value::of(stands_at_end(rt, a, false)); }

// Says whether there are characters, and `is` holds for all of them.
template <bool (*is)(uint32_t)>
Value all(Runtime& rt, Args& a) {
  const std::string& s = a.at[0].str();
  rt.heap.step(s.size() / 4);
  for (size_t i = 0; i < s.size();) {
    if (!is(utf8_next(s, i))) {
      return Value::of(false);
    }
  }
  return Value::of(!s.empty());
}

bool is_alnum(uint32_t c) { return is_alpha(c) || is_numeric(c); }

Value isascii(Runtime& rt, Args& a) {
  const std::string& s = a.at[0].str();
  rt.heap.step_bytes(s.size());
  return Value::of(
      std::all_of(s.begin(), s.end(), [](char c) { return static_cast<signed char>(c) >= 0; }));
}

Value isprintable(Runtime& rt, Args& a) {
  return a.at[0].str().empty() ? Value::of(true) : all<is_printable>(rt, a);
}

Value isidentifier(Runtime& rt, Args& a) {
  const std::string& s = a.at[0].str();
  rt.heap.step(s.size() / 4);
  for (size_t i = 0; i < s.size();) {
    const bool first = i == 0;
    const uint32_t c = utf8_next(s, i);
    if (c != '_' && !is_alpha(c) && (first || !is_decimal(c))) {
      return Value::of(false);
    }
  }
  return Value::of(!s.empty());
}

Value islower(Runtime& rt, Args& a) { return find_test("lower")->function(rt, a); }
Value isupper(Runtime& rt, Args& a) { return find_test("upper")->function(rt, a); }

// Says whether capitals begin words and stand nowhere else.
Value istitle(Runtime& rt, Args& a) {
  const std::string& s = a.at[0].str();
  rt.heap.step(s.size() / 4);
  bool some = false;
  bool in_word = false;
  for (size_t i = 0; i < s.size();) {
    const uint32_t c = utf8_next(s, i);
    const bool capital = is_upper(c) || is_title(c);
    if ((capital && in_word) || (is_lower(c) && !in_word)) {
      return Value::of(false);
    }
    in_word = capital || is_lower(c);
    some |= in_word;
  }
  return Value::of(some);
}

}  // namespace

const Table& string_search_methods() {
  static const Table kTable = {
      {"find", "self sub start? end?", find},
      {"rfind", "self sub start? end?", rfind},
      {"index", "self sub start? end?", index},
      {"rindex", "self sub start? end?", rindex},
      {"count", "self sub start? end?", count},
      {"startswith", "self prefix start? end?", startswith},
      {"endswith", "self suffix start? end?", endswith},
      {"isalpha", "self", all<is_alpha>},
      {"isdigit", "self", all<is_digit>},
      {"isdecimal", "self", all<is_decimal>},
      {"isnumeric", "self", all<is_numeric>},
      {"isalnum", "self", all<is_alnum>},
      {"isspace", "self", all<is_space>},
      {"isascii", "self", isascii},
      {"isprintable", "self", isprintable},
      {"isidentifier", "self", isidentifier},
      {"islower", "self", islower},
      {"isupper", "self", isupper},
      {"istitle", "self", istitle},
  };
  return kTable;
}

}  // namespace troika::jinja
