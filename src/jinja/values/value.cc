#include "jinja/values/value.h"

#include "base/error.h"
#include "jinja/values/dict.h"

namespace troika::jinja {

Value Value::undefined(std::shared_ptr<const Text> name) {
  Value v(Kind::kUndefined);
  v.text_ = std::move(name);
  return v;
}

Value Value::of(bool b) {
  Value v(Kind::kBool);
  v.bits_.i = 0;
  v.bits_.b = b;
  return v;
}

Value Value::of(int64_t i) {
  Value v(Kind::kInt);
  v.bits_.i = i;
  return v;
}

Value Value::of(double d) {
  Value v(Kind::kFloat);
  v.bits_.d = d;
  return v;
}

Value Value::of(Object* object) {
  TROIKA_ASSERT(object != nullptr);
  Value v(Kind::kObject);
  v.bits_.o = object;
  return v;
}

Value Value::of(std::shared_ptr<const Text> text, bool safe) {
  TROIKA_ASSERT(text != nullptr);
  Value v(Kind::kString);
  v.text_ = std::move(text);
  v.safe_ = safe;
  return v;
}

Value Value::constant(std::string text) {
  return of(std::make_shared<const Text>(std::move(text), nullptr));
}

Sequence& Value::sequence() const { return static_cast<Sequence&>(*bits_.o); }
Range& Value::range() const { return static_cast<Range&>(*bits_.o); }
Dict& Value::dict() const { return static_cast<Dict&>(*bits_.o); }

Value Value::as_safe(bool safe) const {
  Value v = *this;
  v.safe_ = safe;
  return v;
}

Range::Range(int64_t first_number, int64_t stop_before, int64_t by)
    : Object(Shape::kRange), first(first_number), stop(stop_before), step(by), n(0) {
  TROIKA_ASSERT(step != 0);
  // 128 bits are wide enough for any pair of bounds.
  const __int128 span =
      step > 0 ? static_cast<__int128>(stop) - first : static_cast<__int128>(first) - stop;
  const __int128 stride = step > 0 ? static_cast<__int128>(step) : -static_cast<__int128>(step);
  if (span > 0) {
    const __int128 count = (span + stride - 1) / stride;
    n = count > INT64_MAX ? INT64_MAX : static_cast<int64_t>(count);
  }
}

std::string type_name(const Value& v) {
  switch (v.kind()) {
    case Kind::kMissing:
    case Kind::kUndefined:
      return "Undefined";
    case Kind::kNone:
      return "NoneType";
    case Kind::kBool:
      return "bool";
    case Kind::kInt:
      return "int";
    case Kind::kFloat:
      return "float";
    case Kind::kString:
      return v.is_safe() ? "Markup" : "str";
    case Kind::kObject:
      break;
  }
  switch (v.object()->shape) {
    case Shape::kList:
      return "list";
    case Shape::kTuple:
      return "tuple";
    case Shape::kIterator:
    case Shape::kView:
      return v.sequence().label;
    case Shape::kRange:
      return "range";
    case Shape::kDict:
      return "dict";
    case Shape::kNamespace:
      return "Namespace";
    case Shape::kFunction:
      return "function";
    case Shape::kLoop:
      return "LoopContext";
    case Shape::kCycler:
      return "Cycler";
    case Shape::kJoiner:
      return "Joiner";
  }
  return "object";
}

bool truthy(const Value& v) {
  switch (v.kind()) {
    case Kind::kMissing:
    case Kind::kUndefined:
    case Kind::kNone:
      return false;
    case Kind::kBool:
      return v.as_bool();
    case Kind::kInt:
      return v.as_int() != 0;
    case Kind::kFloat:
      return v.as_double() != 0;
    case Kind::kString:
      return !v.str().empty();
    case Kind::kObject:
      break;
  }
  switch (v.object()->shape) {
    case Shape::kList:
    case Shape::kTuple:
    case Shape::kView:
      return !v.sequence().items.empty();
    case Shape::kRange:
      return v.range().n > 0;
    case Shape::kDict:
      return !v.dict().entries.empty();
    default:
      return true;
  }
}

}  // namespace troika::jinja
