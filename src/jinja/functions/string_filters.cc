// Filters that turn a string into a string.
#include <fmt/format.h>

#include <algorithm>

#include "jinja/format/format.h"
#include "jinja/functions/builtins.h"
#include "jinja/values/string_util.h"
#include "jinja/values/unicode.h"

namespace troika::jinja {

namespace {

Value mapped(Runtime& rt, const Value& v, std::string (*map)(std::string_view)) {
  const Value s = text_of(rt, v);
  rt.heap.step(s.str().size() / 4);
  rt.heap.expect(s.str().size() * 3);
  return rt.text(map(s.str()), s.is_safe());
}

Value upper(Runtime& rt, Args& a) { return mapped(rt, a.at[0], to_upper); }
Value lower(Runtime& rt, Args& a) { return mapped(rt, a.at[0], to_lower); }
Value capitalize_filter(Runtime& rt, Args& a) { return mapped(rt, a.at[0], capitalize); }

// Writes words with capitals. Unlike the method, the filter begins a word only behind space, - ( {
// [ <.
std::string title_words(std::string_view s) {
  std::string out;
  bool begins = true;
  size_t rest = 0;  // where the letters behind the capital begin, which are lowered alone
  for (size_t i = 0; i < s.size();) {
    const size_t at = i;
    const uint32_t c = utf8_next(s, i);
    if (begins) rest = i;
    const bool separates = is_space(c) || c == '-' || c == '(' || c == '{' || c == '[' || c == '<';
    begins ? append_upper(out, c) : append_lower(out, s.substr(rest), at - rest);
    begins = separates;
  }
  return out;
}

Value title_filter(Runtime& rt, Args& a) { return mapped(rt, a.at[0], title_words); }

Value trim(Runtime& rt, Args& a) { return stripped(rt, text_of(rt, a.at[0]), a.at[1], true, true); }

Value string_filter(Runtime& rt, Args& a) { return text_of(rt, a.at[0]); }

Value replace(Runtime& rt, Args& a) {
  const bool all = !a.has(3) || a.at[3].is_none();
  const int64_t most = all ? -1 : std::max<int64_t>(int_argument(rt, a, 3, -1), -1);
  return rt.text(replaced(rt, to_str(rt, a.at[0]), to_str(rt, a.at[1]), to_str(rt, a.at[2]), most));
}

Value center(Runtime& rt, Args& a) {
  const Value s = text_of(rt, a.at[0]);
  return rt.text(centered(rt, s, int_argument(rt, a, 1, 80), " "), s.is_safe());
}

Value indent(Runtime& rt, Args& a) {
  std::string prefix;
  if (a.has(1) && a.at[1].is_string()) {
    prefix = a.at[1].str();
  } else {
    const int64_t width = std::clamp<int64_t>(int_argument(rt, a, 1, 4), 0, kWidestField);
    prefix.assign(static_cast<size_t>(width), ' ');
  }
  rt.heap.step_bytes(prefix.size());
  const bool first = bool_argument(a, 2, false);
  const bool blank = bool_argument(a, 3, false);
  const Value& value = a.at[0];
  const std::string s = string_argument(rt, a, 0, "what indent indents") + "\n";
  const std::vector<std::string_view> lines = lines_of(rt, s, false);
  std::string out = first ? prefix : std::string();
  for (size_t i = 0; i < lines.size(); ++i) {
    rt.heap.expect(out.size() + prefix.size() + lines[i].size());
    out += i > 0 ? "\n" : "";
    out += i > 0 && (blank || !lines[i].empty()) ? prefix : "";
    out += lines[i];
  }
  return rt.text(std::move(out), value.is_safe());
}

Value truncate(Runtime& rt, Args& a) {
  const Value& s = a.at[0];
  const int64_t length = int_argument(rt, a, 1, 255);
  const bool kill_words = bool_argument(a, 2, false);
  const std::string end = a.has(3) ? to_str(rt, a.at[3]) : "...";
  const int64_t leeway = a.has(4) && !a.at[4].is_none() ? int_argument(rt, a, 4, 5) : 5;
  const auto n_end = static_cast<int64_t>(utf8_length(end));
  if (length < n_end || leeway < 0) {
    rt.fail("truncate needs a length that its end fits in");
  }
  const int64_t n_chars = length_of(s);
  if (n_chars >= 0 && (n_chars <= length || n_chars - length <= leeway)) {
    return s;
  }
  string_argument(rt, a, 0, "what truncate cuts");
  rt.heap.step_bytes(s.str().size());
  std::string cut = s.str().substr(0, utf8_offset(s.str(), static_cast<size_t>(length - n_end)));
  if (!kill_words) {
    cut.resize(std::min(cut.rfind(' '), cut.size()));
  }
  return rt.text(cut + end);
}

Value wordcount(Runtime& rt, Args& a) {
  const Value s = text_of(rt, a.at[0]);
  rt.heap.step(s.str().size() / 4);
  int64_t n = 0;
  bool in_word = false;
  for (size_t i = 0; i < s.str().size();) {
    const uint32_t c = utf8_next(s.str(), i);
    const bool is_word = c == '_' || is_alpha(c) || is_numeric(c);
    n += is_word && !in_word ? 1 : 0;
    in_word = is_word;
  }
  return Value::of(n);
}

Value format_filter(Runtime& rt, Args& a) {
  const Value format = text_of(rt, a.at[0]);
  if (!a.named.empty()) {
    if (a.at.size() > 1) {
      rt.fail("format takes values in order or by name, not both");
    }
    Value dict = rt.heap.dict();
    for (const auto& [name, value] : a.named) {
      const Value key = rt.text(name);
      Args pair;
      pair.at = {dict, key, value};
      rt.call_builtin(find_method(dict, "setdefault"), "setdefault", pair);
    }
    return format_percent(rt, format, dict);
  }
  return format_percent(rt, format, rt.heap.list({a.at.begin() + 1, a.at.end()}, Shape::kTuple));
}

}  // namespace

const Table& string_filters() {
  static const Table kTable = {
      {"upper", "s", upper},
      {"lower", "s", lower},
      {"capitalize", "s", capitalize_filter},
      {"title", "s", title_filter},
      {"trim", "value chars?", trim},
      {"string", "value", string_filter},
      {"replace", "s old new count?", replace},
      {"center", "value width?", center},
      {"indent", "s width? first? blank?", indent},
      {"truncate", "s length? killwords? end? leeway?", truncate},
      {"wordcount", "s", wordcount},
      {"format", "value *", format_filter},
  };
  return kTable;
}

}  // namespace troika::jinja
