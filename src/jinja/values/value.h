// The values that a template computes with. As far as templates can tell, they are Python's.
//
// Strings are shared and immutable. Containers and functions are objects owned by the heap of one
// rendering, so a Value holds them by plain pointer, and cycles cost nothing to take down.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace troika::jinja {

class Heap;
class Runtime;

struct Text {
  Text(std::string bytes, Heap* heap);
  ~Text();
  Text(const Text&) = delete;
  Text& operator=(const Text&) = delete;

  const std::string bytes;  // UTF-8; a byte that is not UTF-8 counts as one character
  const size_t n_chars;
  Heap* const heap;  // the heap against which its memory counts; null for constants of the template
};

enum class Shape : uint8_t {
  kList,
  kTuple,
  kIterator,  // can be gone through once; map, select and the like return it
  kView,      // d.items(), d.keys(), d.values()
  kRange,
  kDict,
  kNamespace,
  kFunction,
  kLoop,
  kCycler,
  kJoiner,
};

class Value;
struct Args;
struct Sequence;
struct Range;
struct Dict;

struct Object {
  explicit Object(Shape s) : shape(s) {}
  virtual ~Object() = default;
  // Calls the object; fails unless it can be called.
  virtual Value call(Runtime& rt, Args& args);
  const Shape shape;
};

// kMissing marks an argument that was not given; a template never sees it.
enum class Kind : uint8_t { kMissing, kUndefined, kNone, kBool, kInt, kFloat, kString, kObject };

class Value {
 public:
  Value() : kind_(Kind::kUndefined) { bits_.i = 0; }
  static Value missing() { return Value(Kind::kMissing); }
  static Value none() { return Value(Kind::kNone); }
  // `name` is what an error calls the undefined thing.
  static Value undefined(std::shared_ptr<const Text> name);
  static Value of(bool b);
  static Value of(int64_t i);
  static Value of(double d);
  static Value of(Object* object);
  static Value of(std::shared_ptr<const Text> text, bool safe = false);
  static Value constant(std::string text);  // counts against no heap

  Kind kind() const { return kind_; }
  bool is_missing() const { return kind_ == Kind::kMissing; }
  bool is_undefined() const { return kind_ == Kind::kUndefined; }
  bool is_none() const { return kind_ == Kind::kNone; }
  bool is_bool() const { return kind_ == Kind::kBool; }
  bool is_int() const { return kind_ == Kind::kInt; }
  bool is_float() const { return kind_ == Kind::kFloat; }
  bool is_string() const { return kind_ == Kind::kString; }
  bool is_object() const { return kind_ == Kind::kObject; }
  bool is_integral() const { return is_bool() || is_int(); }  // Python's bool is an int
  bool is_number() const { return is_integral() || is_float(); }
  bool is(Shape shape) const { return is_object() && bits_.o->shape == shape; }
  bool is_list_or_tuple() const { return is(Shape::kList) || is(Shape::kTuple); }

  // REQUIRE that the value has the kind.
  bool as_bool() const { return bits_.b; }
  int64_t as_int() const { return is_bool() ? int64_t{bits_.b} : bits_.i; }
  double as_double() const { return is_float() ? bits_.d : static_cast<double>(as_int()); }
  const Text& text() const { return *text_; }
  const std::string& str() const { return text_->bytes; }
  std::shared_ptr<const Text> shared_text() const { return text_; }
  Object* object() const { return bits_.o; }
  Sequence& sequence() const;
  Range& range() const;
  Dict& dict() const;

  // Says whether |safe or |escape marked it: what is added to it gets escaped, as markupsafe does.
  bool is_safe() const { return safe_; }
  Value as_safe(bool safe) const;
  // Returns the name given to undefined(), or an empty string.
  std::string undefined_name() const { return text_ ? text_->bytes : std::string(); }

 private:
  explicit Value(Kind kind) : kind_(kind) { bits_.i = 0; }

  Kind kind_;
  bool safe_ = false;
  union {
    bool b;
    int64_t i;
    double d;
    Object* o;
  } bits_;
  std::shared_ptr<const Text> text_;
};

// A list, tuple, iterator or view.
struct Sequence : Object {
  explicit Sequence(Shape s) : Object(s) {}
  std::vector<Value> items;
  size_t n_taken = 0;      // counts the used items of an iterator
  const char* label = "";  // what Python calls an iterator or view
};

struct Range : Object {
  Range(int64_t first, int64_t stop, int64_t step);
  int64_t first, stop, step, n;
  // Adds without a sign, since i * step may leave 64 bits where the number does not.
  Value at(int64_t i) const {
    return Value::of(static_cast<int64_t>(static_cast<uint64_t>(first) +
                                          static_cast<uint64_t>(i) * static_cast<uint64_t>(step)));
  }
};

struct Args {
  std::vector<Value> at;
  std::vector<std::pair<std::string, Value>> named;
  bool has(size_t i) const { return i < at.size() && !at[i].is_missing(); }
};

struct Function : Object {
  Function() : Object(Shape::kFunction) {}
  virtual std::string name() const = 0;
};

struct Cycler : Object {
  Cycler() : Object(Shape::kCycler) {}
  std::vector<Value> items;
  size_t position = 0;
};

struct Joiner : Object {
  Joiner() : Object(Shape::kJoiner) {}
  Value call(Runtime& rt, Args& args) override;
  Value separator;
  bool used = false;
};

// Returns what Python calls the type: "str", "int", "list", ...
std::string type_name(const Value& v);

// Returns Python's bool(v).
bool truthy(const Value& v);

}  // namespace troika::jinja
