#include <fmt/format.h>

#include "base/error.h"
#include "jinja/evaluator.h"
#include "jinja/functions/builtins.h"
#include "jinja/functions/macro.h"
#include "jinja/values/dict.h"

namespace troika::jinja {

std::string Evaluator::render(const Value& context) {
  auto outer = std::make_shared<Scope>(rt_.heap, nullptr);
  for (size_t i = 0; i < tree_.symbols.size(); ++i) {
    if (const Value* value = context.dict().find(rt_.heap, tree_.symbols[i])) {
      outer->set(static_cast<int>(i), *value);
    }
  }
  return capture(tree_.body, std::make_shared<Scope>(rt_.heap, std::move(outer)));
}

std::string Evaluator::capture(const Body& body, const ScopePtr& scope) {
  std::string text;
  capture(body, scope, &text);
  return text;
}

Flow Evaluator::capture(const Body& body, const ScopePtr& scope, std::string* text) {
  Output out(rt_.heap);
  const Flow flow = run(body, scope, out);
  *text = out.take();
  return flow;
}

Flow Evaluator::run(const Body& body, const ScopePtr& scope, Output& out) {
  const Depth depth(*this);
  for (const auto& s : body) {
    const Flow flow = run(*s, scope, out);
    if (flow != Flow::kNormal) {
      return flow;
    }
  }
  return Flow::kNormal;
}

Flow Evaluator::run(const Stmt& s, const ScopePtr& scope, Output& out) {
  rt_.heap.step();
  rt_.line = s.line;
  switch (s.kind) {
    case Do::kData:
      out.write(s.value.str());
      return Flow::kNormal;
    case Do::kPrint: {
      const Value v = eval(*s.expr, scope);
      rt_.line = s.line;
      v.is_string() ? out.write(v.str()) : out.write(to_str(rt_, v));
      return Flow::kNormal;
    }
    case Do::kSet:
      assign(s.target, eval(*s.expr, scope), scope);
      return Flow::kNormal;
    case Do::kSetBlock:
      return run_set_block(s, scope);
    case Do::kIf:
      return run_if(s, scope, out);
    case Do::kFor:
      return run_for(s, scope, out);
    case Do::kMacro:
      scope->set(s.symbol, make_macro(s, scope));
      return Flow::kNormal;
    case Do::kCallBlock:
      run_call_block(s, scope, out);
      return Flow::kNormal;
    case Do::kFilterBlock:
      return run_filter_block(s, scope, out);
    case Do::kWith:
      return run_with(s, scope, out);
    case Do::kScope:
      return run(s.body, std::make_shared<Scope>(rt_.heap, scope), out);
    case Do::kExpression:
      eval(*s.expr, scope);
      return Flow::kNormal;
    case Do::kBreak:
      return Flow::kBreak;
    case Do::kContinue:
      return Flow::kContinue;
  }
  return Flow::kNormal;
}

Flow Evaluator::run_if(const Stmt& s, const ScopePtr& scope, Output& out) {
  const Stmt* branch = &s;
  while (!truthy(eval(*branch->expr, scope))) {
    const Body& otherwise = branch->otherwise;
    const bool is_elif = otherwise.size() == 1 && otherwise[0]->kind == Do::kIf;
    if (!is_elif) {
      return run(otherwise, scope, out);
    }
    branch = otherwise[0].get();
    rt_.heap.step();
  }
  return run(branch->body, scope, out);
}

// A block that a `break` or `continue` ends assigns nothing, and its text is lost.
Flow Evaluator::run_set_block(const Stmt& s, const ScopePtr& scope) {
  std::string captured;
  const Flow flow = capture(s.body, std::make_shared<Scope>(rt_.heap, scope), &captured);
  if (flow != Flow::kNormal) return flow;
  Value text = rt_.text(std::move(captured));
  if (s.expr) {
    text = eval_builtin(*s.expr, scope, &text);
  }
  rt_.line = s.line;
  assign(s.target, std::move(text), scope);
  return Flow::kNormal;
}

Flow Evaluator::run_filter_block(const Stmt& s, const ScopePtr& scope, Output& out) {
  std::string captured;
  const Flow flow = capture(s.body, std::make_shared<Scope>(rt_.heap, scope), &captured);
  if (flow != Flow::kNormal) return flow;
  const Value text = rt_.text(std::move(captured));
  out.write(to_str(rt_, eval_builtin(*s.expr, scope, &text)));
  return Flow::kNormal;
}

Flow Evaluator::run_with(const Stmt& s, const ScopePtr& scope, Output& out) {
  const auto inner = std::make_shared<Scope>(rt_.heap, scope);
  for (const Parameter& p : s.parameters) {
    inner->set(p.symbol, eval(*p.fallback, scope));
  }
  return run(s.body, inner, out);
}

void Evaluator::run_call_block(const Stmt& s, const ScopePtr& scope, Output& out) {
  const Depth depth(*this);
  out.write(to_str(rt_, eval_call(*s.expr, scope, make_macro(s, scope))));
}

Value Evaluator::make_macro(const Stmt& s, const ScopePtr& scope) {
  return Value::of(rt_.heap.make<Macro>(*this, s, tree_, scope));
}

void Evaluator::assign(const Target& target, Value value, const ScopePtr& scope) {
  if (!target.parts.empty()) {
    std::vector<Value> items = items_of(rt_, value);
    if (items.size() != target.parts.size()) {
      rt_.fail(
          fmt::format("{} values are assigned to {} names", items.size(), target.parts.size()));
    }
    for (size_t i = 0; i < items.size(); ++i) {
      assign(target.parts[i], std::move(items[i]), scope);
    }
    return;
  }
  if (!target.attribute.is_string()) {
    scope->set(target.symbol, std::move(value));
    return;
  }
  const Value* ns = scope->find(target.symbol);
  if (ns == nullptr || !ns->is(Shape::kNamespace)) {
    rt_.fail(fmt::format("'{}' is no namespace, so '{}' cannot be set in it",
                         tree_.symbols[static_cast<size_t>(target.symbol)],
                         target.attribute.str()));
  }
  ns->dict().set(rt_.heap, target.attribute, std::move(value));
}

}  // namespace troika::jinja
