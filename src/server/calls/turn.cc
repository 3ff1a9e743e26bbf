#include "server/calls/turn.h"

#include <fmt/format.h>

#include "grammar/readers.h"
#include "server/calls/answer_readers.h"
#include "server/calls/pairs.h"
#include "server/writer.h"

namespace troika::server {
namespace {

using grammar::Expr;
using grammar::Pool;

// What a conversation becomes before it is rendered: with tools where the template wants them.
struct Rendering {
  Json messages, tools;
  const Conversation* conversation;
  engine::Conversation view() const {
    return {.messages = messages,
            .tools = tools.is_null() ? nullptr : &tools,
            .extra = &conversation->extra,
            .adds_prompt = conversation->adds_prompt};
  }
};

// Tools in words, for templates that know none.
std::string tools_text(const Json& tools, const CallShape& shape) {
  std::string text = "You may call these functions, each given as JSON:\n";
  for (const Json& tool : tools) text += dump(tool["function"]) + "\n";
  return text + "\nTo call one, answer with its name and arguments in this form:\n" + shape.before +
         "NAME" + shape.middle + "{ARGUMENTS}" + shape.after;
}

std::string call_text(const Json& calls, const CallShape& shape) {
  std::string text;
  for (const Json& call : calls) {
    text += (text.empty() ? shape.before : shape.between) +
            call["function"]["name"].get<std::string>() + shape.middle +
            dump(call["function"]["arguments"]);
  }
  return text + shape.after;
}

// Calls and their results as plain messages, and the tools in front of all.
Json plain_messages(const Json& messages, const Json& tools, const CallShape& shape) {
  Json plain = Json::array();
  for (const Json& message : messages) {
    Json one = {{"role", message["role"]}, {"content", message["content"]}};
    if (message.contains("tool_calls")) {
      one["content"] =
          message["content"].get<std::string>() + call_text(message["tool_calls"], shape);
    }
    if (message["role"] == "tool") {
      one = {{"role", "user"},
             {"content", fmt::format("<tool_response>\n{}\n</tool_response>",
                                     message["content"].get<std::string>())}};
    }
    plain.push_back(one);
  }
  if (tools.is_null()) return plain;
  const std::string text = tools_text(tools, shape);
  if (plain[0]["role"] == "system") {
    plain[0]["content"] = plain[0]["content"].get<std::string>() + "\n\n" + text;
  } else {
    plain.insert(plain.begin(), Json{{"role", "system"}, {"content", text}});
  }
  return plain;
}

Rendering rendering_of(const Conversation& conversation, const CallShape& shape) {
  const bool has_tools = conversation.choice.mode != ToolChoice::Mode::kNone;
  const Json tools = has_tools ? conversation.tools_json() : Json(nullptr);
  if (shape.is_of_template) return {conversation.messages, tools, &conversation};
  return {plain_messages(conversation.messages, tools, shape), nullptr, &conversation};
}

Expr text_without(Pool* pool, const std::string& mark) {
  const Expr all = pool->no(Pool::kNone);
  return pool->no(pool->concat(all, pool->literal(mark, all)));
}

// One call behind what stands before its name.
Expr call(Pool* pool, const Conversation& conversation, const CallShape& shape) {
  std::vector<Expr> calls;
  const grammar::Limits limits;
  for (const Tool& tool : conversation.tools) {
    const std::string& only = conversation.choice.name;
    if (!only.empty() && tool.name != only) continue;
    const Expr arguments =
        shape.pairs ? pairs_expr(pool, tool.parameters, *shape.pairs)
                    : grammar::read_json_schema(dump(tool.parameters), limits, true, pool);
    calls.push_back(pool->literal(tool.name + shape.middle, arguments));
  }
  const Expr named = pool->any(calls);
  if (shape.behind_id.empty()) return named;
  return pool->concat(grammar::read_regex("[A-Za-z0-9]{1,24}", limits, pool),
                      pool->literal(shape.behind_id, named));
}

Expr calls(Pool* pool, const Conversation& conversation, const CallShape& shape) {
  const Expr one = call(pool, conversation, shape);
  Expr all = one;
  if (conversation.choice.is_parallel && !shape.between.empty()) {
    all = pool->concat(one, pool->star(pool->literal(shape.between, one)));
  }
  return pool->concat(all, pool->literal(shape.after));
}

// What an answer may be, behind its thoughts.
Expr answer(Pool* pool, const Conversation& conversation, const std::optional<AnswerForm>& form,
            const CallShape* shape) {
  Expr text = pool->no(Pool::kNone);
  const grammar::Limits limits;
  if (form && form->format == grammar::Format::kJsonSchema) {
    text = grammar::read_json_schema(form->text, limits, true, pool);
  } else if (form && form->format == grammar::Format::kGbnf) {
    text = grammar::read_gbnf(form->text, limits, pool);
  } else if (form) {
    text = grammar::read_regex(form->text, limits, pool);
  }
  if (shape == nullptr) return text;
  const std::string trigger = shape->trigger();
  const Expr called = calls(pool, conversation, *shape);
  if (conversation.choice.mode == ToolChoice::Mode::kRequired) {
    return pool->literal(trigger, called);
  }
  if (form) return pool->any(text, pool->literal(trigger, called));
  return pool->concat(text_without(pool, trigger), pool->optional(pool->literal(trigger, called)));
}

// Thoughts may come first, and must where the prompt has begun them.
Expr behind_thoughts(Pool* pool, const ThoughtMarks& marks, bool is_thinking, Expr rest) {
  if (marks.close.empty()) return rest;
  grammar::ByteSet spaces;
  for (const char c : {' ', '\n'}) spaces.add(static_cast<uint8_t>(c));
  constexpr int kMostSpaces = 4;
  const Expr space = pool->repeat(pool->bytes(spaces), 0, kMostSpaces);
  const Expr behind = pool->concat(text_without(pool, marks.close),
                                   pool->literal(marks.close, pool->concat(space, rest)));
  if (is_thinking) return behind;
  return pool->any(rest, pool->concat(space, pool->literal(marks.open, behind)));
}

bool ends_with_open_thought(const std::string& prompt, const ThoughtMarks& marks) {
  if (marks.open.empty()) return false;
  const size_t last = prompt.find_last_not_of(" \n");
  return last != std::string::npos &&
         std::string_view(prompt).substr(0, last + 1).ends_with(marks.open);
}

bool has_control(const text::Tokenizer& tokenizer, const CallShape& shape,
                 const ThoughtMarks& marks) {
  const CallShape::Pairs pairs = shape.pairs.value_or(CallShape::Pairs());
  for (const std::string& part :
       {shape.before, shape.behind_id, shape.middle, shape.between, shape.after, pairs.open,
        pairs.to_text, pairs.to_json, pairs.close, marks.open, marks.close}) {
    for (const text::Token token : tokenizer.encode(part, {false, true})) {
      if (tokenizer.is_control(token)) return true;
    }
  }
  return false;
}

std::string key_of(const Conversation& conversation, const std::optional<AnswerForm>& form,
                   bool is_thinking) {
  const ToolChoice& c = conversation.choice;
  return dump(Json{{"tools", conversation.tools_json()},
                   {"mode", static_cast<int>(c.mode)},
                   {"name", c.name},
                   {"parallel", c.is_parallel},
                   {"format", form ? static_cast<int>(form->format) : -1},
                   {"text", form ? form->text : ""},
                   {"thinks", is_thinking}});
}

}  // namespace

std::vector<engine::Token> prompt_of(Context& context, const Conversation& conversation) {
  std::vector<engine::Token> prompt =
      context.chat().prompt(rendering_of(conversation, context.call_shape()).view());
  const std::vector<engine::Token> more =
      context.tokenizer().encode(conversation.beginning, {false, false});
  prompt.insert(prompt.end(), more.begin(), more.end());
  return prompt;
}

std::string prompt_text_of(Context& context, const Conversation& conversation) {
  return context.chat().text(rendering_of(conversation, context.call_shape()).view()) +
         conversation.beginning;
}

Answers::MakeReader prepare_turn(Context& context, const Conversation& conversation,
                                 const std::optional<AnswerForm>& form, Wanted* wanted) {
  const CallShape& shape = context.call_shape();
  wanted->prompts = {prompt_of(context, conversation)};
  const bool has_calls =
      !conversation.tools.empty() && conversation.choice.mode != ToolChoice::Mode::kNone;
  const ThoughtMarks& marks = context.thought_marks();
  const bool is_thinking = ends_with_open_thought(prompt_text_of(context, conversation), marks);
  const bool is_marked = has_calls || !marks.close.empty();
  wanted->shows_control =
      is_marked && has_control(context.tokenizer(), has_calls ? shape : CallShape{}, marks);
  if (has_calls || form) {
    const auto build = [&](Pool* pool) {
      return behind_thoughts(pool, marks, is_thinking,
                             answer(pool, conversation, form, has_calls ? &shape : nullptr));
    };
    wanted->grammar = context.grammars().find(
        key_of(conversation, form, is_thinking), wanted->shows_control,
        [&](const auto& tokens) { return grammar::compile(build, tokens); });
  }
  return [shape, marks, is_thinking, has_calls,
          tools = conversation.tools]() -> std::unique_ptr<Reader> {
    std::unique_ptr<Reader> reader = std::make_unique<PlainReader>();
    if (has_calls) {
      reader = std::make_unique<CallReader>(
          shape, [tools](const std::string& name, const std::string& key) {
            for (const Tool& tool : tools) {
              if (tool.name == name) return kinds_of_property(tool.parameters, key);
            }
            return ValueKinds{};
          });
    }
    if (marks.close.empty()) return reader;
    return std::make_unique<ThoughtReader>(marks, is_thinking, std::move(reader));
  };
}

std::optional<AnswerForm> read_form(Fields& fields) {
  std::optional<AnswerForm> form;
  const auto set = [&](const std::string& name, grammar::Format format, const std::string& text) {
    if (form) fields.fail(name, "says what the answer may be, but another field does, too");
    form = AnswerForm{format, text};
  };
  if (const std::string text = fields.text("grammar"); !text.empty()) {
    set("grammar", grammar::Format::kGbnf, text);
  }
  if (const std::string text = fields.text("regex"); !text.empty()) {
    set("regex", grammar::Format::kRegex, text);
  }
  if (const Json* const schema = fields.find("json_schema"); schema != nullptr) {
    set("json_schema", grammar::Format::kJsonSchema, dump(*schema));
  }
  const Json* const given = fields.find("response_format");
  if (given == nullptr) return form;
  Fields format(*given, "response_format.");
  const std::string type = format.text("type");
  const Json* schema = format.find("schema");
  if (const Json* const named = format.find("json_schema"); named != nullptr) {
    Fields inner(*named, "response_format.json_schema.");
    schema = inner.find("schema");
    for (const char* const name : {"name", "strict", "description"}) inner.ignore(name);
    inner.finish();
  }
  for (const char* const name : {"name", "strict", "description"}) format.ignore(name);
  format.finish();
  if (type == "json_object" || type == "json_schema") {
    if (type == "json_schema" && schema == nullptr) {
      fields.fail("response_format", "has no schema");
    }
    set("response_format", grammar::Format::kJsonSchema,
        schema != nullptr ? dump(*schema) : R"({"type": "object"})");
  } else if (type != "text") {
    fields.fail("response_format", "must be of the type text, json_object or json_schema");
  }
  return form;
}

}  // namespace troika::server
