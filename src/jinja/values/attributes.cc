// Reads object.name, object[key] and object[start:stop:step].
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "jinja/functions/builtins.h"
#include "jinja/functions/loop.h"
#include "jinja/values/dict.h"
#include "jinja/values/unicode.h"

namespace troika::jinja {

namespace {

// Returns the attribute proper, without a look into a dictionary's entries.
std::optional<Value> own_attribute(Runtime& rt, const Value& object, const std::string& name) {
  if (const Builtin* method = find_method(object, name)) {
    return bound_method(rt, *method, object);
  }
  if (object.is(Shape::kLoop)) {
    Value v = static_cast<Loop*>(object.object())->attribute(rt, name);
    return v.is_undefined() ? std::nullopt : std::optional(std::move(v));
  }
  if (object.is(Shape::kNamespace)) {
    const Value* found = object.dict().find(rt.heap, name);
    return found == nullptr ? std::nullopt : std::optional(*found);
  }
  if (object.is(Shape::kCycler) && name == "current") {
    const auto& cycler = static_cast<Cycler&>(*object.object());
    return cycler.items[cycler.position];
  }
  if (object.is(Shape::kFunction) && name == "name") {
    return rt.text(static_cast<Function&>(*object.object()).name());
  }
  // Pairs from groupby have names for their two parts.
  if (object.is(Shape::kTuple) && std::string_view(object.sequence().label) == "group") {
    if (name == "grouper" || name == "list") {
      return object.sequence().items[name == "list" ? 1 : 0];
    }
  }
  return std::nullopt;
}

std::optional<Value> char_at(Runtime& rt, const Value& s, int64_t i) {
  const Text& text = s.text();
  const auto n = static_cast<int64_t>(text.n_chars);
  i += i < 0 ? n : 0;
  if (i < 0 || i >= n) {
    return std::nullopt;
  }
  const auto k = static_cast<size_t>(i);
  if (text.n_chars == text.bytes.size()) {
    return rt.text(text.bytes.substr(k, 1), s.is_safe());
  }
  rt.heap.step_bytes(text.bytes.size());
  const size_t begin = utf8_offset(text.bytes, k);
  size_t end = begin;
  utf8_next(text.bytes, end);
  return rt.text(text.bytes.substr(begin, end - begin), s.is_safe());
}

std::optional<Value> own_item(Runtime& rt, const Value& object, const Value& key) {
  if (object.is(Shape::kDict)) {
    if (key.is_object() && !key.is(Shape::kTuple)) {
      return std::nullopt;
    }
    check_key(rt, key);
    const Value* found = object.dict().find(rt.heap, key);
    return found == nullptr ? std::nullopt : std::optional(*found);
  }
  if (!key.is_integral()) {
    return std::nullopt;
  }
  int64_t i = key.as_int();
  if (object.is_string()) {
    return char_at(rt, object, i);
  }
  if (object.is_list_or_tuple()) {
    const auto& items = object.sequence().items;
    i += i < 0 ? static_cast<int64_t>(items.size()) : 0;
    if (i >= 0 && i < static_cast<int64_t>(items.size())) {
      return items[static_cast<size_t>(i)];
    }
  }
  if (object.is(Shape::kRange)) {
    i += i < 0 ? object.range().n : 0;
    if (i >= 0 && i < object.range().n) {
      return object.range().at(i);
    }
  }
  return std::nullopt;
}

Value missing_item(Runtime& rt, const Value& key) {
  if (key.is_string()) {
    return Value::undefined(key.shared_text());
  }
  return rt.undefined("element " + to_str(rt, key));
}

struct Bounds {
  int64_t start, step, n;
};

std::optional<int64_t> slice_bound(Runtime& rt, const Value& v) {
  if (v.is_none()) {
    return std::nullopt;
  }
  if (!v.is_integral()) {
    rt.require_defined(v);
    rt.fail(fmt::format("a slice needs integers, not a {}", type_name(v)));
  }
  return v.as_int();
}

// Applies Python's rules for the bounds of a slice over `length` items.
Bounds slice_bounds(Runtime& rt, const Value& start, const Value& stop, const Value& step,
                    int64_t length) {
  const int64_t by = slice_bound(rt, step).value_or(1);
  if (by == 0) {
    rt.fail("the step of a slice is zero");
  }
  const int64_t low = by > 0 ? 0 : -1;
  const int64_t high = by > 0 ? length : length - 1;
  const auto clamped = [&](const Value& v, int64_t fallback) {
    const std::optional<int64_t> given = slice_bound(rt, v);
    if (!given) {
      return fallback;
    }
    return *given < 0 ? std::max(*given + length, low) : std::min(*given, high);
  };
  const int64_t first = clamped(start, by > 0 ? low : high);
  const int64_t last = clamped(stop, by > 0 ? high : low);
  // The number of items comes from Range's arithmetic in 128 bits.
  return {first, by, Range(first, last, by).n};
}

int64_t clamped_to_64_bits(__int128 i) {
  return static_cast<int64_t>(std::clamp<__int128>(i, INT64_MIN, INT64_MAX));
}

// Multiplies in 128 bits, since the numbers of a range may lie anywhere in 64.
Value slice_range(Runtime& rt, const Range& r, const Bounds& b) {
  const auto step = static_cast<__int128>(b.step) * r.step;
  const int64_t by = clamped_to_64_bits(step);
  if (b.n > 1 && by != step) {
    rt.fail("the numbers of a slice of a range lie further apart than 64 bits can say");
  }
  // The first number is one of the range, if there is any, and the others end before the limits.
  const int64_t first = clamped_to_64_bits(r.first + static_cast<__int128>(b.start) * r.step);
  const int64_t stop = clamped_to_64_bits(first + static_cast<__int128>(b.n) * by);
  return Value::of(rt.heap.make<Range>(first, stop, by));
}

Value slice_string(Runtime& rt, const Value& s, const Bounds& b) {
  const Text& text = s.text();
  rt.heap.step_bytes(text.bytes.size());
  if (b.step == 1) {
    const bool ascii = text.n_chars == text.bytes.size();
    const auto n = static_cast<size_t>(b.n);
    const auto begin_char = static_cast<size_t>(b.n > 0 ? b.start : 0);
    const size_t begin = ascii ? begin_char : utf8_offset(text.bytes, begin_char);
    const size_t bytes = ascii ? n : utf8_offset(std::string_view(text.bytes).substr(begin), n);
    return rt.text(text.bytes.substr(begin, bytes), s.is_safe());
  }
  rt.heap.expect(text.bytes.size() * 4);
  rt.heap.step(text.bytes.size() / 4);
  const std::vector<uint32_t> chars = utf8_decode(text.bytes);
  std::string out;
  for (int64_t i = 0; i < b.n; ++i) {
    utf8_append(out, chars[static_cast<size_t>(b.start + i * b.step)]);
  }
  return rt.text(std::move(out), s.is_safe());
}

}  // namespace

Value get_attribute(Runtime& rt, const Value& object, const Value& name) {
  rt.require_defined(object);
  if (auto found = own_attribute(rt, object, name.str())) {
    return *found;
  }
  if (object.is(Shape::kDict)) {
    if (const Value* found = object.dict().find(rt.heap, name)) {
      return *found;
    }
  }
  return Value::undefined(name.shared_text());
}

Value get_item(Runtime& rt, const Value& object, const Value& key) {
  rt.require_defined(object);
  if (auto found = own_item(rt, object, key)) {
    return *found;
  }
  if (key.is_string()) {
    if (auto found = own_attribute(rt, object, key.str())) {
      return *found;
    }
  }
  return missing_item(rt, key);
}

Value get_slice(Runtime& rt, const Value& object, const Value& start, const Value& stop,
                const Value& step) {
  rt.require_defined(object);
  const bool is_items = object.is_list_or_tuple();
  if (!is_items && !object.is_string() && !object.is(Shape::kRange)) {
    rt.fail(fmt::format("a {} cannot be sliced", type_name(object)));
  }
  const Bounds b = slice_bounds(rt, start, stop, step, length_of(object));
  if (object.is_string()) {
    return slice_string(rt, object, b);
  }
  if (object.is(Shape::kRange)) {
    return slice_range(rt, object.range(), b);
  }
  const auto& items = object.sequence().items;
  rt.heap.step(static_cast<uint64_t>(b.n));
  rt.heap.expect(static_cast<size_t>(b.n) * sizeof(Value));
  std::vector<Value> out;
  out.reserve(static_cast<size_t>(b.n));
  for (int64_t i = 0; i < b.n; ++i) {
    out.push_back(items[static_cast<size_t>(b.start + i * b.step)]);
  }
  return rt.heap.list(std::move(out), object.object()->shape);
}

Value get_path(Runtime& rt, const Value& object, const Value& path, const Value& fallback) {
  const auto or_fallback = [&](const Value& v) {
    return v.is_undefined() && !fallback.is_missing() ? fallback : v;
  };
  if (!path.is_string()) return or_fallback(get_item(rt, object, path));
  Value v = object;
  const std::string& text = path.str();
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find('.', begin), text.size());
    const std::string part = text.substr(begin, end - begin);
    const bool is_index =
        !part.empty() && part.size() < 10 &&
        std::all_of(part.begin(), part.end(), [](char c) { return c >= '0' && c <= '9'; });
    v = or_fallback(
        get_item(rt, v, is_index ? Value::of(int64_t{std::stol(part)}) : rt.text(part)));
    begin = end + 1;
  }
  return v;
}

}  // namespace troika::jinja
