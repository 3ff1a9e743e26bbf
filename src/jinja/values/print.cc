// str() and repr() as Python prints them.
#include <fmt/format.h>

#include <charconv>
#include <cmath>

#include "jinja/functions/loop.h"
#include "jinja/runtime.h"
#include "jinja/values/dict.h"
#include "jinja/values/unicode.h"

namespace troika::jinja {

namespace {

void repr_to(Runtime& rt, std::string& out, const Value& v);

void repr_char(std::string& out, uint32_t c, char quote) {
  if (c == static_cast<uint32_t>(quote) || c == '\\') {
    out.push_back('\\');
    out.push_back(static_cast<char>(c));
  } else if (c == '\n') {
    out += "\\n";
  } else if (c == '\r') {
    out += "\\r";
  } else if (c == '\t') {
    out += "\\t";
  } else if (is_printable(c) || c >= kRawByte) {
    utf8_append(out, c);
  } else if (c < 0x100) {
    out += fmt::format("\\x{:02x}", c);
  } else if (c < 0x10000) {
    out += fmt::format("\\u{:04x}", c);
  } else {
    out += fmt::format("\\U{:08x}", c);
  }
}

void repr_string(Runtime& rt, std::string& out, const Value& v) {
  const std::string& s = v.str();
  rt.heap.step(s.size() / 4);
  rt.heap.expect(out.size() + 4 * s.size());
  const bool prefers_double = s.find('\'') != std::string::npos && s.find('"') == std::string::npos;
  const char quote = prefers_double ? '"' : '\'';
  out += v.is_safe() ? "Markup(" : "";
  out.push_back(quote);
  for (size_t i = 0; i < s.size();) {
    repr_char(out, utf8_next(s, i), quote);
  }
  out.push_back(quote);
  out += v.is_safe() ? ")" : "";
}

void items_to(Runtime& rt, std::string& out, const std::vector<Value>& items, const char* open,
              const char* close) {
  out += open;
  for (size_t i = 0; i < items.size(); ++i) {
    out += i > 0 ? ", " : "";
    repr_to(rt, out, items[i]);
  }
  out += close;
}

void dict_to(Runtime& rt, std::string& out, const Dict& dict) {
  out.push_back('{');
  bool first = true;
  for (const auto& [key, value] : dict.entries) {
    out += first ? "" : ", ";
    first = false;
    repr_to(rt, out, key);
    out += ": ";
    repr_to(rt, out, value);
  }
  out.push_back('}');
}

void object_to(Runtime& rt, std::string& out, const Value& v) {
  const Runtime::Descent descent(rt);
  switch (v.object()->shape) {
    case Shape::kList:
      return items_to(rt, out, v.sequence().items, "[", "]");
    case Shape::kTuple:
      return items_to(rt, out, v.sequence().items, "(",
                      v.sequence().items.size() == 1 ? ",)" : ")");
    case Shape::kView:
      out += v.sequence().label;
      return items_to(rt, out, v.sequence().items, "([", "])");
    case Shape::kDict:
      return dict_to(rt, out, v.dict());
    case Shape::kNamespace:
      out += "<Namespace ";
      dict_to(rt, out, v.dict());
      out += ">";
      return;
    case Shape::kRange: {
      const Range& r = v.range();
      out += r.step == 1 ? fmt::format("range({}, {})", r.first, r.stop)
                         : fmt::format("range({}, {}, {})", r.first, r.stop, r.step);
      return;
    }
    case Shape::kFunction:
      out += fmt::format("<Macro '{}'>", static_cast<Function&>(*v.object()).name());
      return;
    case Shape::kLoop: {
      const auto& loop = static_cast<Loop&>(*v.object());
      out += fmt::format("<LoopContext {}/{}>", loop.index0 + 1, loop.n_items);
      return;
    }
    case Shape::kIterator:
    case Shape::kCycler:
    case Shape::kJoiner:
      out += fmt::format("<{} object>", type_name(v));
      return;
  }
}

void repr_to(Runtime& rt, std::string& out, const Value& v) {
  rt.heap.step();
  if (v.is_string()) {
    repr_string(rt, out, v);
  } else if (v.is_undefined()) {
    out += "Undefined";
  } else {
    print_to(rt, out, v);
  }
}

}  // namespace

std::string float_repr(double d) {
  if (std::isnan(d)) {
    return "nan";
  }
  if (std::isinf(d)) {
    return d < 0 ? "-inf" : "inf";
  }
  char buffer[64];
  const auto end = std::to_chars(buffer, buffer + sizeof(buffer), d, std::chars_format::scientific);
  std::string_view text(buffer, static_cast<size_t>(end.ptr - buffer));
  std::string out;
  if (text[0] == '-') {
    out.push_back('-');
    text.remove_prefix(1);
  }
  const size_t e = text.find('e');
  std::string digits;
  for (const char c : text.substr(0, e)) {
    if (c != '.') {
      digits.push_back(c);
    }
  }
  int exponent = 0;
  const char* exponent_text = text.data() + e + (text[e + 1] == '+' ? 2 : 1);
  std::from_chars(exponent_text, text.data() + text.size(), exponent);
  // Python writes an exponent below 1e-4, and from 1e16 on.
  if (exponent < -4 || exponent >= 16) {
    out += digits.substr(0, 1);
    out += digits.size() > 1 ? "." + digits.substr(1) : "";
    return out + fmt::format("e{}{:02}", exponent < 0 ? '-' : '+', std::abs(exponent));
  }
  if (exponent < 0) {
    return out + "0." + std::string(static_cast<size_t>(-exponent - 1), '0') + digits;
  }
  const auto n_whole = static_cast<size_t>(exponent) + 1;
  if (digits.size() <= n_whole) {
    return out + digits + std::string(n_whole - digits.size(), '0') + ".0";
  }
  return out + digits.substr(0, n_whole) + "." + digits.substr(n_whole);
}

void print_to(Runtime& rt, std::string& out, const Value& v) {
  rt.heap.expect(out.size());
  switch (v.kind()) {
    case Kind::kMissing:
    case Kind::kUndefined:
      return;
    case Kind::kNone:
      out += "None";
      return;
    case Kind::kBool:
      out += v.as_bool() ? "True" : "False";
      return;
    case Kind::kInt:
      out += std::to_string(v.as_int());
      return;
    case Kind::kFloat:
      out += float_repr(v.as_double());
      return;
    case Kind::kString:
      out += v.str();
      return;
    case Kind::kObject:
      object_to(rt, out, v);
      return;
  }
}

std::string to_str(Runtime& rt, const Value& v) {
  std::string out;
  print_to(rt, out, v);
  rt.heap.step(out.size() / 16);
  return out;
}

std::string to_repr(Runtime& rt, const Value& v) {
  std::string out;
  repr_to(rt, out, v);
  return out;
}

Value as_text(Runtime& rt, const Value& v) { return v.is_string() ? v : rt.text(to_str(rt, v)); }

}  // namespace troika::jinja
