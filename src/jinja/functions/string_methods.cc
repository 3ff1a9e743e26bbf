// Methods of strings that return another string, or cut the string up.
#include <fmt/format.h>

#include <algorithm>

#include "jinja/format/format.h"
#include "jinja/functions/builtins.h"
#include "jinja/values/string_util.h"
#include "jinja/values/unicode.h"

namespace troika::jinja {

namespace {

Value mapped(Runtime& rt, const Value& s, std::string (*map)(std::string_view)) {
  rt.heap.step(s.str().size() / 4);
  rt.heap.expect(s.str().size() * 3);
  return rt.text(map(s.str()), s.is_safe());
}

std::string swap_case(std::string_view s) {
  std::string out;
  for (size_t i = 0; i < s.size();) {
    const size_t at = i;
    const uint32_t c = utf8_next(s, i);
    is_upper(c) ? append_lower(out, s, at) : append_upper(out, c);
  }
  return out;
}

Value upper(Runtime& rt, Args& a) { return mapped(rt, a.at[0], to_upper); }
Value lower(Runtime& rt, Args& a) { return mapped(rt, a.at[0], to_lower); }
Value title_method(Runtime& rt, Args& a) { return mapped(rt, a.at[0], title); }
Value capitalize_method(Runtime& rt, Args& a) { return mapped(rt, a.at[0], capitalize); }
Value casefold_method(Runtime& rt, Args& a) { return mapped(rt, a.at[0], casefold); }
Value swapcase(Runtime& rt, Args& a) { return mapped(rt, a.at[0], swap_case); }

Value strip(Runtime& rt, Args& a) { return stripped(rt, a.at[0], a.at[1], true, true); }
Value lstrip(Runtime& rt, Args& a) { return stripped(rt, a.at[0], a.at[1], true, false); }
Value rstrip(Runtime& rt, Args& a) { return stripped(rt, a.at[0], a.at[1], false, true); }

// Returns how often something may be done, or -1 for always. It is counted down.
int64_t most_argument(Runtime& rt, const Args& a, size_t i) {
  return std::max<int64_t>(int_argument(rt, a, i, -1), -1);
}

Value replace(Runtime& rt, Args& a) {
  const std::string& old = string_argument(rt, a, 1, "what replace looks for");
  rt.heap.step_bytes(string_argument(rt, a, 2, "what replace puts").size());
  const std::string with = a.at[0].is_safe() ? escaped(rt, a.at[2]) : a.at[2].str();
  return rt.text(replaced(rt, a.at[0].str(), old, with, most_argument(rt, a, 3)),
                 a.at[0].is_safe());
}

// Collects the pieces of a string, in order.
class Pieces {
 public:
  Pieces(Runtime& rt, const Value& whole)
      : rt_(rt), safe_(whole.is_safe()), list_(rt.heap.list()) {}
  void add(std::string_view piece) {
    rt_.heap.append(list_.sequence(), rt_.text(std::string(piece), safe_));
  }
  Value take(bool reversed) {
    auto& items = list_.sequence().items;
    if (reversed) {
      std::reverse(items.begin(), items.end());
    }
    return list_;
  }

