#include <fmt/format.h>

#include <algorithm>

#include "jinja/syntax/parser.h"

namespace troika::jinja {

namespace {
// Says whether parse_index returned the bounds of a slice, which still lack the sliced object. In
// x[y[1:2]] the index is a slice too, but a whole one.
bool is_bounds(const Expr& index) { return index.op == Op::kSlice && index.children.size() == 3; }
}  // namespace

ExprPtr Parser::parse_if_else() {
  const Nest nest(*this);
  ExprPtr e = parse_or();
  while (at_name("if")) {
    ExprPtr choice = make(Op::kIfElse, next().line);
    adopt(*choice, parse_or());
    adopt(*choice, std::move(e));
    adopt(*choice, skip_name("else") ? parse_if_else() : nullptr);
    e = std::move(choice);
  }
  return e;
}

ExprPtr Parser::parse_or() {
  ExprPtr e = parse_and();
  while (at_name("or")) {
    const int here = next().line;
    e = binary(Op::kOr, here, std::move(e), parse_and());
  }
  return e;
}

ExprPtr Parser::parse_and() {
  ExprPtr e = parse_not();
  while (at_name("and")) {
    const int here = next().line;
    e = binary(Op::kAnd, here, std::move(e), parse_not());
  }
  return e;
}

ExprPtr Parser::parse_not() {
  if (at_name("not")) {
    const Nest nest(*this);
    const int here = next().line;
    return unary(Op::kNot, here, parse_not());
  }
  return parse_comparison();
}

ExprPtr Parser::parse_comparison() {
  ExprPtr first = parse_sum();
  ExprPtr e;
  while (true) {
    const Token& token = peek();
    Comparison how;
    if (token.kind == TokenKind::kOperator && token.text == "==") {
      how = Comparison::kEq;
    } else if (token.kind == TokenKind::kOperator && token.text == "!=") {
      how = Comparison::kNe;
    } else if (token.kind == TokenKind::kOperator && token.text == "<") {
      how = Comparison::kLt;
    } else if (token.kind == TokenKind::kOperator && token.text == "<=") {
      how = Comparison::kLe;
    } else if (token.kind == TokenKind::kOperator && token.text == ">") {
      how = Comparison::kGt;
    } else if (token.kind == TokenKind::kOperator && token.text == ">=") {
      how = Comparison::kGe;
    } else if (at_name("in")) {
      how = Comparison::kIn;
    } else if (at_name("not") && peek(1).kind == TokenKind::kName && peek(1).text == "in") {
      how = Comparison::kNotIn;
      next();
    } else {
      return e ? std::move(e) : std::move(first);
    }
    if (!e) {
      e = unary(Op::kCompare, token.line, std::move(first));
    }
    next();
    e->operators.push_back(how);
    adopt(*e, parse_sum());
  }
}

ExprPtr Parser::parse_sum() {
  ExprPtr e = parse_concat();
  while (at_operator("+") || at_operator("-")) {
    const Token& token = next();
    const Op op = token.text == "+" ? Op::kAdd : Op::kSubtract;
    e = binary(op, token.line, std::move(e), parse_concat());
  }
  return e;
}

ExprPtr Parser::parse_concat() {
  ExprPtr e = parse_product();
  if (!at_operator("~")) {
    return e;
  }
  ExprPtr chain = unary(Op::kConcat, line(), std::move(e));
  while (skip_operator("~")) {
    adopt(*chain, parse_product());
  }
  return chain;
}

ExprPtr Parser::parse_product() {
  ExprPtr e = parse_power();
  while (at_operator("*") || at_operator("/") || at_operator("//") || at_operator("%")) {
    const Token& token = next();
    const Op op = token.text == "*"    ? Op::kMultiply
                  : token.text == "/"  ? Op::kDivide
                  : token.text == "//" ? Op::kFloorDivide
                                       : Op::kModulo;
    e = binary(op, token.line, std::move(e), parse_power());
  }
  return e;
}

ExprPtr Parser::parse_power() {
  ExprPtr e = parse_unary(true);
  while (at_operator("**")) {
    const int here = next().line;
    e = binary(Op::kPower, here, std::move(e), parse_unary(true));
  }
  return e;
}

ExprPtr Parser::parse_unary(bool with_filters) {
  const Nest nest(*this);
  ExprPtr e;
  if (at_operator("-") || at_operator("+")) {
    const Token& token = next();
    const Op op = token.text == "-" ? Op::kNegative : Op::kPositive;
    e = unary(op, token.line, parse_unary(false));
  } else {
    e = parse_primary();
  }
  e = parse_postfix(std::move(e));
  return with_filters ? parse_filters(std::move(e)) : std::move(e);
}

ExprPtr Parser::parse_primary() {
  const Token& token = peek();
  ExprPtr e = make(Op::kConst, token.line);
  if (token.kind == TokenKind::kName) {
    const std::string name = next().text;
    if (name == "true" || name == "True") {
      e->value = Value::of(true);
    } else if (name == "false" || name == "False") {
      e->value = Value::of(false);
    } else if (name == "none" || name == "None") {
      e->value = Value::none();
    } else {
      e->op = Op::kName;
      e->symbol = symbol(name);
      e->value = Value::constant(name);
    }
    return e;
  }
  if (token.kind == TokenKind::kString) {
    std::string text;
    while (peek().kind == TokenKind::kString) {
      text += next().text;
    }
    e->value = Value::constant(std::move(text));
    return e;
  }
  if (token.kind == TokenKind::kInteger) {
    e->value = Value::of(next().integer);
    return e;
  }
  if (token.kind == TokenKind::kFloat) {
    e->value = Value::of(next().number);
    return e;
  }
  if (at_operator("(")) {
    return parse_parenthesized();
  }
  if (at_operator("[")) {
    return parse_list();
  }
  if (at_operator("{")) {
    return parse_dict();
  }
  fail(fmt::format("expected a value but found {}", describe(token)));
}

ExprPtr Parser::parse_parenthesized() {
  const int here = next().line;
  if (skip_operator(")")) {
    return make(Op::kTuple, here);
  }
  ExprPtr e = parse_tuple(true);
  expect_operator(")");
  return e;
}

ExprPtr Parser::parse_list() {
  ExprPtr e = make(Op::kList, next().line);
  while (!at_operator("]")) {
    if (!e->children.empty()) {
      expect_operator(",");
      if (at_operator("]")) {
        break;
      }
    }
    adopt(*e, parse_expression());
  }
  expect_operator("]");
  return e;
}

ExprPtr Parser::parse_dict() {
  ExprPtr e = make(Op::kDict, next().line);
  while (!at_operator("}")) {
    if (!e->children.empty()) {
      expect_operator(",");
      if (at_operator("}")) {
        break;
      }
    }
    adopt(*e, parse_expression());
    expect_operator(":");
    adopt(*e, parse_expression());
  }
  expect_operator("}");
  return e;
}

ExprPtr Parser::parse_tuple(bool with_if_else, std::string_view end_name) {
  const int here = line();
  ExprPtr first = with_if_else ? parse_expression() : parse_or();
  if (!at_operator(",")) {
    return first;
  }
  ExprPtr tuple = unary(Op::kTuple, here, std::move(first));
  while (skip_operator(",")) {
    if (at_tuple_end(end_name)) {
      break;
    }
    adopt(*tuple, with_if_else ? parse_expression() : parse_or());
  }
  return tuple;
}

ExprPtr Parser::parse_postfix(ExprPtr e) {
  while (true) {
    if (at_operator("(")) {
      e = unary(Op::kCall, line(), std::move(e));
      give_arguments(*e, parse_arguments());
    } else if (at_operator(".")) {
      const int here = next().line;
      const Token& token = next();
      if (token.kind == TokenKind::kName) {
        e = unary(Op::kAttribute, here, std::move(e));
        e->value = Value::constant(token.text);
      } else if (token.kind == TokenKind::kInteger) {
        ExprPtr index = make(Op::kConst, here);
        index->value = Value::of(token.integer);
        e = binary(Op::kItem, here, std::move(e), std::move(index));
      } else {
        fail(fmt::format("expected a name or a number after the dot"));
      }
    } else if (at_operator("[")) {
      e = parse_subscript(std::move(e));
    } else {
      return e;
    }
  }
}

ExprPtr Parser::parse_subscript(ExprPtr object) {
  const int here = next().line;
  ExprPtr index = parse_index();
  if (at_operator(",")) {
    index = unary(Op::kTuple, here, std::move(index));
    while (skip_operator(",")) {
      adopt(*index, parse_index());
    }
    const auto& parts = index->children;
    if (std::any_of(parts.begin(), parts.end(), [](const auto& e) { return is_bounds(*e); })) {
      fail("a slice stands beside another index");
    }
  }
  expect_operator("]");
  if (!is_bounds(*index)) {
    return binary(Op::kItem, here, std::move(object), std::move(index));
  }
  ExprPtr slice = unary(Op::kSlice, here, std::move(object));
  for (ExprPtr& bound : index->children) {
    adopt(*slice, std::move(bound));
  }
  return slice;
}

// Parses an expression, or a slice whose children are start, stop and step.
ExprPtr Parser::parse_index() {
  const int here = line();
  ExprPtr bounds[3];
  bool is_slice = false;
  for (int i = 0; i < 3; ++i) {
    if (!at_operator(":") && !at_operator("]") && !at_operator(",")) {
      bounds[i] = parse_expression();
    }
    if (i == 2 || !skip_operator(":")) {
      break;
    }
    is_slice = true;
  }
  if (!is_slice) {
    if (!bounds[0]) {
      fail("expected an index");
    }
    return std::move(bounds[0]);
  }
  ExprPtr slice = make(Op::kSlice, here);
  for (ExprPtr& bound : bounds) {
    adopt(*slice, std::move(bound));
  }
  return slice;
}

}  // namespace troika::jinja
