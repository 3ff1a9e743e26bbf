#include <fmt/format.h>

#include <cmath>

#include "jinja/format/format.h"
#include "jinja/values/dict.h"
#include "jinja/values/unicode.h"

namespace troika::jinja {

namespace {

class PercentFormatter {
 public:
  PercentFormatter(Runtime& rt, const Value& format, const Value& arguments)
      : rt_(rt), format_(format.str()), safe_(format.is_safe()), arguments_(arguments) {
    if (arguments.is(Shape::kTuple)) {
      items_ = arguments.sequence().items;
    } else {
      items_ = {arguments};
    }
  }

  Value run() {
    std::string out;
    while (i_ < format_.size()) {
      const size_t percent = std::min(format_.find('%', i_), format_.size());
      out.append(format_, i_, percent - i_);
      i_ = percent;
      if (i_ < format_.size()) {
        ++i_;
        out += directive();
        rt_.heap.expect(out.size());
      }
    }
    // As in Python, arguments that can be indexed may hold more than is used.
    const bool is_indexed = arguments_.is(Shape::kDict) || arguments_.is(Shape::kList) ||
                            arguments_.is(Shape::kRange) || arguments_.is_undefined();
    if (n_used_ < items_.size() && !is_indexed) {
      rt_.fail("a format has fewer places than values");
    }
    return rt_.text(std::move(out), safe_);
  }

 private:
  char at() const {
    if (i_ >= format_.size()) {
      rt_.fail("a format ends within a directive");
    }
    return format_[i_];
  }

  Value next_item() {
    if (n_used_ >= items_.size()) {
      rt_.fail("a format has more places than values");
    }
    return items_[n_used_++];
  }

  Value named_item() {
    const size_t end = format_.find(')', i_);
    if (end == std::string::npos || !arguments_.is(Shape::kDict)) {
      rt_.fail("a format with names needs a dictionary");
    }
    const std::string name = format_.substr(i_ + 1, end - i_ - 1);
    i_ = end + 1;
    const Value* found = arguments_.dict().find(rt_.heap, name);
    if (found == nullptr) {
      rt_.fail(fmt::format("a format names '{}', which the dictionary does not have", name));
    }
    return *found;
  }

  size_t count() {
    if (at() == '*') {
      ++i_;
      const Value v = next_item();
      if (!v.is_integral() || v.as_int() < 0 || v.as_int() > static_cast<int64_t>(kWidestField)) {
        rt_.fail("the width of a format is no usable integer");
      }
      return static_cast<size_t>(v.as_int());
    }
    size_t n = 0;
    while (at() >= '0' && at() <= '9') {
      n = n * 10 + static_cast<size_t>(format_[i_++] - '0');
      if (n > kWidestField) {
        rt_.fail(fmt::format("a format asks for more than {} characters", kWidestField));
      }
    }
    return n;
  }

  std::string directive() {
    Value named = Value::missing();
    if (at() == '(') {
      named = named_item();
    }
    FormatSpec spec;
    bool zero = false;
    bool left = false;
    for (; std::string_view("#0- +").find(at()) != std::string_view::npos; ++i_) {
      left |= at() == '-';
      zero |= at() == '0';
      spec.alternate |= at() == '#';
      spec.sign = at() == '+' ? '+' : at() == ' ' && spec.sign != '+' ? ' ' : spec.sign;
    }
    spec.width = count();
    if (at() == '.') {
      ++i_;
      spec.precision = static_cast<int>(count());
    }
    while (at() == 'h' || at() == 'l' || at() == 'L') {
      ++i_;
    }
    const char type = at();
    ++i_;
    if (type == '%') {
      return "%";
    }
    spec.align = left ? '<' : '>';
    const Value v = named.is_missing() ? next_item() : named;
    return convert(v, type, zero && !left, spec);
  }

  std::string convert(const Value& v, char type, bool zero, const FormatSpec& spec) {
    if (type == 's' || type == 'r' || type == 'a') {
      std::string text = type == 's' ? to_str(rt_, v) : to_repr(rt_, v);
      if (spec.precision >= 0) {
        text.resize(utf8_offset(text, static_cast<size_t>(spec.precision)));
      }
      text = pad(rt_, std::move(text), spec, '>');
      return safe_ && !v.is_safe() ? escape_html(text) : text;
    }
    if (type == 'c') {
      std::string text = v.is_string() && v.text().n_chars == 1 ? v.str() : std::string();
      if (v.is_integral() && v.as_int() >= 0 && v.as_int() < 0x110000) {
        utf8_append(text, static_cast<uint32_t>(v.as_int()));
      }
      if (text.empty()) {
        rt_.fail("%c needs one character");
      }
      return pad(rt_, std::move(text), spec, '>');
    }
    return convert_number(v, type, zero, spec);
  }

  std::string convert_number(Value v, char type, bool zero, FormatSpec spec) {
    rt_.require_defined(v);
    const bool is_integer_type = std::string_view("diuxXo").find(type) != std::string_view::npos;
    if (!is_integer_type && std::string_view("eEfFgG").find(type) == std::string_view::npos) {
      rt_.fail(fmt::format("'%{}' is no format", type));
    }
    if (!v.is_number()) {
      rt_.fail(fmt::format("%{} needs a number, not a {}", type, type_name(v)));
    }
    if (zero) {
      spec.fill = "0";
      spec.align = '=';
    }
    spec.type = type == 'i' || type == 'u' ? 'd' : type;
    if (is_integer_type) {
      v = whole(v, type);
      const int n_digits = spec.precision;
      spec.precision = -1;
      return n_digits >= 0 ? with_digits(v, spec, n_digits) : format_number(rt_, v, spec);
    }
    return format_number(rt_, Value::of(v.as_double()), spec);
  }

  Value whole(const Value& v, char type) {
    if (v.is_integral()) {
      return Value::of(v.as_int());
    }
    const double d = std::trunc(v.as_double());
    const bool is_decimal_type = type == 'd' || type == 'i' || type == 'u';
    if (!is_decimal_type || !(std::fabs(d) < 9e18)) {
      rt_.fail(fmt::format("%{} needs an integer", type));
    }
    return Value::of(static_cast<int64_t>(d));
  }

  // Writes %.5d: at least five digits, then the width.
  std::string with_digits(const Value& v, const FormatSpec& spec, int n_digits) {
    FormatSpec digits = spec;
    digits.fill = "0";
    digits.align = '=';
    digits.width = 0;
    const size_t n_front =
        format_number(rt_, v, digits).size() - format_number(rt_, magnitude(v), bare(spec)).size();
    digits.width = n_front + static_cast<size_t>(n_digits);
    return pad(rt_, format_number(rt_, v, digits), spec, '>');
  }
  static FormatSpec bare(const FormatSpec& spec) {
    FormatSpec out;
    out.type = spec.type;
    return out;
  }
  Value magnitude(const Value& v) { return v.as_int() < 0 ? negative(rt_, v) : v; }

  Runtime& rt_;
  const std::string& format_;
  const bool safe_;
  const Value& arguments_;
  std::vector<Value> items_;
  size_t i_ = 0;
  size_t n_used_ = 0;
};

}  // namespace

Value format_percent(Runtime& rt, const Value& format, const Value& arguments) {
  rt.heap.step_bytes(format.str().size());
  return PercentFormatter(rt, format, arguments).run();
}

}  // namespace troika::jinja
