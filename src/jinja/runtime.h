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
  // `now_s` is in seconds since 1970, for strftime_now.
  Runtime(const Limits& limits, int64_t now_s) : heap(limits), now_s_(now_s) {}

  Heap heap;
  int line = 0;  // the line of the node that is being evaluated

  int64_t now_s() const { return now_s_; }

  // Throws an Error with the line: "The chat template fails at line 3: `what`." A message that
  // comes from the template is cut (cut_message).
  [[noreturn]] void fail(const std::string& what) const;
  // Throws the error of using an undefined value where a value must be there.
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

  // Guards a recursion over nested values.
  class Descent {
   public:
    explicit Descent(Runtime& rt);
    ~Descent() { --rt_.n_nested_values_; }
    Descent(const Descent&) = delete;

   private:
    Runtime& rt_;
  };
  // Guards nested calls.
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

// These are in attributes.cc.

// Returns object.name: for a dictionary a method of that name comes first. Undefined where there is
// none.
Value get_attribute(Runtime& rt, const Value& object, const Value& name);
// Returns object[key].
Value get_item(Runtime& rt, const Value& object, const Value& key);
Value get_slice(Runtime& rt, const Value& object, const Value& start, const Value& stop,
                const Value& step);
// Returns what lies at a path such as "function.name" or 0, as map and sort take it.
// `fallback`, unless it is missing, stands for each part of the path that is not there.
Value get_path(Runtime& rt, const Value& object, const Value& path,
               const Value& fallback = Value::missing());

// These are in iterate.cc.

// Returns all items of what a for loop can go through, else fails. An iterator is used up.
std::vector<Value> items_of(Runtime& rt, const Value& v);
// Returns the length of v, or -1 where Python's len() fails.
int64_t length_of(const Value& v);

// These are in compare.cc.
bool equal(Runtime& rt, const Value& a, const Value& b);
// Returns a negative number, zero or a positive number; fails for what Python does not order. NaN
// compares as unordered: then `unordered` is set.
int compare(Runtime& rt, const Value& a, const Value& b, bool& unordered);
bool less(Runtime& rt, const Value& a, const Value& b);
bool contains(Runtime& rt, const Value& container, const Value& item);

// Counts the steps of a search for `needle` in `text`, which may take the product of their lengths.
void step_search(Runtime& rt, std::string_view text, std::string_view needle);

// Returns the text that a template chose for a message. It is cut, because a message is copied and
// escaped where no limit holds.
std::string cut_message(std::string text);

// These are in print.cc.

// Append or return Python's str(v), which is also what {{ v }} prints, and repr(v).
void print_to(Runtime& rt, std::string& out, const Value& v);
std::string to_str(Runtime& rt, const Value& v);
std::string to_repr(Runtime& rt, const Value& v);
// Returns v itself if it is a string, else its str.
Value as_text(Runtime& rt, const Value& v);
std::string float_repr(double d);

// These are in operators.cc.
Value add(Runtime& rt, const Value& a, const Value& b);
Value subtract(Runtime& rt, const Value& a, const Value& b);
Value multiply(Runtime& rt, const Value& a, const Value& b);
Value divide(Runtime& rt, const Value& a, const Value& b);
Value floor_divide(Runtime& rt, const Value& a, const Value& b);
Value modulo(Runtime& rt, const Value& a, const Value& b);
Value power(Runtime& rt, const Value& a, const Value& b);
Value negative(Runtime& rt, const Value& a);
Value positive(Runtime& rt, const Value& a);

// These are in html.cc.
std::string escape_html(std::string_view s);
// Returns what markupsafe's escape() of v prints.
std::string escaped(Runtime& rt, const Value& v);

// These are in json_write.cc and json_read.cc.
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
