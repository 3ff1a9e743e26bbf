// Arithmetic with Python's meaning. Integers have 64 bits; larger results are errors.
#include <fmt/format.h>

#include <cmath>

#include "jinja/format/format.h"
#include "jinja/runtime.h"

namespace troika::jinja {

namespace {

[[noreturn]] void fail_types(Runtime& rt, const char* sign, const Value& a, const Value& b) {
  rt.require_defined(a);
  rt.require_defined(b);
  rt.fail(
      fmt::format("'{}' does not work between a {} and a {}", sign, type_name(a), type_name(b)));
}

[[noreturn]] void fail_overflow(Runtime& rt) { rt.fail("an integer leaves the range of 64 bits"); }

bool both_integral(const Value& a, const Value& b) { return a.is_integral() && b.is_integral(); }
bool both_numbers(const Value& a, const Value& b) { return a.is_number() && b.is_number(); }

Value add_strings(Runtime& rt, const Value& a, const Value& b) {
  rt.heap.expect(a.str().size() + b.str().size());
  if (a.is_safe() || b.is_safe()) {
    return rt.text(escaped(rt, a) + escaped(rt, b), true);
  }
  return rt.text(a.str() + b.str());
}

Value add_items(Runtime& rt, const Value& a, const Value& b) {
  std::vector<Value> items = items_of(rt, a);
  const auto& more = b.sequence().items;
  rt.heap.step(more.size());
  rt.heap.expect((items.size() + more.size()) * sizeof(Value));
  items.insert(items.end(), more.begin(), more.end());
  return rt.heap.list(std::move(items), a.object()->shape);
}

Value repeat(Runtime& rt, const Value& what, int64_t n_times) {
  const auto n = static_cast<size_t>(std::max<int64_t>(n_times, 0));
  const bool is_string = what.is_string();
  const size_t size = is_string ? what.str().size() : what.sequence().items.size();
  const size_t most = rt.heap.limits().memory_bytes;
  if (size > 0 && n > most / size) {
    rt.heap.expect(most + 1);
  }
  rt.heap.expect(size * n * (is_string ? 1 : sizeof(Value)));
  if (is_string) {
    std::string out;
    out.reserve(size * n);
    for (size_t i = 0; i < n && size > 0; ++i) {
      out += what.str();
    }
    return rt.text(std::move(out), what.is_safe());
  }
  rt.heap.step(size * n);
  const auto& items = what.sequence().items;
  std::vector<Value> out;
  for (size_t i = 0; i < n && size > 0; ++i) {
    out.insert(out.end(), items.begin(), items.end());
  }
  return rt.heap.list(std::move(out), what.object()->shape);
}

int64_t floor_quotient(int64_t a, int64_t b) {
  const int64_t q = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? q - 1 : q;
}

double float_remainder(double a, double b) {
  const double r = std::fmod(a, b);
  if (r == 0) {
    return std::copysign(0.0, b);
  }
  return (b < 0) != (r < 0) ? r + b : r;
}

// Returns Python's floor of the exact quotient. It is computed from the remainder, since a / b is
// rounded.
double float_floor_quotient(double a, double b) {
  const double r = std::fmod(a, b);
  double q = (a - r) / b;
  if (r != 0 && (b < 0) != (r < 0)) {
    q -= 1;
  }
  if (q == 0) {
    return std::copysign(0.0, a / b);
  }
  const double whole = std::floor(q);
  return q - whole > 0.5 ? whole + 1 : whole;
}

Value integer_power(Runtime& rt, int64_t base, int64_t exponent) {
  int64_t result = 1;
  while (exponent > 0) {
    if (exponent % 2 == 1 && __builtin_mul_overflow(result, base, &result)) {
      fail_overflow(rt);
    }
    exponent /= 2;
    if (exponent > 0 && __builtin_mul_overflow(base, base, &base)) {
      fail_overflow(rt);
    }
  }
  return Value::of(result);
}

}  // namespace

Value add(Runtime& rt, const Value& a, const Value& b) {
  if (both_integral(a, b)) {
    int64_t sum;
    if (__builtin_add_overflow(a.as_int(), b.as_int(), &sum)) {
      fail_overflow(rt);
    }
    return Value::of(sum);
  }
  if (both_numbers(a, b)) {
    return Value::of(a.as_double() + b.as_double());
  }
  if (a.is_string() && b.is_string()) {
    return add_strings(rt, a, b);
  }
  if (a.is_list_or_tuple() && b.is_object() && a.object()->shape == b.object()->shape) {
    return add_items(rt, a, b);
  }
  fail_types(rt, "+", a, b);
}

Value subtract(Runtime& rt, const Value& a, const Value& b) {
  if (both_integral(a, b)) {
    int64_t difference;
    if (__builtin_sub_overflow(a.as_int(), b.as_int(), &difference)) {
      fail_overflow(rt);
    }
    return Value::of(difference);
  }
  if (both_numbers(a, b)) {
    return Value::of(a.as_double() - b.as_double());
  }
  fail_types(rt, "-", a, b);
}

Value multiply(Runtime& rt, const Value& a, const Value& b) {
  if (both_integral(a, b)) {
    int64_t product;
    if (__builtin_mul_overflow(a.as_int(), b.as_int(), &product)) {
      fail_overflow(rt);
    }
    return Value::of(product);
  }
  if (both_numbers(a, b)) {
    return Value::of(a.as_double() * b.as_double());
  }
  if (b.is_integral() && (a.is_string() || a.is_list_or_tuple())) {
    return repeat(rt, a, b.as_int());
  }
  if (a.is_integral() && (b.is_string() || b.is_list_or_tuple())) {
    return repeat(rt, b, a.as_int());
  }
  fail_types(rt, "*", a, b);
}

Value divide(Runtime& rt, const Value& a, const Value& b) {
  if (!both_numbers(a, b)) {
    fail_types(rt, "/", a, b);
  }
  if (b.as_double() == 0) {
    rt.fail("division by zero");
  }
  return Value::of(a.as_double() / b.as_double());
}

Value floor_divide(Runtime& rt, const Value& a, const Value& b) {
  if (!both_numbers(a, b)) {
    fail_types(rt, "//", a, b);
  }
  if (b.as_double() == 0) {
    rt.fail("division by zero");
  }
  if (!both_integral(a, b)) {
    return Value::of(float_floor_quotient(a.as_double(), b.as_double()));
  }
  if (a.as_int() == INT64_MIN && b.as_int() == -1) {
    fail_overflow(rt);
  }
  return Value::of(floor_quotient(a.as_int(), b.as_int()));
}

Value modulo(Runtime& rt, const Value& a, const Value& b) {
  if (a.is_string()) {
    return format_percent(rt, a, b);
  }
  if (!both_numbers(a, b)) {
    fail_types(rt, "%", a, b);
  }
  if (b.as_double() == 0) {
    rt.fail("division by zero");
  }
  if (!both_integral(a, b)) {
    return Value::of(float_remainder(a.as_double(), b.as_double()));
  }
  if (b.as_int() == -1) {
    return Value::of(int64_t{0});
  }
  const int64_t r = a.as_int() % b.as_int();
  return Value::of(r != 0 && (r < 0) != (b.as_int() < 0) ? r + b.as_int() : r);
}

Value power(Runtime& rt, const Value& a, const Value& b) {
  if (!both_numbers(a, b)) {
    fail_types(rt, "**", a, b);
  }
  if (both_integral(a, b) && b.as_int() >= 0) {
    return integer_power(rt, a.as_int(), b.as_int());
  }
  const double x = a.as_double();
  const double y = b.as_double();
  if (x == 0 && y < 0) {
    rt.fail("zero cannot be raised to a negative power");
  }
  if (x < 0 && std::isfinite(x) && std::isfinite(y) && y != std::floor(y)) {
    rt.fail("a negative number to a broken power is no real number");
  }
  const double result = std::pow(x, y);
  if (std::isinf(result) && std::isfinite(x) && std::isfinite(y)) {
    rt.fail("a power is too large");
  }
  return Value::of(result);
}

Value negative(Runtime& rt, const Value& a) {
  if (a.is_float()) {
    return Value::of(-a.as_double());
  }
  if (!a.is_integral()) {
    rt.require_defined(a);
    rt.fail(fmt::format("a {} has no negative", type_name(a)));
  }
  if (a.as_int() == INT64_MIN) {
    fail_overflow(rt);
  }
  return Value::of(-a.as_int());
}

Value positive(Runtime& rt, const Value& a) {
  if (a.is_float()) {
    return a;
  }
  if (!a.is_integral()) {
    rt.require_defined(a);
    rt.fail(fmt::format("a {} has no sign", type_name(a)));
  }
  return Value::of(a.as_int());
}

}  // namespace troika::jinja
