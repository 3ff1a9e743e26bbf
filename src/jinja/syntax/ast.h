// The template as a tree: one node type for expressions, one for statements.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "jinja/values/value.h"

namespace troika::jinja {

struct Builtin;

enum class Op : uint8_t {
  kConst,      // value
  kName,       // value: the name
  kList,       // children
  kTuple,      // children
  kDict,       // children: key, value, key, value, ...
  kAttribute,  // children[0] . value
  kItem,       // children[0] [ children[1] ]
  kSlice,      // children: object, start, stop, step; null where not given
  kCall,       // children[0] ( arguments )
  kFilter,     // children[0] | name ( arguments ); in a filter block children[0] is null
  kTest,       // children[0] is name ( arguments )
  kNot,
  kNegative,
  kPositive,
  kAnd,
  kOr,
  kIfElse,   // children: condition, then, else (null where not given)
  kCompare,  // children: operands; operators
  kConcat,   // children, all of a chain
  kAdd,
  kSubtract,
  kMultiply,
  kDivide,
  kFloorDivide,
  kModulo,
  kPower,
};

enum class Comparison : uint8_t { kEq, kNe, kLt, kLe, kGt, kGe, kIn, kNotIn };

struct Expr;
using ExprPtr = std::unique_ptr<Expr>;

struct CallArguments {
  std::vector<ExprPtr> positional;
  std::vector<std::pair<std::string, ExprPtr>> named;
  ExprPtr star;       // *list
  ExprPtr star_star;  // **dict
};

struct Expr {
  Op op = Op::kConst;
  int line = 0;
  int depth = 1;    // the depth of the tree below, this node included
  int symbol = -1;  // the symbol of a kName
  Value value;
  std::string name;                  // the name of a filter or test
  const Builtin* builtin = nullptr;  // the filter or test; null if there is none of that name
  std::vector<ExprPtr> children;
  std::vector<Comparison> operators;
  std::unique_ptr<CallArguments> arguments;
};

enum class Do : uint8_t {
  kData,       // value
  kPrint,      // expr
  kSet,        // target = expr
  kSetBlock,   // target = filter(body)
  kIf,         // expr, body, otherwise
  kFor,        // target in expr if condition: body, otherwise
  kMacro,      // symbol, parameters, body
  kCallBlock,  // parameters, body, expr: the call
  kFilterBlock,
  kWith,   // parameters: targets and values; body
  kScope,  // body with variables of its own, as in generation and block
  kExpression,
  kBreak,
  kContinue,
};

// What an assignment assigns to: a name, a namespace's attribute, or a tuple of targets.
struct Target {
  int symbol = -1;
  Value attribute;  // a string when this is symbol.attribute
  std::vector<Target> parts;
};

struct Parameter {
  int symbol = -1;
  std::string name;
  ExprPtr fallback;
};

struct Stmt;
using Body = std::vector<std::unique_ptr<Stmt>>;

struct Stmt {
  Do kind = Do::kData;
  int line = 0;
  bool recursive = false;
  int symbol = -1;
  Value value;
  std::string name;
  Target target;
  ExprPtr expr;
  ExprPtr condition;
  std::vector<Parameter> parameters;
  Body body;
  Body otherwise;
};

struct Template {
  Body body;
  std::vector<std::string> symbols;  // by number of the symbol
  // The numbers of the symbols that the language itself defines; every template has them.
  int loop_symbol = -1;
  int caller_symbol = -1;
  int varargs_symbol = -1;
  int kwargs_symbol = -1;
  // Say whether any macro may look at varargs, kwargs or caller.
  bool uses_varargs = false;
  bool uses_kwargs = false;
};

// Throws an Error that names the line.
Template parse(const std::string& source);

}  // namespace troika::jinja
