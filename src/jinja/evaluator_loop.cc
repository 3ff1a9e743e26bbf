#include <fmt/format.h>

#include "jinja/evaluator.h"
#include "jinja/functions/loop.h"

namespace troika::jinja {

Flow Evaluator::run_for(const Stmt& s, const ScopePtr& scope, Output& out) {
  std::vector<Value> items = items_of(rt_, eval(*s.expr, scope));
  return run_loop(s, std::move(items), 1, scope, out);
}

std::vector<Value> Evaluator::filtered(const Stmt& s, std::vector<Value> items,
                                       const ScopePtr& scope) {
  std::vector<Value> kept;
  for (Value& item : items) {
    const auto inner = std::make_shared<Scope>(rt_.heap, scope);
    rt_.line = s.line;
    assign(s.target, item, inner);
    if (truthy(eval(*s.condition, inner))) {
      kept.push_back(std::move(item));
    }
  }
  return kept;
}

Flow Evaluator::run_loop(const Stmt& s, std::vector<Value> items, int depth, const ScopePtr& scope,
                         Output& out) {
  if (s.condition) {
    items = filtered(s, std::move(items), scope);
  }
  if (items.empty()) {
    return run(s.otherwise, std::make_shared<Scope>(rt_.heap, scope), out);
  }
  const size_t n = items.size();
  rt_.heap.take(n * sizeof(Value));
  auto* loop = rt_.heap.make<Loop>(*this, s, scope, std::move(items), depth);
  Flow flow = Flow::kNormal;
  for (size_t i = 0; i < n && flow != Flow::kBreak; ++i) {
    loop->index0 = i;
    const auto inner = std::make_shared<Scope>(rt_.heap, scope);
    inner->set(tree_.loop_symbol, Value::of(loop));
    rt_.heap.step();
    rt_.line = s.line;
    assign(s.target, loop->items[i], inner);
    flow = run(s.body, inner, out);
  }
  std::vector<Value>().swap(loop->items);
  rt_.heap.give_back(n * sizeof(Value));
  return Flow::kNormal;
}

Value Loop::call(Runtime& rt, Args& args) {
  if (!definition.recursive) {
    rt.fail("a loop can only be called if its {% for %} ends with 'recursive'");
  }
  if (args.at.size() != 1 || !args.named.empty()) {
    rt.fail("loop() takes one value, what to go through");
  }
  const Runtime::CallDepth guard(rt);
  const int line = rt.line;
  Output out(rt.heap);
  evaluator.run_loop(definition, items_of(rt, args.at[0]), depth + 1, scope, out);
  rt.line = line;
  return rt.text(out.take());
}

Value Loop::attribute(Runtime& rt, std::string_view name) const {
  const auto number = [](size_t n) { return Value::of(static_cast<int64_t>(n)); };
  const size_t n = n_items;
  if (name == "index") {
    return number(index0 + 1);
  }
  if (name == "index0") {
    return number(index0);
  }
  if (name == "revindex") {
    return number(n - index0);
  }
  if (name == "revindex0") {
    return number(n - index0 - 1);
  }
  if (name == "first") {
    return Value::of(index0 == 0);
  }
  if (name == "last") {
    return Value::of(index0 + 1 == n);
  }
  if (name == "length") {
    return number(n);
  }
  if (name == "depth") {
    return number(static_cast<size_t>(depth));
  }
  if (name == "depth0") {
    return number(static_cast<size_t>(depth - 1));
  }
  if (name == "previtem" && index0 > 0 && index0 - 1 < items.size()) {
    return items[index0 - 1];
  }
  if (name == "nextitem" && index0 + 1 < items.size()) {
    return items[index0 + 1];
  }
  return rt.undefined(std::string(name));
}

}  // namespace troika::jinja
