// The variable `loop` of a template.
#pragma once

#include <string_view>
#include <vector>

#include "jinja/evaluator.h"

namespace troika::jinja {

struct Loop : Object {
  Loop(Evaluator& e, const Stmt& s, ScopePtr around, std::vector<Value> all, int how_deep)
      : Object(Shape::kLoop),
        evaluator(e),
        definition(s),
        scope(std::move(around)),
        items(std::move(all)),
        n_items(items.size()),
        depth(how_deep) {}
  // Runs loop(children) in a recursive loop: returns the text of the same loop over the children.
  Value call(Runtime& rt, Args& args) override;
  // Returns loop.index and the like; undefined where there is none of that name.
  Value attribute(Runtime& rt, std::string_view name) const;

  Evaluator& evaluator;
  const Stmt& definition;
  const ScopePtr scope;
  std::vector<Value> items;  // empty once the loop is over
  const size_t n_items;
  const int depth;  // 1 outside of recursion
  size_t index0 = 0;
  // Says whether changed() was called before; then `changed` has its arguments.
  bool has_changed = false;
  std::vector<Value> last;
};

}  // namespace troika::jinja
