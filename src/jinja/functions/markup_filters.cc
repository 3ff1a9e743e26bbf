// Filters about markup, addresses and JSON.
#include <fmt/format.h>

#include "jinja/format/format.h"
#include "jinja/functions/builtins.h"
#include "jinja/values/dict.h"
#include "jinja/values/string_util.h"
#include "jinja/values/unicode.h"

namespace troika::jinja {

namespace {

Value escape(Runtime& rt, Args& a) { return rt.text(escaped(rt, a.at[0]), true); }

Value force_escape(Runtime& rt, Args& a) {
  return rt.text(escaped(rt, text_of(rt, a.at[0]).as_safe(false)), true);
}

Value safe(Runtime& rt, Args& a) { return text_of(rt, a.at[0]).as_safe(true); }

// Returns where the next closing mark behind `i` ends, or npos.
size_t behind(std::string_view s, std::string_view mark, size_t i) {
  const size_t found = s.find(mark, i);
  return found == std::string_view::npos ? found : found + mark.size();
}

std::string without_tags(std::string_view s) {
  std::string out;
  for (size_t i = 0; i < s.size();) {
    if (s[i] == '<') {
      const bool is_comment = s.substr(i, 4) == "<!--";
      const size_t end = is_comment ? behind(s, "-->", i) : behind(s, ">", i);
      if (end == std::string_view::npos) {
        out += s.substr(i);
        break;
      }
      i = end;
    } else {
      out.push_back(s[i++]);
    }
  }
  return out;
}

std::string unescaped(std::string s) {
  constexpr std::pair<std::string_view, char> kNames[] = {{"&lt;", '<'},   {"&gt;", '>'},
                                                          {"&#34;", '"'},  {"&quot;", '"'},
                                                          {"&#39;", '\''}, {"&amp;", '&'}};
  std::string out;
  for (size_t i = 0; i < s.size();) {
    bool found = false;
    for (const auto& [name, c] : kNames) {
      if (std::string_view(s).substr(i, name.size()) == name) {
        out.push_back(c);
        i += name.size();
        found = true;
        break;
      }
    }
    if (!found) {
      out.push_back(s[i++]);
    }
  }
  return out;
}

Value striptags(Runtime& rt, Args& a) {
  const std::string s = to_str(rt, a.at[0]);
  rt.heap.step(s.size() / 2);
  const std::string bare = without_tags(s);
  std::string out;
  for (size_t i = 0; i < bare.size();) {
    const uint32_t c = utf8_next(bare, i);
    if (!is_space(c)) {
      utf8_append(out, c);
    } else if (!out.empty() && out.back() != ' ') {
      out.push_back(' ');
    }
  }
  if (!out.empty() && out.back() == ' ') {
    out.pop_back();
  }
  return rt.text(unescaped(std::move(out)));
}

std::string url_quoted(Runtime& rt, const Value& v, bool in_query) {
  const std::string s = to_str(rt, v);
  rt.heap.step(s.size() / 4);
  rt.heap.expect(3 * s.size());
  constexpr std::string_view kPlain =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-~";
  std::string out;
  for (const char c : s) {
    if (kPlain.find(c) != std::string_view::npos || (c == '/' && !in_query)) {
      out.push_back(c);
    } else if (c == ' ' && in_query) {
      out.push_back('+');
    } else {
      out += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    }
  }
  return out;
}

Value urlencode(Runtime& rt, Args& a) {
  const Value& v = a.at[0];
  if (v.is_string() || !v.is_object()) {
    return rt.text(url_quoted(rt, v, false));
  }
  std::string out;
  const auto add_pair = [&](const Value& key, const Value& value) {
    out += out.empty() ? "" : "&";
    out += url_quoted(rt, key, true) + "=" + url_quoted(rt, value, true);
  };
  if (v.is(Shape::kDict)) {
    for (const auto& [key, value] : v.dict().entries) {
      add_pair(key, value);
    }
    return rt.text(std::move(out));
  }
  for (const Value& pair : items_of(rt, v)) {
    const std::vector<Value> two = items_of(rt, pair);
    if (two.size() != 2) {
      rt.fail("urlencode needs pairs");
    }
    add_pair(two[0], two[1]);
  }
  return rt.text(std::move(out));
}

void set_indent(Runtime& rt, const Value& v, JsonStyle& style) {
  style.indented = true;
  if (v.is_string()) {
    style.indent = v.str();
  } else if (v.is_integral()) {
    if (v.as_int() > 1000) {
      rt.fail("tojson cannot indent by more than 1000 spaces");
    }
    style.indent.assign(static_cast<size_t>(std::max<int64_t>(v.as_int(), 0)), ' ');
  } else {
    rt.fail(fmt::format("tojson cannot indent by a {}", type_name(v)));
  }
  rt.heap.step_bytes(style.indent.size());
  style.item_separator = ",";
}

Value tojson(Runtime& rt, Args& a) {
  JsonStyle style;
  style.ensure_ascii = bool_argument(a, 1, false);
  if (a.has(2) && !a.at[2].is_none()) {
    set_indent(rt, a.at[2], style);
  }
  if (a.has(3) && !a.at[3].is_none()) {
    const std::vector<Value> two = items_of(rt, a.at[3]);
    if (two.size() != 2 || !two[0].is_string() || !two[1].is_string()) {
      rt.fail("the separators of tojson are two strings");
    }
    style.item_separator = two[0].str();
    style.key_separator = two[1].str();
    rt.heap.step_bytes(style.item_separator.size() + style.key_separator.size());
  }
  style.sort_keys = bool_argument(a, 4, false);
  return rt.text(to_json(rt, a.at[0], style));
}

Value from_json_filter(Runtime& rt, Args& a) {
  return from_json(rt, string_argument(rt, a, 0, "what from_json reads"));
}

}  // namespace

const Table& markup_filters() {
  static const Table kTable = {
      {"escape", "value", escape},
      {"e", "value", escape},
      {"forceescape", "value", force_escape},
      {"safe", "value", safe},
      {"striptags", "value", striptags},
      {"urlencode", "value", urlencode},
      {"tojson", "value ensure_ascii? indent? separators? sort_keys?", tojson},
      // The filters below are not Jinja's own, but some templates of models expect their runner to
      // have them.
      {"from_json", "value", from_json_filter},
      {"fromjson", "value", from_json_filter},
  };
  return kTable;
}

}  // namespace troika::jinja