 private:
  Runtime& rt_;
  const bool safe_;
  Value list_;
};

size_t space_run_end(std::string_view s, size_t i, bool of_space) {
  while (i < s.size()) {
    size_t next = i;
    if (is_space(utf8_next(s, next)) != of_space) {
      break;
    }
    i = next;
  }
  return i;
}

Value split_at_space(Runtime& rt, const Value& whole, int64_t most) {
  const std::string_view s = whole.str();
  Pieces pieces(rt, whole);
  size_t i = space_run_end(s, 0, true);
  while (i < s.size()) {
    if (most-- == 0) {
      pieces.add(s.substr(i));
      break;
    }
    const size_t end = space_run_end(s, i, false);
    pieces.add(s.substr(i, end - i));
    i = space_run_end(s, end, true);
  }
  return pieces.take(false);
}

Value rsplit_at_space(Runtime& rt, const Value& whole, int64_t most) {
  const std::string_view s = whole.str();
  // The places where words begin and end, found from the front.
  std::vector<std::pair<size_t, size_t>> words;
  rt.heap.expect(s.size() * 8);
  for (size_t i = space_run_end(s, 0, true); i < s.size();) {
    const size_t end = space_run_end(s, i, false);
    words.emplace_back(i, end);
    i = space_run_end(s, end, true);
  }
  Pieces pieces(rt, whole);
  const size_t n_cut = most < 0 ? words.size() : std::min(words.size(), static_cast<size_t>(most));
  const size_t n_front = words.size() - n_cut;
  if (n_front > 0) {
    pieces.add(s.substr(0, words[n_front - 1].second));
  }
  for (size_t i = n_front; i < words.size(); ++i) {
    pieces.add(s.substr(words[i].first, words[i].second - words[i].first));
  }
  // The piece in front keeps the white space before its first word.
  return pieces.take(false);
}

const std::string& separator_argument(Runtime& rt, const Args& a, size_t i) {
  const std::string& separator = string_argument(rt, a, i, "a separator");
  if (separator.empty()) {
    rt.fail("a separator is empty");
  }
  return separator;
}

Value split(Runtime& rt, Args& a) {
  const std::string_view s = a.at[0].str();
  rt.heap.step_bytes(s.size());
  int64_t most = most_argument(rt, a, 2);
  if (!a.has(1) || a.at[1].is_none()) {
    return split_at_space(rt, a.at[0], most);
  }
  const std::string& separator = separator_argument(rt, a, 1);
  step_search(rt, s, separator);
  Pieces pieces(rt, a.at[0]);
  size_t i = 0;
  for (size_t found; most-- != 0 && (found = s.find(separator, i)) != std::string::npos;) {
    pieces.add(s.substr(i, found - i));
    i = found + separator.size();
  }
  pieces.add(s.substr(i));
  return pieces.take(false);
}

Value rsplit(Runtime& rt, Args& a) {
  const std::string_view s = a.at[0].str();
  rt.heap.step_bytes(s.size());
  int64_t most = most_argument(rt, a, 2);
  if (!a.has(1) || a.at[1].is_none()) {
    return rsplit_at_space(rt, a.at[0], most);
  }
  const std::string& separator = separator_argument(rt, a, 1);
  step_search(rt, s, separator);
  Pieces pieces(rt, a.at[0]);
  size_t end = s.size();
  while (most-- != 0 && end >= separator.size()) {
    const size_t found = s.rfind(separator, end - separator.size());
    if (found == std::string::npos) {
      break;
    }
    pieces.add(s.substr(found + separator.size(), end - found - separator.size()));
    end = found;
  }
  pieces.add(s.substr(0, end));
  return pieces.take(true);
}

Value splitlines(Runtime& rt, Args& a) {
  Pieces pieces(rt, a.at[0]);
  for (const std::string_view line : lines_of(rt, a.at[0].str(), bool_argument(a, 1, false))) {
    pieces.add(line);
  }
  return pieces.take(false);
}

Value partition_at(Runtime& rt, Args& a, bool from_right) {
  const std::string_view s = a.at[0].str();
  const std::string& separator = separator_argument(rt, a, 1);
  step_search(rt, s, separator);
  const size_t found = from_right ? s.rfind(separator) : s.find(separator);
  std::string parts[3];
  if (found != std::string::npos) {
    parts[0] = s.substr(0, found);
    parts[1] = separator;
    parts[2] = s.substr(found + separator.size());
  } else {
    parts[from_right ? 2 : 0] = s;
  }
  return rt.heap.list({rt.text(parts[0]), rt.text(parts[1]), rt.text(parts[2])}, Shape::kTuple);
}

Value partition(Runtime& rt, Args& a) { return partition_at(rt, a, false); }
Value rpartition(Runtime& rt, Args& a) { return partition_at(rt, a, true); }

Value join(Runtime& rt, Args& a) {
  const Value& separator = a.at[0];
  std::string out;
  bool first = true;
  for (const Value& item : items_of(rt, a.at[1])) {
    if (!item.is_string()) {
      rt.fail(fmt::format("join needs strings, not a {}", type_name(item)));
    }
    rt.heap.step_bytes(separator.str().size());
    rt.heap.expect(out.size() + separator.str().size() + item.str().size());
    out += first ? "" : separator.str();
    first = false;
    out += separator.is_safe() ? escaped(rt, item) : item.str();
  }
  return rt.text(std::move(out), separator.is_safe());
}

Value removeprefix(Runtime& rt, Args& a) {
  const std::string& prefix = string_argument(rt, a, 1, "a prefix");
  const std::string& s = a.at[0].str();
  rt.heap.step_bytes(prefix.size());
  return s.starts_with(prefix) ? rt.text(s.substr(prefix.size()), a.at[0].is_safe()) : a.at[0];
}

Value removesuffix(Runtime& rt, Args& a) {
  const std::string& suffix = string_argument(rt, a, 1, "a suffix");
  const std::string& s = a.at[0].str();
  rt.heap.step_bytes(suffix.size());
  return !suffix.empty() && s.ends_with(suffix)
             ? rt.text(s.substr(0, s.size() - suffix.size()), a.at[0].is_safe())
             : a.at[0];
}

Value justified(Runtime& rt, Args& a, char align) {
  FormatSpec spec;
  spec.align = align;
  if (a.has(2)) {
    spec.fill = string_argument(rt, a, 2, "what fills a field");
    if (a.at[2].text().n_chars != 1) {
      rt.fail("what fills a field must be one character");
    }
  }
  const int64_t width = std::max<int64_t>(int_argument(rt, a, 1, 0), 0);
  if (width > static_cast<int64_t>(kWidestField)) {
    rt.fail(fmt::format("a field of more than {} characters", kWidestField));
  }
  if (align == '^') {
    return rt.text(centered(rt, a.at[0], width, spec.fill), a.at[0].is_safe());
  }
  spec.width = static_cast<size_t>(width);
  return rt.text(pad(rt, a.at[0].str(), spec, align), a.at[0].is_safe());
}

Value ljust(Runtime& rt, Args& a) { return justified(rt, a, '<'); }
Value rjust(Runtime& rt, Args& a) { return justified(rt, a, '>'); }
Value center(Runtime& rt, Args& a) { return justified(rt, a, '^'); }

Value zfill(Runtime& rt, Args& a) {
  FormatSpec spec;
  spec.fill = "0";
  const int64_t width = std::clamp<int64_t>(int_argument(rt, a, 1, 0), 0, kWidestField);
  std::string s = a.at[0].str();
  const bool is_signed = !s.empty() && (s[0] == '-' || s[0] == '+');
  spec.width = static_cast<size_t>(std::max<int64_t>(width - (is_signed ? 1 : 0), 0));
  const std::string sign = is_signed ? s.substr(0, 1) : "";
  return rt.text(sign + pad(rt, s.substr(sign.size()), spec, '>'));
}

Value format(Runtime& rt, Args& a) { return format_braces(rt, a); }

}  // namespace

const Table& string_methods() {
  static const Table kTable = {
      {"upper", "self", upper},
      {"lower", "self", lower},
      {"title", "self", title_method},
      {"capitalize", "self", capitalize_method},
      {"casefold", "self", casefold_method},
      {"swapcase", "self", swapcase},
      {"strip", "self chars?", strip},
      {"lstrip", "self chars?", lstrip},
      {"rstrip", "self chars?", rstrip},
      {"replace", "self old new count?", replace},
      {"split", "self sep? maxsplit?", split},
      {"rsplit", "self sep? maxsplit?", rsplit},
      {"splitlines", "self keepends?", splitlines},
      {"partition", "self sep", partition},
      {"rpartition", "self sep", rpartition},
      {"join", "self iterable", join},
      {"removeprefix", "self prefix", removeprefix},
      {"removesuffix", "self suffix", removesuffix},
      {"ljust", "self width fillchar?", ljust},
      {"rjust", "self width fillchar?", rjust},
      {"center", "self width fillchar?", center},
      {"zfill", "self width", zfill},
      {"format", "self *", format},
  };
  return kTable;
}

}  // namespace troika::jinja
