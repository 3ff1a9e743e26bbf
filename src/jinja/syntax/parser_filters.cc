// Parses what stands behind a value: filters, tests and arguments of calls.
#include "jinja/functions/builtins.h"
#include "jinja/syntax/parser.h"

namespace troika::jinja {

ExprPtr Parser::parse_filters(ExprPtr e) {
  while (true) {
    if (skip_operator("|")) {
      e = parse_filter(std::move(e));
    } else if (skip_name("is")) {
      e = parse_test(std::move(e));
    } else if (at_operator("(")) {
      e = unary(Op::kCall, line(), std::move(e));
      give_arguments(*e, parse_arguments());
    } else {
      return e;
    }
  }
}

ExprPtr Parser::parse_filter(ExprPtr input) {
  ExprPtr e = unary(Op::kFilter, line(), std::move(input));
  e->name = expect_any_name("the name of a filter");
  while (skip_operator(".")) {
    e->name += "." + expect_any_name("the name of a filter");
  }
  e->builtin = find_filter(e->name);
  if (at_operator("(")) {
    give_arguments(*e, parse_arguments());
  }
  return e;
}

ExprPtr Parser::parse_filter_chain() {
  ExprPtr e;
  do {
    e = parse_filter(std::move(e));
  } while (skip_operator("|"));
  return e;
}

ExprPtr Parser::parse_test(ExprPtr input) {
  const int here = line();
  const bool negated = skip_name("not");
  ExprPtr e = unary(Op::kTest, here, std::move(input));
  e->name = expect_any_name("the name of a test");
  while (skip_operator(".")) {
    e->name += "." + expect_any_name("the name of a test");
  }
  e->builtin = find_test(e->name);
  const TokenKind kind = peek().kind;
  if (at_operator("(")) {
    give_arguments(*e, parse_arguments());
  } else if (kind == TokenKind::kString || kind == TokenKind::kInteger ||
             kind == TokenKind::kFloat || at_operator("[") || at_operator("{") ||
             (kind == TokenKind::kName && !at_name("else") && !at_name("or") && !at_name("and"))) {
    if (at_name("is")) {
      fail("tests cannot be chained with 'is'");
    }
    const Nest nest(*this);
    auto arguments = std::make_unique<CallArguments>();
    arguments->positional.push_back(parse_postfix(parse_primary()));
    give_arguments(*e, std::move(arguments));
  }
  return negated ? unary(Op::kNot, here, std::move(e)) : std::move(e);
}

std::unique_ptr<CallArguments> Parser::parse_arguments() {
  auto arguments = std::make_unique<CallArguments>();
  expect_operator("(");
  bool first = true;
  while (!at_operator(")")) {
    if (!first) {
      expect_operator(",");
      if (at_operator(")")) {
        break;
      }
    }
    first = false;
    const bool has_star = arguments->star || arguments->star_star;
    if (skip_operator("**") && !arguments->star_star) {
      arguments->star_star = parse_expression();
    } else if (!arguments->star_star && !arguments->star && skip_operator("*")) {
      arguments->star = parse_expression();
    } else if (peek().kind == TokenKind::kName && peek(1).kind == TokenKind::kOperator &&
               peek(1).text == "=" && !arguments->star_star) {
      std::string name = next().text;
      next();
      arguments->named.emplace_back(std::move(name), parse_expression());
    } else if (!has_star && arguments->named.empty()) {
      arguments->positional.push_back(parse_expression());
    } else {
      fail("an argument without a name follows one with a name");
    }
  }
  expect_operator(")");
  return arguments;
}

}  // namespace troika::jinja
