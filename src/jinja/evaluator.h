// Walks the tree of a template and writes its text.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "jinja/runtime.h"
#include "jinja/syntax/ast.h"

namespace troika::jinja {

// The variables of one block. Assignments go to the innermost scope, look-ups go outwards.
// They count against the heap.
class Scope {
 public:
  Scope(Heap& heap, std::shared_ptr<Scope> outer);
  ~Scope() { heap_.give_back(n_taken_); }
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

  // Returns null if neither this scope nor one around it has the variable.
  const Value* find(int symbol) const;
  const Value* find_here(int symbol) const;
  void set(int symbol, Value value);

 private:
  size_t position(int symbol) const;

  Heap& heap_;
  size_t n_taken_;
  const std::shared_ptr<Scope> parent_;
  std::vector<std::pair<int, Value>> variables_;
  // Has the places of the variables; is empty while they are few, because a scan is faster then.
  std::map<int, size_t> index_;
};
using ScopePtr = std::shared_ptr<Scope>;

// Text that is being written. It counts against the heap.
class Output {
 public:
  explicit Output(Heap& heap) : heap_(heap) {}
  ~Output() { heap_.give_back(n_taken_); }
  Output(const Output&) = delete;
  void write(std::string_view text);
  std::string take() { return std::move(text_); }

 private:
  Heap& heap_;
  std::string text_;
  size_t n_taken_ = 0;
};

enum class Flow : uint8_t { kNormal, kBreak, kContinue };

class Evaluator {
 public:
  Evaluator(const Template& tree, Runtime& rt) : tree_(tree), rt_(rt) {}

  // Renders the template. `context` is a dictionary of the variables that the template finds.
  std::string render(const Value& context);

  // Runs a body in `scope`, as macros do.
  std::string capture(const Body& body, const ScopePtr& scope);
  // Does so inside of a loop, whose `break` or `continue` may end the body.
  Flow capture(const Body& body, const ScopePtr& scope, std::string* text);
  Value eval(const Expr& e, const ScopePtr& scope);
  void assign(const Target& target, Value value, const ScopePtr& scope);
  Runtime& runtime() { return rt_; }

  // Runs a loop; a recursive loop's loop(...) calls it, too. Loops are in evaluator_loop.cc.
  Flow run_loop(const Stmt& s, std::vector<Value> items, int depth, const ScopePtr& scope,
                Output& out);

 private:
  class Depth;

  // These run statements, in evaluator_statements.cc.
  Flow run(const Body& body, const ScopePtr& scope, Output& out);
  Flow run(const Stmt& s, const ScopePtr& scope, Output& out);
  Flow run_if(const Stmt& s, const ScopePtr& scope, Output& out);
  Flow run_for(const Stmt& s, const ScopePtr& scope, Output& out);
  Flow run_set_block(const Stmt& s, const ScopePtr& scope);
  Flow run_filter_block(const Stmt& s, const ScopePtr& scope, Output& out);
  void run_call_block(const Stmt& s, const ScopePtr& scope, Output& out);
  Flow run_with(const Stmt& s, const ScopePtr& scope, Output& out);
  std::vector<Value> filtered(const Stmt& s, std::vector<Value> items, const ScopePtr& scope);
  Value make_macro(const Stmt& s, const ScopePtr& scope);

  // These evaluate expressions, in evaluator.cc.
  Value lookup(const Expr& e, const ScopePtr& scope);
  Value eval_node(const Expr& e, const ScopePtr& scope);
  Value eval_binary(const Expr& e, const ScopePtr& scope);
  Value eval_list(const Expr& e, const ScopePtr& scope);
  Value eval_dict(const Expr& e, const ScopePtr& scope);
  Value eval_slice(const Expr& e, const ScopePtr& scope);
  Value eval_comparison(const Expr& e, const ScopePtr& scope);
  Value eval_concat(const Expr& e, const ScopePtr& scope);
  Value eval_call(const Expr& e, const ScopePtr& scope, const Value& caller);
  // Evaluates a filter, with `input` in place of the innermost missing child, or a test.
  Value eval_builtin(const Expr& e, const ScopePtr& scope, const Value* input);
  void eval_arguments(const CallArguments* arguments, const ScopePtr& scope, Args& args);

  const Template& tree_;
  Runtime& rt_;
  int depth_ = 0;
};

// Guards the C++ stack against deep recursion.
class Evaluator::Depth {
 public:
  explicit Depth(Evaluator& evaluator);
  ~Depth() { --evaluator_.depth_; }

 private:
  Evaluator& evaluator_;
};

}  // namespace troika::jinja
