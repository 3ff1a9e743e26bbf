#include "jinja/functions/macro.h"

#include <fmt/format.h>

#include <algorithm>

#include "jinja/values/dict.h"

namespace troika::jinja {

Value Macro::call(Runtime& rt, Args& args) {
  const Runtime::CallDepth depth(rt);
  const auto inner = std::make_shared<Scope>(rt.heap, scope);
  set_parameters(rt, args, inner);
  set_rest(rt, args, inner);
  for (const Parameter& p : definition.parameters) {
    if (inner->find_here(p.symbol) == nullptr) {
      inner->set(p.symbol, p.fallback ? evaluator.eval(*p.fallback, inner) : rt.undefined(p.name));
    }
  }
  const int line = rt.line;
  Value text = rt.text(evaluator.capture(definition.body, inner));
  rt.line = line;
  return text;
}

void Macro::set_parameters(Runtime& rt, Args& args, const ScopePtr& inner) {
  const auto& parameters = definition.parameters;
  const size_t n_positional = std::min(args.at.size(), parameters.size());
  for (size_t i = 0; i < n_positional; ++i) {
    inner->set(parameters[i].symbol, args.at[i]);
  }
  std::vector<std::pair<std::string, Value>> rest;
  for (auto& [name, value] : args.named) {
    rt.heap.step(parameters.size() / 4);
    const auto it = std::find_if(parameters.begin(), parameters.end(),
                                 [&wanted = name](const Parameter& p) { return p.name == wanted; });
    if (it == parameters.end()) {
      rest.emplace_back(name, value);
    } else if (it < parameters.begin() + static_cast<ptrdiff_t>(n_positional)) {
      rt.fail(fmt::format("macro '{}' has two values for '{}'", definition.name, name));
    } else {
      inner->set(it->symbol, value);
    }
  }
  args.named = std::move(rest);
}

// Sets caller, varargs and kwargs, which get what no parameter took.
void Macro::set_rest(Runtime& rt, Args& args, const ScopePtr& inner) {
  const size_t n_parameters = definition.parameters.size();
  if (args.at.size() > n_parameters && !tree.uses_varargs) {
    rt.fail(fmt::format("macro '{}' takes at most {} values, not {}", definition.name, n_parameters,
                        args.at.size()));
  }
  Value caller = Value::undefined(rt.text("caller").shared_text());
  Value kwargs = rt.heap.dict();
  for (auto& [name, value] : args.named) {
    if (name == "caller") {
      caller = value;
    } else if (!tree.uses_kwargs) {
      rt.fail(fmt::format("macro '{}' has no parameter '{}'", definition.name, name));
    } else {
      kwargs.dict().set(rt.heap, rt.text(name), value);
    }
  }
  inner->set(tree.caller_symbol, caller);
  if (tree.uses_kwargs) {
    inner->set(tree.kwargs_symbol, kwargs);
  }
  if (tree.uses_varargs) {
    const size_t n_taken = std::min(args.at.size(), n_parameters);
    inner->set(tree.varargs_symbol,
               rt.heap.list({args.at.begin() + static_cast<ptrdiff_t>(n_taken), args.at.end()},
                            Shape::kTuple));
  }
}

}  // namespace troika::jinja
