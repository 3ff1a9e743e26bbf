#include "jinja/syntax/parser.h"

#include <fmt/format.h>

#include <algorithm>

namespace troika::jinja {

namespace {
constexpr int kNestedAtMost = 150;
// Limits the depth of a tree, chains such as a + b + c + ... included: evaluation and destruction
// recurse over it.
constexpr int kDeepestTree = 500;
}  // namespace

Template parse(const std::string& source) { return Parser(tokenize(source)).run(); }

Template Parser::run() {
  template_.body = parse_body({});
  template_.uses_varargs = symbol_of_.contains("varargs");
  template_.uses_kwargs = symbol_of_.contains("kwargs");
  template_.loop_symbol = symbol("loop");
  template_.caller_symbol = symbol("caller");
  template_.varargs_symbol = symbol("varargs");
  template_.kwargs_symbol = symbol("kwargs");
  return std::move(template_);
}

Parser::Nest::Nest(Parser& parser) : parser_(parser) {
  if (parser.depth_ >= kNestedAtMost) {
    parser.fail(fmt::format("more than {} things nested in one another", kNestedAtMost));
  }
  ++parser.depth_;
}

ExprPtr Parser::make(Op op, int line) const {
  auto e = std::make_unique<Expr>();
  e->op = op;
  e->line = line;
  return e;
}

void Parser::deepen(Expr& parent, const ExprPtr& child) const {
  if (child) {
    parent.depth = std::max(parent.depth, child->depth + 1);
    if (parent.depth > kDeepestTree) {
      fail(fmt::format("an expression of more than {} steps", kDeepestTree));
    }
  }
}

void Parser::adopt(Expr& parent, ExprPtr child) const {
  deepen(parent, child);
  parent.children.push_back(std::move(child));
}

void Parser::give_arguments(Expr& call, std::unique_ptr<CallArguments> arguments) const {
  for (const ExprPtr& e : arguments->positional) {
    deepen(call, e);
  }
  for (const auto& [name, e] : arguments->named) {
    deepen(call, e);
  }
  deepen(call, arguments->star);
  deepen(call, arguments->star_star);
  call.arguments = std::move(arguments);
}

ExprPtr Parser::unary(Op op, int line, ExprPtr a) const {
  ExprPtr e = make(op, line);
  adopt(*e, std::move(a));
  return e;
}

ExprPtr Parser::binary(Op op, int line, ExprPtr a, ExprPtr b) const {
  ExprPtr e = unary(op, line, std::move(a));
  adopt(*e, std::move(b));
  return e;
}

const Token& Parser::peek(size_t ahead) const {
  return tokens_[std::min(position_ + ahead, tokens_.size() - 1)];
}

const Token& Parser::next() {
  const Token& token = peek();
  if (position_ + 1 < tokens_.size()) {
    ++position_;
  }
  return token;
}

bool Parser::at_operator(std::string_view text) const {
  return peek().kind == TokenKind::kOperator && peek().text == text;
}

bool Parser::at_name(std::string_view text) const {
  return peek().kind == TokenKind::kName && peek().text == text;
}

bool Parser::skip_operator(std::string_view text) {
  const bool there = at_operator(text);
  if (there) {
    next();
  }
  return there;
}

bool Parser::skip_name(std::string_view text) {
  const bool there = at_name(text);
  if (there) {
    next();
  }
  return there;
}

void Parser::expect_operator(std::string_view text) {
  if (!skip_operator(text)) {
    fail(fmt::format("expected '{}' but found {}", text, describe(peek())));
  }
}

void Parser::expect_name(std::string_view text) {
  if (!skip_name(text)) {
    fail(fmt::format("expected '{}' but found {}", text, describe(peek())));
  }
}

std::string Parser::expect_any_name(const char* what) {
  if (peek().kind != TokenKind::kName) {
    fail(fmt::format("expected {} but found {}", what, describe(peek())));
  }
  return next().text;
}

void Parser::expect_block_end() {
  if (peek().kind != TokenKind::kBlockEnd) {
    fail(fmt::format("expected the end of the tag but found {}", describe(peek())));
  }
  next();
}

bool Parser::at_tuple_end(std::string_view end_name) const {
  const TokenKind kind = peek().kind;
  return kind == TokenKind::kVariableEnd || kind == TokenKind::kBlockEnd || at_operator(")") ||
         (!end_name.empty() && at_name(end_name));
}

std::string Parser::describe(const Token& token) const {
  switch (token.kind) {
    case TokenKind::kData:
      return "text";
    case TokenKind::kBlockBegin:
      return "{%";
    case TokenKind::kBlockEnd:
      return "%}";
    case TokenKind::kVariableBegin:
      return "{{";
    case TokenKind::kVariableEnd:
      return "}}";
    case TokenKind::kString:
      return "a string";
    case TokenKind::kInteger:
    case TokenKind::kFloat:
      return "a number";
    case TokenKind::kEnd:
      return "the end of the template";
    case TokenKind::kName:
    case TokenKind::kOperator:
      break;
  }
  return "'" + token.text.substr(0, 40) + "'";
}

void Parser::fail(const std::string& what) const { fail_at_line(line(), what); }

int Parser::symbol(const std::string& name) {
  const auto [it, is_new] = symbol_of_.emplace(name, static_cast<int>(template_.symbols.size()));
  if (is_new) {
    template_.symbols.push_back(name);
  }
  return it->second;
}

}  // namespace troika::jinja
