// Parses the tokens of a template by recursive descent.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "jinja/syntax/ast.h"
#include "jinja/syntax/lexer.h"

namespace troika::jinja {

class Parser {
 public:
  explicit Parser(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}
  Template run();

 private:
  // These parse statements, in parser_statements.cc.
  Body parse_body(std::initializer_list<std::string_view> ends);
  // Parses a body up to one of `ends`. The end's closing %} is read, too, unless the end is an
  // elif, or else.
  Body parse_tag_body(std::initializer_list<std::string_view> ends);
  std::unique_ptr<Stmt> parse_statement();
  void parse_set(Stmt& s);
  void parse_for(Stmt& s);
  void parse_if(Stmt& s);
  void parse_branches(Stmt& s);
  void parse_macro(Stmt& s);
  void parse_call_block(Stmt& s);
  void parse_with(Stmt& s);
  void parse_block(Stmt& s);
  void parse_parameters(Stmt& s);
  Target parse_target(bool with_namespace, std::string_view end_name = {});
  Target parse_one_target(bool with_namespace);

  // These parse expressions, in parser_expressions.cc; operators that bind least come first.
  ExprPtr parse_expression() { return parse_if_else(); }
  ExprPtr parse_if_else();
  ExprPtr parse_or();
  ExprPtr parse_and();
  ExprPtr parse_not();
  ExprPtr parse_comparison();
  ExprPtr parse_sum();
  ExprPtr parse_concat();
  ExprPtr parse_product();
  ExprPtr parse_power();
  ExprPtr parse_unary(bool with_filters);
  ExprPtr parse_primary();
  ExprPtr parse_postfix(ExprPtr e);
  ExprPtr parse_subscript(ExprPtr object);
  ExprPtr parse_index();
  ExprPtr parse_list();
  ExprPtr parse_dict();
  ExprPtr parse_parenthesized();
  // Parses one expression, or several with commas as a tuple. It ends at a tag's end, at ), or at
  // `end_name`.
  ExprPtr parse_tuple(bool with_if_else, std::string_view end_name = {});

  // These parse what stands behind a value, in parser_filters.cc.
  ExprPtr parse_filters(ExprPtr e);
  ExprPtr parse_filter(ExprPtr input);
  ExprPtr parse_filter_chain();  // parses a filter block's name|name...
  ExprPtr parse_test(ExprPtr input);
  std::unique_ptr<CallArguments> parse_arguments();

  // These make nodes, which know how deep they are.
  ExprPtr make(Op op, int line) const;
  void adopt(Expr& parent, ExprPtr child) const;
  void give_arguments(Expr& call, std::unique_ptr<CallArguments> arguments) const;
  void deepen(Expr& parent, const ExprPtr& child) const;
  ExprPtr unary(Op op, int line, ExprPtr a) const;
  ExprPtr binary(Op op, int line, ExprPtr a, ExprPtr b) const;

  // These read tokens.
  const Token& peek(size_t ahead = 0) const;
  const Token& next();
  bool at_operator(std::string_view text) const;
  bool at_name(std::string_view text) const;
  bool skip_operator(std::string_view text);
  bool skip_name(std::string_view text);
  void expect_operator(std::string_view text);
  void expect_name(std::string_view text);
  std::string expect_any_name(const char* what);
  void expect_block_end();
  bool at_tuple_end(std::string_view end_name) const;
  std::string describe(const Token& token) const;
  [[noreturn]] void fail(const std::string& what) const;
  int line() const { return peek().line; }
  int symbol(const std::string& name);

  class Nest;
  friend class Nest;

  std::vector<Token> tokens_;
  size_t position_ = 0;
  int depth_ = 0;
  int n_loops_ = 0;     // counts loops around the current statement
  int n_branches_ = 0;  // counts branches before and around the current statement
  std::unordered_map<std::string, int> symbol_of_;
  Template template_;
};

// Counts how deep the parser is nested, and fails before the stack is at risk.
class Parser::Nest {
 public:
  explicit Nest(Parser& parser);
  ~Nest() { --parser_.depth_; }

 private:
  Parser& parser_;
};

}  // namespace troika::jinja
