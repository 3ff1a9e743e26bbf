#include <fmt/format.h>

#include <algorithm>

#include "jinja/format/format.h"

namespace troika::jinja {

namespace {

class BraceFormatter {
 public:
  BraceFormatter(Runtime& rt, const Args& args) : rt_(rt), args_(args) {}

  // Lays out a format. A field's specification may contain fields itself, but no deeper ones:
  // `depth` counts that.
  std::string run(std::string_view format, int depth) {
    std::string out;
    for (size_t i = 0; i < format.size();) {
      const char c = format[i];
      const bool doubled = i + 1 < format.size() && format[i + 1] == c;
      if ((c == '{' || c == '}') && doubled && depth == 0) {
        out.push_back(c);
        i += 2;
      } else if (c == '{') {
        const size_t end = field_end(format, i);
        out += field(format.substr(i + 1, end - i - 1), depth);
        rt_.heap.expect(out.size());
        i = end + 1;
      } else if (c == '}') {
        rt_.fail("a format has a '}' that closes nothing");
      } else {
        out.push_back(c);
        ++i;
      }
    }
    return out;
  }

 private:
  size_t field_end(std::string_view format, size_t open) const {
    int depth = 0;
    for (size_t i = open; i < format.size(); ++i) {
      depth += format[i] == '{' ? 1 : format[i] == '}' ? -1 : 0;
      if (depth == 0) {
        return i;
      }
    }
    rt_.fail("a format has a '{' without an end");
  }

  std::string field(std::string_view text, int depth) {
    if (depth > 1) {
      rt_.fail("a format has fields in fields in fields");
    }
    rt_.heap.step_bytes(text.size());
    size_t name_end = 0;
    for (int brackets = 0; name_end < text.size(); ++name_end) {
      const char c = text[name_end];
      brackets += c == '[' ? 1 : c == ']' ? -1 : 0;
      if (brackets == 0 && (c == ':' || c == '!')) {
        break;
      }
    }
    Value v = resolve(text.substr(0, name_end));
    std::string_view rest = text.substr(name_end);
    if (!rest.empty() && rest[0] == '!') {
      v = converted(v, rest.size() > 1 ? rest[1] : '\0');
      rest.remove_prefix(std::min<size_t>(2, rest.size()));
      if (!rest.empty() && rest[0] != ':') {
        rt_.fail("a format expects ':' after a conversion");
      }
    }
    const std::string spec = rest.empty() ? std::string() : run(rest.substr(1), depth + 1);
    if (!spec.empty() && !v.is_string() && !v.is_number()) {
      rt_.require_defined(v);
    }
    return format_value(rt_, v, parse_spec(rt_, spec));
  }

  Value converted(const Value& v, char how) {
    if (how == 's') {
      return as_text(rt_, v);
    }
    if (how != 'r' && how != 'a') {
      rt_.fail("a format has an unknown conversion");
    }
    return rt_.text(to_repr(rt_, v));
  }

  static bool is_number(std::string_view s) {
    return !s.empty() && s.size() < 9 &&
           std::all_of(s.begin(), s.end(), [](char c) { return c >= '0' && c <= '9'; });
  }

  Value resolve(std::string_view name) {
    const size_t first_end = std::min(name.find_first_of(".["), name.size());
    Value v = argument(name.substr(0, first_end));
    size_t i = first_end;
    while (i < name.size()) {
      if (name[i] == '.') {
        const size_t end = std::min(name.find_first_of(".[", i + 1), name.size());
        v = get_attribute(rt_, v, rt_.text(std::string(name.substr(i + 1, end - i - 1))));
        i = end;
      } else {
        const size_t end = name.find(']', i);
        if (name[i] != '[' || end == std::string_view::npos) {
          rt_.fail("a format has a name that cannot be read");
        }
        const std::string key(name.substr(i + 1, end - i - 1));
        v = get_item(rt_, v, is_number(key) ? Value::of(int64_t{std::stol(key)}) : rt_.text(key));
        i = end + 1;
      }
    }
    return v;
  }

  Value argument(std::string_view name) {
    if (name.empty() || is_number(name)) {
      const size_t i = name.empty() ? n_automatic_++ : std::stoul(std::string(name));
      if (i + 1 >= args_.at.size()) {
        rt_.fail("a format has more places than values");
      }
      return args_.at[i + 1];
    }
    rt_.heap.step(args_.named.size() / 16);
    for (const auto& [key, value] : args_.named) {
      if (key == name) {
        return value;
      }
    }
    rt_.fail(fmt::format("a format names '{}', which is not given", name));
  }

  Runtime& rt_;
  const Args& args_;
  size_t n_automatic_ = 0;
};

}  // namespace

Value format_braces(Runtime& rt, const Args& args) {
  const Value& format = args.at[0];
  rt.heap.step_bytes(format.str().size() * 16);
  return rt.text(BraceFormatter(rt, args).run(format.str(), 0), format.is_safe());
}

}  // namespace troika::jinja
