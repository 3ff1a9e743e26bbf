#include "jinja/runtime.h"

#include <fmt/format.h>

#include "base/error.h"
#include "jinja/functions/builtins.h"

namespace troika::jinja {

Value Object::call(Runtime& rt, Args&) {
  rt.fail(fmt::format("a {} cannot be called", type_name(Value::of(this))));
}

Value Joiner::call(Runtime& rt, Args&) {
  if (used) {
    return separator;
  }
  used = true;
  return rt.empty_text();
}

void Runtime::fail(const std::string& what) const {
  throw Error(fmt::format("The chat template fails at line {}: {}.", line, cut_message(what)));
}

void Runtime::fail_undefined(const Value& v) const {
  const std::string name = v.undefined_name();
  fail(name.empty() ? "a value is undefined" : "'" + name + "' is undefined");
}

Value Runtime::undefined(const std::string& name) {
  return Value::undefined(heap.text(name).shared_text());
}

Value Runtime::call_builtin(const Builtin* builtin, const std::string& what, Args& args) {
  if (builtin == nullptr) {
    fail(fmt::format("there is no filter or test named '{}'", what));
  }
  heap.step();
  bind(*this, *builtin, args);
  return builtin->function(*this, args);
}

Value Runtime::call(const Value& callee, Args& args) {
  require_defined(callee);
  heap.step();
  if (callee.is_object()) {
    return callee.object()->call(*this, args);
  }
  fail(fmt::format("a {} cannot be called", type_name(callee)));
}

std::string cut_message(std::string text) {
  constexpr size_t kMostBytes = 4000;
  if (text.size() > kMostBytes) {
    size_t end = kMostBytes;
    while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) {
      --end;  // goes back to where a character begins
    }
    text.resize(end);
    text += "...";
  }
  return text;
}

void step_search(Runtime& rt, std::string_view text, std::string_view needle) {
  rt.heap.step_bytes(text.size());
  if (needle.size() > 64 && needle.size() <= text.size()) {
    rt.heap.step((text.size() - needle.size()) / 64 * (needle.size() / 64));
  }
}

Runtime::Descent::Descent(Runtime& rt) : rt_(rt) {
  if (rt.n_nested_values_ >= rt.heap.limits().n_nested_values) {
    rt.fail(fmt::format("a value is nested in itself, or in more than {} others",
                        rt.heap.limits().n_nested_values));
  }
  ++rt.n_nested_values_;
}

Runtime::CallDepth::CallDepth(Runtime& rt) : rt_(rt) {
  if (rt.n_nested_calls_ >= rt.heap.limits().n_nested_calls) {
    rt.fail(fmt::format("more than {} macros, loops or filters call one another",
                        rt.heap.limits().n_nested_calls));
  }
  ++rt.n_nested_calls_;
}

}  // namespace troika::jinja
