// A macro, or the body of a call block, as a value.
#pragma once

#include <string>

#include "jinja/evaluator.h"

namespace troika::jinja {

struct Macro : Function {
  Macro(Evaluator& e, const Stmt& s, const Template& t, ScopePtr defined_in)
      : evaluator(e), definition(s), tree(t), scope(std::move(defined_in)) {}
  Value call(Runtime& rt, Args& args) override;
  std::string name() const override { return definition.name; }

  Evaluator& evaluator;
  const Stmt& definition;
  const Template& tree;
  const ScopePtr scope;

 private:
  void set_parameters(Runtime& rt, Args& args, const ScopePtr& inner);
  void set_rest(Runtime& rt, Args& args, const ScopePtr& inner);
};

}  // namespace troika::jinja
