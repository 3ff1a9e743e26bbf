// What built-ins, operators and the evaluator share while a template is rendered.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "jinja/limits.h"
#include "jinja/values/heap.h"
#include "jinja/values/value.h"

namespace troika::jinja {

struct Builtin;

class Runtime {
 public:
  // now_s: seconds since 1970, for strftime_now.
  Runtime(const Limits& limits, int64_t now_s) : heap(limits), now_s_(now_s) {}

  Heap heap;
  int line = 0;  // of the node being evaluated

  int64_t now_s() const { return now_s_; }

  // Throws an Error with the line: "The chat template fails at line 3: `what`."
  [[noreturn]] void fail(const std::string& what) const;
  // Throws what a use of an undefined value throws where the value must be there.
  [[noreturn]] void fail_undefined(const Value& v) const;
  void require_defined(const Value& v) const {
    if (v.is_undefined()) {
      fail_undefined(v);
    }
  }

  Value text(std::string s, bool safe = false) { return heap.text(std::move(s), safe); }
  Value empty_text() { return heap.text({}); }
  Value undefined(const std::string& name);

  // `what` is the filter's or test's name, for errors when it is unknown.
  Value call_builtin(const Builtin* builtin, const std::string& what, Args& args);
  Value call(const Value& callee, Args& args);

  // Guards a recursion over values in values.
  class Descent {
   public:
    explicit Descent(Runtime& rt);
    ~Descent() { --rt_.n_nested_values_; }
    Descent(const Descent&) = delete;

   private:
    Runtime& rt_;
  };
  // Guards calls in calls.
  class CallDepth {
   public:
    explicit CallDepth(Runtime& rt);
    ~CallDepth() { --rt_.n_nested_calls_; }
    CallDepth(const CallDepth&) = delete;

   private:
    Runtime& rt_;
  };

 private:
  int64_t now_s_;
  int n_nested_values_ = 0;
  int n_nested_calls_ = 0;
};

// attributes.cc
// object.name: for a dictionary a method of that name comes first. Undefined where there is none.
Value get_attribute(Runtime& rt, const Value& object, const Value& name);
// object[key]
Value get_item(Runtime& rt, const Value& object, const Value& key);
Value get_slice(Runtime& rt, const Value& object, const Value& start, const Value& stop,
                const Value& step);
// A path such as "function.name" or 0, as map and sort take them.
Value get_path(Runtime& rt, const Value& object, const Value& path);

// iterate.cc
// All items of what a for loop could go through, or an error. An iterator is used up.
std::vector<Value> items_of(Runtime& rt, const Value& v);
// Its length, or -1 where Python's len() fails.
int64_t length_of(const Value& v);

// compare.cc
bool equal(Runtime& rt, const Value& a, const Value& b);
// Negative, zero, positive; an error for what Python does not order. NaN compares as unordered:
// `unordered` is set.
int compare(Runtime& rt, const Value& a, const Value& b, bool& unordered);
bool less(Runtime& rt, const Value& a, const Value& b);
bool contains(Runtime& rt, const Value& container, const Value& item);

// Counts a search of `needle` in `text`, which may take the product of their lengths.
void step_search(Runtime& rt, std::string_view text, std::string_view needle);

// print.cc
// Python's str(v), which is also what {{ v }} prints, and repr(v).
void print_to(Runtime& rt, std::string& out, const Value& v);
std::string to_str(Runtime& rt, const Value& v);
std::string to_repr(Runtime& rt, const Value& v);
// v itself if it is a string, else its str.
Value as_text(Runtime& rt, const Value& v);
std::string float_repr(double d);

// operators.cc
Value add(Runtime& rt, const Value& a, const Value& b);
Value subtract(Runtime& rt, const Value& a, const Value& b);
Value multiply(Runtime& rt, const Value& a, const Value& b);
Value divide(Runtime& rt, const Value& a, const Value& b);
Value floor_divide(Runtime& rt, const Value& a, const Value& b);
Value modulo(Runtime& rt, const Value& a, const Value& b);
Value power(Runtime& rt, const Value& a, const Value& b);
Value negative(Runtime& rt, const Value& a);
Value positive(Runtime& rt, const Value& a);

// html.cc
std::string escape_html(std::string_view s);
// What markupsafe's escape() of v prints.
std::string escaped(Runtime& rt, const Value& v);

// json_write.cc, json_read.cc
struct JsonStyle {
  bool ensure_ascii = false;
  bool sort_keys = false;
  bool indented = false;
  std::string indent;
  std::string item_separator = ", ";
  std::string key_separator = ": ";
};
std::string to_json(Runtime& rt, const Value& v, const JsonStyle& style);
Value from_json(Runtime& rt, const std::string& json);

}  // namespace troika::jinja
