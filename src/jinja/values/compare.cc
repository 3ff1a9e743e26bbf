#include <fmt/format.h>

#include <cmath>
#include <compare>

#include "jinja/runtime.h"
#include "jinja/values/dict.h"

namespace troika::jinja {

namespace {

// Compares exactly, even where a double is an integer that int64 does not hold.
std::partial_ordering order_numbers(const Value& a, const Value& b) {
  if (a.is_integral() && b.is_integral()) {
    return a.as_int() <=> b.as_int();
  }
  if (a.is_float() && b.is_float()) {
    return a.as_double() <=> b.as_double();
  }
  if (a.is_float()) {
    const std::partial_ordering reversed = order_numbers(b, a);
    return reversed == std::partial_ordering::less      ? std::partial_ordering::greater
           : reversed == std::partial_ordering::greater ? std::partial_ordering::less
                                                        : reversed;
  }
  const double d = b.as_double();
  if (std::isnan(d)) {
    return std::partial_ordering::unordered;
  }
  constexpr double kTwo63 = 9223372036854775808.0;
  if (d >= kTwo63) {
    return std::partial_ordering::less;
  }
  if (d < -kTwo63) {
    return std::partial_ordering::greater;
  }
  const double whole = std::floor(d);
  const auto order = a.as_int() <=> static_cast<int64_t>(whole);
  if (order != 0) {
    return order;
  }
  return whole < d ? std::partial_ordering::less : std::partial_ordering::equivalent;
}

bool equal_items(Runtime& rt, const std::vector<Value>& a, const std::vector<Value>& b) {
  if (a.size() != b.size()) {
    return false;
  }
  for (size_t i = 0; i < a.size(); ++i) {
    if (!equal(rt, a[i], b[i])) {
      return false;
    }
  }
  return true;
}

bool equal_dicts(Runtime& rt, const Dict& a, const Dict& b) {
  if (a.entries.size() != b.entries.size()) {
    return false;
  }
  for (const auto& [key, value] : a.entries) {
    const Value* other = b.find(rt.heap, key);
    if (other == nullptr || !equal(rt, value, *other)) {
      return false;
    }
  }
  return true;
}

bool equal_objects(Runtime& rt, const Value& a, const Value& b) {
  if (a.object() == b.object()) {
    return true;
  }
  const Shape shape = a.object()->shape;
  if (shape != b.object()->shape) {
    return false;
  }
  switch (shape) {
    case Shape::kList:
    case Shape::kTuple:
      return equal_items(rt, a.sequence().items, b.sequence().items);
    case Shape::kDict:
      return equal_dicts(rt, a.dict(), b.dict());
    case Shape::kRange: {
      const Range& x = a.range();
      const Range& y = b.range();
      return x.n == y.n && (x.n == 0 || (x.first == y.first && (x.n == 1 || x.step == y.step)));
    }
    default:
      return false;
  }
}

}  // namespace

bool equal(Runtime& rt, const Value& a, const Value& b) {
  rt.heap.step();
  if (a.is_number() && b.is_number()) {
    return order_numbers(a, b) == std::partial_ordering::equivalent;
  }
  if (a.kind() != b.kind()) {
    return false;
  }
  if (a.is_string()) {
    if (a.str().size() != b.str().size()) {
      return false;
    }
    rt.heap.step(a.str().size() / 16);
    return a.str() == b.str();
  }
  if (!a.is_object()) {
    return true;  // both values are none, or both are undefined
  }
  const Runtime::Descent descent(rt);
  return equal_objects(rt, a, b);
}

int compare(Runtime& rt, const Value& a, const Value& b, bool& unordered) {
  rt.heap.step();
  if (a.is_number() && b.is_number()) {
    const std::partial_ordering order = order_numbers(a, b);
    unordered = order == std::partial_ordering::unordered;
    return order < 0 ? -1 : order > 0 ? 1 : 0;
  }
  if (a.is_string() && b.is_string()) {
    rt.heap.step_bytes(std::min(a.str().size(), b.str().size()));
    // The order of UTF-8 bytes is that of code points.
    return a.str().compare(b.str());
  }
  const bool same_sequences =
      (a.is(Shape::kList) && b.is(Shape::kList)) || (a.is(Shape::kTuple) && b.is(Shape::kTuple));
  if (!same_sequences) {
    rt.require_defined(a);
    rt.require_defined(b);
    rt.fail(fmt::format("a {} and a {} have no order", type_name(a), type_name(b)));
  }
  const Runtime::Descent descent(rt);
  const auto& x = a.sequence().items;
  const auto& y = b.sequence().items;
  for (size_t i = 0; i < std::min(x.size(), y.size()); ++i) {
    if (!equal(rt, x[i], y[i])) {
      return compare(rt, x[i], y[i], unordered);
    }
  }
  return x.size() < y.size() ? -1 : x.size() > y.size() ? 1 : 0;
}

bool less(Runtime& rt, const Value& a, const Value& b) {
  bool unordered = false;
  const int order = compare(rt, a, b, unordered);
  return !unordered && order < 0;
}

bool contains(Runtime& rt, const Value& container, const Value& item) {
  if (container.is_string()) {
    if (!item.is_string()) {
      rt.require_defined(item);
      rt.fail(fmt::format("'in' looks for a string in a string, not for a {}", type_name(item)));
    }
    step_search(rt, container.str(), item.str());
    return container.str().find(item.str()) != std::string::npos;
  }
  if (container.is(Shape::kDict)) {
    check_key(rt, item);
    return container.dict().find(rt.heap, item) != nullptr;
  }
  if (container.is(Shape::kRange) && item.is_int()) {
    const Range& r = container.range();
    const __int128 ahead = static_cast<__int128>(item.as_int()) - r.first;
    return ahead % r.step == 0 && ahead / r.step >= 0 && ahead / r.step < r.n;
  }
  if (container.is_list_or_tuple()) {
    for (const Value& v : container.sequence().items) {
      if (equal(rt, v, item)) {
        return true;
      }
    }
    return false;
  }
  for (const Value& v : items_of(rt, container)) {
    if (equal(rt, v, item)) {
      return true;
    }
  }
  return false;
}

}  // namespace troika::jinja
