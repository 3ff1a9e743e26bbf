#include <fmt/format.h>

#include <algorithm>

#include "jinja/syntax/parser.h"

namespace troika::jinja {

namespace {
// Limits the branches before and around a statement: the destruction of the tree recurses over
// them.
constexpr int kBranchesAtMost = 300;
}  // namespace

Body Parser::parse_body(std::initializer_list<std::string_view> ends) {
  const Nest nest(*this);
  Body body;
  while (peek().kind != TokenKind::kEnd) {
    const Token& token = peek();
    if (token.kind == TokenKind::kData) {
      auto s = std::make_unique<Stmt>();
      s->line = token.line;
      s->value = Value::constant(next().text);
      body.push_back(std::move(s));
    } else if (token.kind == TokenKind::kVariableBegin) {
      auto s = std::make_unique<Stmt>();
      s->kind = Do::kPrint;
      s->line = next().line;
      s->expr = parse_tuple(true);
      if (peek().kind != TokenKind::kVariableEnd) {
        fail(fmt::format("expected }}}} but found {}", describe(peek())));
      }
      next();
      body.push_back(std::move(s));
    } else {
      next();  // skips {%
      const auto is_here = [&](std::string_view end) { return at_name(end); };
      if (std::any_of(ends.begin(), ends.end(), is_here)) {
        return body;
      }
      body.push_back(parse_statement());
      expect_block_end();
    }
  }
  if (ends.size() > 0) {
    fail(fmt::format("the template ends where {{% {} %}} should follow", *(ends.end() - 1)));
  }
  return body;
}

Body Parser::parse_tag_body(std::initializer_list<std::string_view> ends) {
  skip_operator(":");
  expect_block_end();
  return parse_body(ends);
}

std::unique_ptr<Stmt> Parser::parse_statement() {
  auto s = std::make_unique<Stmt>();
  s->line = line();
  const std::string tag = expect_any_name("the name of a tag");
  if (tag == "set") {
    parse_set(*s);
  } else if (tag == "for") {
    parse_for(*s);
  } else if (tag == "if") {
    parse_if(*s);
  } else if (tag == "macro") {
    parse_macro(*s);
  } else if (tag == "call") {
    parse_call_block(*s);
  } else if (tag == "with") {
    parse_with(*s);
  } else if (tag == "block") {
    parse_block(*s);
  } else if (tag == "generation") {
    s->kind = Do::kScope;
    s->body = parse_tag_body({"endgeneration"});
    next();
  } else if (tag == "filter") {
    s->kind = Do::kFilterBlock;
    s->expr = parse_filter_chain();
    s->body = parse_tag_body({"endfilter"});
    next();
  } else if (tag == "print") {
    s->kind = Do::kPrint;
    s->expr = parse_expression();
  } else if (tag == "do") {
    s->kind = Do::kExpression;
    s->expr = parse_tuple(true);
  } else if (tag == "break" || tag == "continue") {
    if (n_loops_ == 0) {
      fail(fmt::format("{{% {} %}} stands in no loop", tag));
    }
    s->kind = tag == "break" ? Do::kBreak : Do::kContinue;
  } else if (tag == "include" || tag == "import" || tag == "from" || tag == "extends") {
    fail(fmt::format("{{% {} %}} asks for another file, which chat templates cannot have", tag));
  } else {
    fail(fmt::format("unknown tag '{}'", tag));
  }
  return s;
}

void Parser::parse_set(Stmt& s) {
  s.target = parse_target(true);
  if (skip_operator("=")) {
    s.kind = Do::kSet;
    s.expr = parse_tuple(true);
    return;
  }
  s.kind = Do::kSetBlock;
  if (skip_operator("|")) {
    s.expr = parse_filter_chain();
  }
  s.body = parse_tag_body({"endset"});
  next();
}

void Parser::parse_for(Stmt& s) {
  s.kind = Do::kFor;
  s.target = parse_target(false, "in");
  expect_name("in");
  s.expr = parse_tuple(false, "recursive");
  if (skip_name("if")) {
    s.condition = parse_expression();
  }
  s.recursive = skip_name("recursive");
  ++n_loops_;
  s.body = parse_tag_body({"else", "endfor"});
  --n_loops_;
  if (next().text == "else") {
    s.otherwise = parse_tag_body({"endfor"});
    next();
  }
}

void Parser::parse_if(Stmt& s) {
  const int n_branches = n_branches_;
  parse_branches(s);
  n_branches_ = n_branches;
}

void Parser::parse_branches(Stmt& s) {
  s.kind = Do::kIf;
  // Each elif becomes an if in the `otherwise` of the branch before it. This is a loop, since there
  // may be many.
  Stmt* branch = &s;
  while (true) {
    if (++n_branches_ > kBranchesAtMost) {
      fail(fmt::format("more than {} branches of {{% if %}} inside one another", kBranchesAtMost));
    }
    branch->expr = parse_tuple(false);
    branch->body = parse_tag_body({"elif", "else", "endif"});
    const std::string end = next().text;
    if (end == "endif") {
      return;
    }
    if (end == "else") {
      branch->otherwise = parse_tag_body({"endif"});
      next();
      return;
    }
    branch->otherwise.push_back(std::make_unique<Stmt>());
    branch = branch->otherwise.back().get();
    branch->kind = Do::kIf;
    branch->line = line();
  }
}

void Parser::parse_macro(Stmt& s) {
  s.kind = Do::kMacro;
  s.name = expect_any_name("the name of a macro");
  s.symbol = symbol(s.name);
  parse_parameters(s);
  const int n_loops = std::exchange(n_loops_, 0);
  s.body = parse_tag_body({"endmacro"});
  n_loops_ = n_loops;
  next();
}

void Parser::parse_call_block(Stmt& s) {
  s.kind = Do::kCallBlock;
  s.name = "caller";
  if (at_operator("(")) {
    parse_parameters(s);
  }
  s.expr = parse_expression();
  if (s.expr->op != Op::kCall) {
    fail("{% call %} needs the call of a macro");
  }
  const int n_loops = std::exchange(n_loops_, 0);
  s.body = parse_tag_body({"endcall"});
  n_loops_ = n_loops;
  next();
}

void Parser::parse_with(Stmt& s) {
  s.kind = Do::kWith;
  while (peek().kind != TokenKind::kBlockEnd) {
    if (!s.parameters.empty()) {
      expect_operator(",");
    }
    Parameter p;
    p.name = expect_any_name("a name");
    p.symbol = symbol(p.name);
    expect_operator("=");
    p.fallback = parse_expression();
    s.parameters.push_back(std::move(p));
  }
  s.body = parse_tag_body({"endwith"});
  next();
}

void Parser::parse_block(Stmt& s) {
  s.kind = Do::kScope;
  s.name = expect_any_name("the name of a block");
  skip_name("scoped");
  skip_name("required");
  s.body = parse_tag_body({"endblock"});
  next();
  skip_name(s.name);
}

void Parser::parse_parameters(Stmt& s) {
  expect_operator("(");
  while (!at_operator(")")) {
    if (!s.parameters.empty()) {
      expect_operator(",");
    }
    Parameter p;
    p.name = expect_any_name("the name of a parameter");
    p.symbol = symbol(p.name);
    if (skip_operator("=")) {
      p.fallback = parse_expression();
    } else if (!s.parameters.empty() && s.parameters.back().fallback) {
      fail("a parameter without default follows one with a default");
    }
    s.parameters.push_back(std::move(p));
  }
  expect_operator(")");
}

Target Parser::parse_target(bool with_namespace, std::string_view end_name) {
  Target first = parse_one_target(with_namespace);
  if (!at_operator(",")) {
    return first;
  }
  Target tuple;
  tuple.parts.push_back(std::move(first));
  while (skip_operator(",")) {
    if (at_tuple_end(end_name) || at_operator("=")) {
      break;
    }
    tuple.parts.push_back(parse_one_target(with_namespace));
  }
  return tuple;
}

Target Parser::parse_one_target(bool with_namespace) {
  const Nest nest(*this);
  if (skip_operator("(")) {
    Target target = parse_target(with_namespace);
    expect_operator(")");
    return target;
  }
  Target target;
  const std::string name = expect_any_name("a name to assign to");
  constexpr std::string_view kNotVariables[] = {"true", "false", "none", "True", "False", "None"};
  if (std::count(std::begin(kNotVariables), std::end(kNotVariables), name) > 0) {
    fail(fmt::format("'{}' cannot be assigned to", name));
  }
  target.symbol = symbol(name);
  if (with_namespace && skip_operator(".")) {
    target.attribute = Value::constant(expect_any_name("the name of an attribute"));
  }
  return target;
}

}  // namespace troika::jinja
