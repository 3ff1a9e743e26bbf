#include "jinja/runtime.h"

namespace troika::jinja {

std::string escape_html(std::string_view s) {
  std::string out;
  out.reserve(s.size());
  for (const char c : s) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&#34;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out.push_back(c);
    }
  }
  return out;
}

std::string escaped(Runtime& rt, const Value& v) {
  if (v.is_string() && v.is_safe()) {
    return v.str();
  }
  const std::string text = to_str(rt, v);
  rt.heap.expect(5 * text.size());
  return escape_html(text);
}

}  // namespace troika::jinja
