#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "jinja/runtime.h"
#include "jinja/values/dict.h"
#include "jinja/values/unicode.h"

namespace troika::jinja {

namespace {

class Writer {
 public:
  Writer(Runtime& rt, const JsonStyle& style) : rt_(rt), style_(style) {}

  void write(const Value& v) {
    rt_.heap.step();
    rt_.heap.expect(out_.size());
    switch (v.kind()) {
      case Kind::kNone:
        out_ += "null";
        return;
      case Kind::kBool:
        out_ += v.as_bool() ? "true" : "false";
        return;
      case Kind::kInt:
        out_ += std::to_string(v.as_int());
        return;
      case Kind::kFloat:
        write_float(v.as_double());
        return;
      case Kind::kString:
        write_string(v.str());
        return;
      default:
        break;
    }
    const Runtime::Descent descent(rt_);
    const bool is_lazy = v.is(Shape::kIterator) || v.is(Shape::kView) || v.is(Shape::kRange);
    if (v.is_list_or_tuple()) {
      write_items(v.sequence().items);
    } else if (is_lazy) {
      // Python refuses iterators, but templates written for other runners pass what map() gives.
      write_items(items_of(rt_, v));
    } else if (v.is(Shape::kDict)) {
      write_dict(v.dict());
    } else {
      rt_.require_defined(v);
      rt_.fail(fmt::format("a {} cannot be written as JSON", type_name(v)));
    }
  }

  std::string take() { return std::move(out_); }

 private:
  void write_float(double d) {
    out_ += std::isnan(d)   ? "NaN"
            : std::isinf(d) ? (d < 0 ? "-Infinity" : "Infinity")
                            : float_repr(d);
  }

  void write_string(const std::string& s) {
    rt_.heap.step_bytes(s.size());
    // A byte becomes up to six, as in "\u0001".
    rt_.heap.expect(out_.size() + 6 * s.size());
    out_.push_back('"');
    for (size_t i = 0; i < s.size();) {
      write_char(utf8_next(s, i));
    }
    out_.push_back('"');
  }

  void write_char(uint32_t c) {
    constexpr std::string_view kEscaped = "\"\\\n\r\t\f\b";
    constexpr std::string_view kLetters = "\"\\nrtfb";
    const size_t k = c < 0x80 ? kEscaped.find(static_cast<char>(c)) : std::string_view::npos;
    if (k != std::string_view::npos) {
      out_.push_back('\\');
      out_.push_back(kLetters[k]);
    } else if (c < 0x20 || (style_.ensure_ascii && c >= 0x7F && c < 0x10000)) {
      out_ += fmt::format("\\u{:04x}", c);
    } else if (style_.ensure_ascii && c >= 0x10000 && c < kRawByte) {
      const uint32_t rest = c - 0x10000;
      out_ += fmt::format("\\u{:04x}\\u{:04x}", 0xD800 + (rest >> 10), 0xDC00 + (rest & 0x3FF));
    } else {
      utf8_append(out_, c);
    }
  }

  void new_line() {
    if (style_.indented) {
      out_.push_back('\n');
      for (int i = 0; i < depth_; ++i) {
        out_ += style_.indent;
      }
    }
  }

  void write_items(const std::vector<Value>& items) {
    out_.push_back('[');
    ++depth_;
    for (size_t i = 0; i < items.size(); ++i) {
      out_ += i > 0 ? style_.item_separator : "";
      new_line();
      write(items[i]);
    }
    --depth_;
    if (!items.empty()) {
      new_line();
    }
    out_.push_back(']');
  }

  void write_key(const Value& key) {
    if (key.is_string()) {
      return write_string(key.str());
    }
    if (!key.is_number() && !key.is_none()) {
      rt_.fail(fmt::format("a {} cannot be a key in JSON", type_name(key)));
    }
    out_.push_back('"');
    write(key);
    out_.push_back('"');
  }

  void write_dict(const Dict& dict) {
    // The order counts as memory, since a dictionary may hold itself, so that many are written.
    const size_t bytes = style_.sort_keys ? dict.entries.size() * sizeof(Entry) : 0;
    rt_.heap.take(bytes);
    const std::vector<Entry> sorted =
        style_.sort_keys ? sorted_entries(dict) : std::vector<Entry>();
    out_.push_back('{');
    ++depth_;
    for (size_t i = 0; i < dict.entries.size(); ++i) {
      const auto& [key, value] = style_.sort_keys ? *sorted[i] : dict.entries[i];
      out_ += i > 0 ? style_.item_separator : "";
      new_line();
      write_key(key);
      out_ += style_.key_separator;
      write(value);
    }
    --depth_;
    if (!dict.entries.empty()) {
      new_line();
    }
    out_.push_back('}');
    rt_.heap.give_back(bytes);
  }

  using Entry = const std::pair<Value, Value>*;

  std::vector<Entry> sorted_entries(const Dict& dict) {
    std::vector<Entry> entries;
    for (const auto& entry : dict.entries) {
      entries.push_back(&entry);
    }
    std::stable_sort(entries.begin(), entries.end(),
                     [&](Entry a, Entry b) { return less(rt_, a->first, b->first); });
    return entries;
  }

  Runtime& rt_;
  const JsonStyle& style_;
  std::string out_;
  int depth_ = 0;
};

}  // namespace

std::string to_json(Runtime& rt, const Value& v, const JsonStyle& style) {
  Writer writer(rt, style);
  writer.write(v);
  return writer.take();
}

}  // namespace troika::jinja
