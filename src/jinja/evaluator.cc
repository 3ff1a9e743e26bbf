#include "jinja/evaluator.h"

#include <fmt/format.h>

#include <algorithm>

#include "jinja/functions/builtins.h"
#include "jinja/values/dict.h"

namespace troika::jinja {

namespace {
constexpr size_t kScannedVariables = 16;
constexpr size_t kNoPlace = static_cast<size_t>(-1);
// Counts the bytes of a variable and its node of the index.
constexpr size_t kVariableBytes = sizeof(std::pair<int, Value>) + 64;
}  // namespace

Scope::Scope(Heap& heap, std::shared_ptr<Scope> outer)
    : heap_(heap), n_taken_(sizeof(Scope) + 32), parent_(std::move(outer)) {
  heap_.take(n_taken_);
}

size_t Scope::position(int symbol) const {
  if (!index_.empty()) {
    const auto found = index_.find(symbol);
    return found == index_.end() ? kNoPlace : found->second;
  }
  for (size_t i = 0; i < variables_.size(); ++i) {
    if (variables_[i].first == symbol) {
      return i;
    }
  }
  return kNoPlace;
}

const Value* Scope::find_here(int symbol) const {
  const size_t i = position(symbol);
  return i == kNoPlace ? nullptr : &variables_[i].second;
}

const Value* Scope::find(int symbol) const {
  const Value* found = nullptr;
  size_t n_scopes = 0;
  for (const Scope* scope = this; scope != nullptr && found == nullptr;
       scope = scope->parent_.get()) {
    found = scope->find_here(symbol);
    ++n_scopes;
  }
  heap_.step(n_scopes / 8);
  return found;
}

void Scope::set(int symbol, Value value) {
  const size_t i = position(symbol);
  if (i != kNoPlace) {
    variables_[i].second = std::move(value);
    return;
  }
  heap_.take(kVariableBytes);
  n_taken_ += kVariableBytes;
  variables_.emplace_back(symbol, std::move(value));
  const size_t n = variables_.size();
  if (n > kScannedVariables) {
    for (size_t k = index_.size(); k < n; ++k) {
      index_.emplace(variables_[k].first, k);
    }
  }
}

void Output::write(std::string_view text) {
  heap_.step_bytes(text.size());
  if (text.size() > heap_.limits().output_bytes - text_.size()) {
    heap_.out_of_output();
  }
  heap_.take(text.size());
  n_taken_ += text.size();
  text_.append(text);
}

Evaluator::Depth::Depth(Evaluator& evaluator) : evaluator_(evaluator) {
  const int most = evaluator.rt_.heap.limits().n_nested_nodes;
  if (evaluator.depth_ >= most) {
    evaluator.rt_.fail(fmt::format("more than {} steps nested in one another", most));
  }
  ++evaluator.depth_;
}

Value Evaluator::eval(const Expr& e, const ScopePtr& scope) {
  rt_.heap.step();
  switch (e.op) {
    case Op::kConst:
      return e.value;
    case Op::kName:
      return lookup(e, scope);
    default: {
      const Depth depth(*this);
      rt_.line = e.line;
      return eval_node(e, scope);
    }
  }
}

Value Evaluator::lookup(const Expr& e, const ScopePtr& scope) {
  if (const Value* found = scope->find(e.symbol)) {
    return *found;
  }
  if (const Builtin* global = find_global(e.value.str())) {
    return global_function(rt_, *global);
  }
  return Value::undefined(e.value.shared_text());
}

Value Evaluator::eval_node(const Expr& e, const ScopePtr& scope) {
  const auto child = [&](size_t i) { return eval(*e.children[i], scope); };
  switch (e.op) {
    case Op::kList:
    case Op::kTuple:
      return eval_list(e, scope);
    case Op::kDict:
      return eval_dict(e, scope);
    case Op::kAttribute:
      return get_attribute(rt_, child(0), e.value);
    case Op::kItem: {
      const Value object = child(0);
      return get_item(rt_, object, child(1));
    }
    case Op::kSlice:
      return eval_slice(e, scope);
    case Op::kCall:
      return eval_call(e, scope, Value::missing());
    case Op::kFilter:
    case Op::kTest:
      return eval_builtin(e, scope, nullptr);
    case Op::kNot:
      return Value::of(!truthy(child(0)));
    case Op::kNegative:
      return negative(rt_, child(0));
    case Op::kPositive:
      return positive(rt_, child(0));
    case Op::kAnd: {
      Value left = child(0);
      return truthy(left) ? child(1) : left;
    }
    case Op::kOr: {
      Value left = child(0);
      return truthy(left) ? left : child(1);
    }
    case Op::kIfElse:
      if (truthy(child(0))) {
        return child(1);
      }
      return e.children[2] ? child(2) : Value();
    case Op::kCompare:
      return eval_comparison(e, scope);
    case Op::kConcat:
      return eval_concat(e, scope);
    default:
      return eval_binary(e, scope);
  }
}

Value Evaluator::eval_binary(const Expr& e, const ScopePtr& scope) {
  const Value a = eval(*e.children[0], scope);
  const Value b = eval(*e.children[1], scope);
  rt_.line = e.line;
  switch (e.op) {
    case Op::kAdd:
      return add(rt_, a, b);
    case Op::kSubtract:
      return subtract(rt_, a, b);
    case Op::kMultiply:
      return multiply(rt_, a, b);
    case Op::kDivide:
      return divide(rt_, a, b);
    case Op::kFloorDivide:
      return floor_divide(rt_, a, b);
    case Op::kModulo:
      return modulo(rt_, a, b);
    default:
      return power(rt_, a, b);
  }
}

Value Evaluator::eval_list(const Expr& e, const ScopePtr& scope) {
  std::vector<Value> items;
  items.reserve(e.children.size());
  for (const ExprPtr& child : e.children) {
    items.push_back(eval(*child, scope));
  }
  return rt_.heap.list(std::move(items), e.op == Op::kList ? Shape::kList : Shape::kTuple);
}

Value Evaluator::eval_dict(const Expr& e, const ScopePtr& scope) {
  Value result = rt_.heap.dict();
  for (size_t i = 0; i + 1 < e.children.size(); i += 2) {
    const Value key = eval(*e.children[i], scope);
    check_key(rt_, key);
    result.dict().set(rt_.heap, key, eval(*e.children[i + 1], scope));
  }
  return result;
}

Value Evaluator::eval_slice(const Expr& e, const ScopePtr& scope) {
  Value parts[4];
  for (size_t i = 0; i < 4; ++i) {
    parts[i] = e.children[i] ? eval(*e.children[i], scope) : Value::none();
  }
  rt_.line = e.line;
  return get_slice(rt_, parts[0], parts[1], parts[2], parts[3]);
}

Value Evaluator::eval_comparison(const Expr& e, const ScopePtr& scope) {
  Value left = eval(*e.children[0], scope);
  for (size_t i = 0; i < e.operators.size(); ++i) {
    Value right = eval(*e.children[i + 1], scope);
    rt_.line = e.line;
    const Comparison how = e.operators[i];
    bool holds = false;
    if (how == Comparison::kEq || how == Comparison::kNe) {
      holds = equal(rt_, left, right) == (how == Comparison::kEq);
    } else if (how == Comparison::kIn || how == Comparison::kNotIn) {
      holds = contains(rt_, right, left) == (how == Comparison::kIn);
    } else {
      bool unordered = false;
      const int order = compare(rt_, left, right, unordered);
      holds = !unordered && (how == Comparison::kLt   ? order < 0
                             : how == Comparison::kLe ? order <= 0
                             : how == Comparison::kGt ? order > 0
                                                      : order >= 0);
    }
    if (!holds) {
      return Value::of(false);
    }
    left = std::move(right);
  }
  return Value::of(true);
}

Value Evaluator::eval_concat(const Expr& e, const ScopePtr& scope) {
  std::string joined;
  for (const ExprPtr& child : e.children) {
    const Value v = eval(*child, scope);
    rt_.line = e.line;
    if (v.is_string()) {
      rt_.heap.expect(joined.size() + v.str().size());
    }
    print_to(rt_, joined, v);
  }
  return rt_.text(std::move(joined));
}

void Evaluator::eval_arguments(const CallArguments* arguments, const ScopePtr& scope, Args& args) {
  if (arguments == nullptr) {
    return;
  }
  for (const ExprPtr& e : arguments->positional) {
    args.at.push_back(eval(*e, scope));
  }
  if (arguments->star) {
    for (Value& v : items_of(rt_, eval(*arguments->star, scope))) {
      args.at.push_back(std::move(v));
    }
  }
  for (const auto& [name, e] : arguments->named) {
    args.named.emplace_back(name, eval(*e, scope));
  }
  if (arguments->star_star) {
    const Value dict = eval(*arguments->star_star, scope);
    if (!dict.is(Shape::kDict)) {
      rt_.fail("what follows ** in a call must be a dictionary");
    }
    for (const auto& [key, value] : dict.dict().entries) {
      if (!key.is_string()) {
        rt_.fail("names of arguments must be strings");
      }
      rt_.heap.step_bytes(key.str().size());
      args.named.emplace_back(key.str(), value);
    }
  }
}

Value Evaluator::eval_call(const Expr& e, const ScopePtr& scope, const Value& caller) {
  const Expr& callee = *e.children[0];
  Args args;
  const Builtin* method = nullptr;
  Value function;
  if (callee.op == Op::kAttribute) {
    // A method is called on its object without becoming a value first.
    const Value object = eval(*callee.children[0], scope);
    rt_.line = callee.line;
    method = find_method(object, callee.value.str());
    if (method != nullptr) {
      args.at.push_back(object);
    } else {
      function = get_attribute(rt_, object, callee.value);
    }
  } else if (callee.op == Op::kName && scope->find(callee.symbol) == nullptr) {
    method = find_global(callee.value.str());
    function = Value::undefined(callee.value.shared_text());
  } else {
    function = eval(callee, scope);
  }
  eval_arguments(e.arguments.get(), scope, args);
  if (!caller.is_missing()) {
    args.named.emplace_back("caller", caller);
  }
  rt_.line = e.line;
  return method != nullptr ? rt_.call_builtin(method, method->name, args)
                           : rt_.call(function, args);
}

Value Evaluator::eval_builtin(const Expr& e, const ScopePtr& scope, const Value* input) {
  Args args;
  if (e.children[0] == nullptr) {
    args.at.push_back(input != nullptr ? *input : Value());
  } else if (input != nullptr) {
    args.at.push_back(eval_builtin(*e.children[0], scope, input));
  } else {
    args.at.push_back(eval(*e.children[0], scope));
  }
  eval_arguments(e.arguments.get(), scope, args);
  rt_.line = e.line;
  return rt_.call_builtin(e.builtin, e.name, args);
}

}  // namespace troika::jinja
