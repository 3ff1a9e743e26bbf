// The tests that may stand behind "is".
#include <fmt/format.h>

#include <cmath>

#include "jinja/functions/builtins.h"
#include "jinja/values/dict.h"
#include "jinja/values/unicode.h"

namespace troika::jinja {

namespace {

template <bool (Value::*method)() const>
Value has_kind(Runtime&, Args& a) {
  return Value::of((a.at[0].*method)());
}

Value defined(Runtime&, Args& a) { return Value::of(!a.at[0].is_undefined()); }
Value mapping(Runtime&, Args& a) { return Value::of(a.at[0].is(Shape::kDict)); }
Value is_true(Runtime&, Args& a) { return Value::of(a.at[0].is_bool() && a.at[0].as_bool()); }
Value is_false(Runtime&, Args& a) { return Value::of(a.at[0].is_bool() && !a.at[0].as_bool()); }
Value escaped_test(Runtime&, Args& a) {
  return Value::of(a.at[0].is_string() && a.at[0].is_safe());
}

Value iterable(Runtime&, Args& a) {
  const Value& v = a.at[0];
  return Value::of(length_of(v) >= 0 || v.is(Shape::kIterator) || v.is(Shape::kLoop));
}

Value sequence(Runtime&, Args& a) {
  const Value& v = a.at[0];
  return Value::of(length_of(v) >= 0 && !v.is(Shape::kView));
}

Value callable(Runtime&, Args& a) {
  const Value& v = a.at[0];
  // As far as Python can tell beforehand, an undefined value can be called.
  return Value::of(v.is(Shape::kFunction) || v.is(Shape::kJoiner) || v.is(Shape::kLoop) ||
                   v.is_undefined());
}

Value remainder_is(Runtime& rt, const Value& v, int64_t divisor, int64_t wanted) {
  if (!v.is_number()) {
    rt.require_defined(v);
    rt.fail(fmt::format("a {} is neither odd nor even", type_name(v)));
  }
  return Value::of(equal(rt, modulo(rt, v, Value::of(divisor)), Value::of(wanted)));
}

Value odd(Runtime& rt, Args& a) { return remainder_is(rt, a.at[0], 2, 1); }
Value even(Runtime& rt, Args& a) { return remainder_is(rt, a.at[0], 2, 0); }

Value divisibleby(Runtime& rt, Args& a) {
  return Value::of(equal(rt, modulo(rt, a.at[0], a.at[1]), Value::of(int64_t{0})));
}

// Is str.islower and str.isupper: says whether there is a cased character, and none of the other
// case.
bool all_cased(Runtime& rt, const Value& v, bool (*wanted)(uint32_t), bool (*other)(uint32_t)) {
  const std::string s = to_str(rt, v);
  rt.heap.step(s.size() / 4);
  bool some = false;
  for (size_t i = 0; i < s.size();) {
    const uint32_t c = utf8_next(s, i);
    if (other(c) || is_title(c)) {
      return false;
    }
    some |= wanted(c);
  }
  return some;
}

Value lower(Runtime& rt, Args& a) { return Value::of(all_cased(rt, a.at[0], is_lower, is_upper)); }
Value upper(Runtime& rt, Args& a) { return Value::of(all_cased(rt, a.at[0], is_upper, is_lower)); }

Value sameas(Runtime& rt, Args& a) {
  const Value& x = a.at[0];
  const Value& y = a.at[1];
  if (x.kind() != y.kind()) {
    return Value::of(false);
  }
  if (x.is_object()) {
    return Value::of(x.object() == y.object());
  }
  if (x.is_float()) {
    return Value::of(x.as_double() == y.as_double());
  }
  return Value::of(x.is_undefined() || same_key(rt.heap, x, y));
}

Value in(Runtime& rt, Args& a) { return Value::of(contains(rt, a.at[1], a.at[0])); }
Value eq(Runtime& rt, Args& a) { return Value::of(equal(rt, a.at[0], a.at[1])); }
Value ne(Runtime& rt, Args& a) { return Value::of(!equal(rt, a.at[0], a.at[1])); }

template <bool (*holds)(int)>
Value ordered(Runtime& rt, Args& a) {
  bool unordered = false;
  const int order = compare(rt, a.at[0], a.at[1], unordered);
  return Value::of(!unordered && holds(order));
}

bool is_less(int order) { return order < 0; }
bool is_at_most(int order) { return order <= 0; }
bool is_greater(int order) { return order > 0; }
bool is_at_least(int order) { return order >= 0; }

Value filter_exists(Runtime&, Args& a) {
  return Value::of(a.at[0].is_string() && find_filter(a.at[0].str()) != nullptr);
}
Value test_exists(Runtime&, Args& a) {
  return Value::of(a.at[0].is_string() && find_test(a.at[0].str()) != nullptr);
}

}  // namespace

const Table& tests() {
  static const Table kTable = {
      {"defined", "value", defined},
      {"undefined", "value", has_kind<&Value::is_undefined>},
      {"none", "value", has_kind<&Value::is_none>},
      {"string", "value", has_kind<&Value::is_string>},
      {"number", "value", has_kind<&Value::is_number>},
      {"integer", "value", has_kind<&Value::is_int>},
      {"float", "value", has_kind<&Value::is_float>},
      {"boolean", "value", has_kind<&Value::is_bool>},
      {"true", "value", is_true},
      {"false", "value", is_false},
      {"mapping", "value", mapping},
      {"iterable", "value", iterable},
      {"sequence", "value", sequence},
      {"callable", "value", callable},
      {"escaped", "value", escaped_test},
      {"odd", "value", odd},
      {"even", "value", even},
      {"divisibleby", "value num", divisibleby},
      {"lower", "value", lower},
      {"upper", "value", upper},
      {"sameas", "value other", sameas},
      {"in", "value seq", in},
      {"eq", "a b", eq},
      {"equalto", "a b", eq},
      {"==", "a b", eq},
      {"ne", "a b", ne},
      {"!=", "a b", ne},
      {"lt", "a b", ordered<is_less>},
      {"lessthan", "a b", ordered<is_less>},
      {"<", "a b", ordered<is_less>},
      {"le", "a b", ordered<is_at_most>},
      {"<=", "a b", ordered<is_at_most>},
      {"gt", "a b", ordered<is_greater>},
      {"greaterthan", "a b", ordered<is_greater>},
      {">", "a b", ordered<is_greater>},
      {"ge", "a b", ordered<is_at_least>},
      {">=", "a b", ordered<is_at_least>},
      {"filter", "value", filter_exists},
      {"test", "value", test_exists},
  };
  return kTable;
}

}  // namespace troika::jinja
