#include "server/calls/turn.h"

#include <fmt/format.h>

#include "grammar/readers.h"
#include "server/calls/answer_readers.h"
#include "server/calls/channels.h"
#include "server/calls/pairs.h"
#include "server/calls/variables.h"
#include "server/writer.h"

namespace troika::server {
namespace {

using grammar::Expr;
using grammar::Pool;

// A conversation as the template is given it: its tools stand where the template wants them.
struct Rendering {
  Json messages, tools, extra;
  bool adds_prompt;
  engine::TemplateInput view() const {
    return {.messages = messages,
            .tools = tools.is_null() ? nullptr : &tools,
            .extra = &extra,
            .adds_prompt = adds_prompt};
  }
};

// Describes tools in words, for templates that know no tools.
std::string tools_text(const Json& tools, const CallShape& shape) {
  std::string text = "You may call these functions, each given as JSON:\n";
  for (const Json& tool : tools) text += dump(tool["function"]) + "\n";
  return text + "\nTo call one, answer with its name and arguments in this form:\n" + shape.before +
         "NAME" + shape.middle + "{ARGUMENTS}" + shape.after;
}

std::string call_text(const Json& calls, const CallShape& shape) {
  std::string text;
  for (const Json& call : calls) {
    const Json& arguments = call["function"]["arguments"];
    text += (text.empty() ? shape.before : shape.between) +
            call["function"]["name"].get<std::string>() + shape.middle +
            (arguments.is_string() ? arguments.get<std::string>() : dump(arguments));
  }
  return text + shape.after;
}

std::string result_text(const Json& message) {
  return fmt::format("<tool_response>\n{}\n</tool_response>",
                     message["content"].get<std::string>());
}

// Returns calls and their results as plain messages. Results that follow each other, and what the
// user says behind them, are one message, as many templates want user and assistant in turn.
Json without_calls(const Json& messages, const CallShape& shape) {
  Json plain = Json::array();
  bool is_behind_result = false;
  for (const Json& message : messages) {
    const bool is_result = message["role"] == "tool";
    const std::string content =
        is_result ? result_text(message) : message["content"].get<std::string>();
    if (is_behind_result && (is_result || message["role"] == "user")) {
      // Results are appended in place, because a request may have very many of them.
      plain.back()["content"].get_ref<std::string&>().append("\n").append(content);
    } else {
      plain.push_back({{"role", is_result ? Json("user") : message["role"]}, {"content", content}});
    }
    if (message.contains("tool_calls")) {
      plain.back()["content"] = content + call_text(message["tool_calls"], shape);
    }
    is_behind_result = is_result;
  }
  return plain;
}

// Returns messages for templates that know no tools: the tools are described in the system message,
// or in the first message of the user where the template takes no system message.
Json plain_messages(const Json& messages, const Json& tools, const CallShape& shape) {
  Json plain = without_calls(messages, shape);
  if (tools.is_null()) return plain;
  const std::string text = tools_text(tools, shape);
  // There is no message where the client gives the answer's beginning alone.
  const std::string first = plain.empty() ? "" : plain[0]["role"].get<std::string>();
  if (first == "system") {
    plain[0]["content"] = plain[0]["content"].get<std::string>() + "\n\n" + text;
  } else if (shape.takes_system) {
    plain.insert(plain.begin(), Json{{"role", "system"}, {"content", text}});
  } else if (first == "user") {
    plain[0]["content"] = text + "\n\n" + plain[0]["content"].get<std::string>();
  } else {
    plain.insert(plain.begin(), Json{{"role", "user"}, {"content", text}});
  }
  return plain;
}

// Adds missing descriptions, as some templates show no tool, or no property, without one.
Json described(Json tools) {
  for (Json& tool : tools) {
    Json& function = tool["function"];
    if (!function.contains("description")) function["description"] = "";
    Json& parameters = function["parameters"];
    if (!parameters.is_object() || !parameters.contains("properties")) continue;
    for (Json& property : parameters["properties"]) {
      if (property.is_object() && !property.contains("description")) property["description"] = "";
    }
  }
  return tools;
}

// Returns the template's variables, with the tools as a text, which some templates want.
Json extra_of(const Context& context, const Conversation& conversation, const Json& tools) {
  Json extra = conversation.extra;
  check_variables(extra, context.control_tokens());
  if (extra.contains("functions")) return extra;
  Json functions = Json::array();
  for (const Json& tool : tools) functions.push_back(tool["function"]);
  extra["functions"] = functions.empty() ? "" : functions_text(functions, context.control_tokens());
  return extra;
}

bool may_call(const Conversation& conversation) {
  return conversation.choice.mode != ToolChoice::Mode::kNone && !conversation.tools.empty();
}

const ChatStyle& style_of(const Context& context, const Conversation& conversation) {
  return context.chat(may_call(conversation));
}

Rendering rendering_of(const Context& context, const Conversation& conversation) {
  const CallShape& shape = style_of(context, conversation).calls;
  const bool has_tools = may_call(conversation);
  Json tools = has_tools ? conversation.tools_json() : Json(nullptr);
  if (has_tools && shape.wants_descriptions) tools = described(std::move(tools));
  Json extra = extra_of(context, conversation, tools);
  if (!context.options().thinks) extra["enable_thinking"] = false;
  const bool adds = conversation.adds_prompt;
  if (shape.is_of_template) return {conversation.messages, tools, extra, adds};
  return {plain_messages(conversation.messages, tools, shape), nullptr, extra, adds};
}

Expr text_without(Pool* pool, const std::string& mark) {
  const Expr all = pool->no(Pool::kNone);
  return pool->no(pool->concat(all, pool->literal(mark, all)));
}

Expr arguments_expr(Pool* pool, const Tool& tool, const CallShape& shape) {
  if (shape.pairs) return pairs_expr(pool, tool.parameters, *shape.pairs);
  const grammar::Limits limits;
  const std::string schema = dump(tool.parameters);
  if (shape.text_mark.empty()) return grammar::read_json_schema(schema, limits, true, pool);
  return grammar::read_marked_schema(schema, {shape.text_mark, shape.text_mark}, limits, pool);
}

// Returns one call, from the tool's name on.
Expr call(Pool* pool, const Conversation& conversation, const CallShape& shape) {
  std::vector<Expr> calls;
  const grammar::Limits limits;
  for (const Tool& tool : conversation.tools) {
    const std::string& only = conversation.choice.name;
    if (!only.empty() && tool.name != only) continue;
    Expr arguments = arguments_expr(pool, tool, shape);
    if (!shape.behind_count.empty()) {
      arguments = pool->concat(grammar::read_regex("[0-9]{1,4}", limits, pool),
                               pool->literal(shape.behind_count, arguments));
    }
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

Expr form_expr(Pool* pool, const AnswerForm& form) {
  const grammar::Limits limits;
  switch (form.format) {
    case grammar::Format::kJsonSchema:
      return grammar::read_json_schema(form.text, limits, true, pool);
    case grammar::Format::kGbnf:
      return grammar::read_gbnf(form.text, limits, pool);
    case grammar::Format::kRegex:
      return grammar::read_regex(form.text, limits, pool);
  }
  return Pool::kNone;
}

// Returns what an answer in channels may be. `shape` is null if there are no calls.
Expr answer_in_channels(Pool* pool, const Conversation& conversation,
                        const std::optional<AnswerForm>& form, const CallShape* shape) {
  Expr words = form ? form_expr(pool, *form) : text_without(pool, "<|end|>");
  if (!conversation.beginning.empty()) return words;
  if (shape == nullptr) return channels_expr(pool, words, {});
  const ToolChoice& choice = conversation.choice;
  std::vector<ChannelCall> calls;
  for (const Tool& tool : conversation.tools) {
    if (!choice.name.empty() && tool.name != choice.name) continue;
    calls.push_back({tool.name, arguments_expr(pool, tool, *shape)});
  }
  if (choice.mode == ToolChoice::Mode::kRequired) words = Pool::kNone;
  return channels_expr(pool, words, calls);
}

// Says whether an answer begins with thoughts.
enum class Thinking : uint8_t {
  kNever,     // none are wanted, or the client has begun what comes behind them
  kMayBegin,  // the model may begin some
  kHasBegun,  // the prompt ends within them
};

// Puts thoughts in front of the rest. White space in front of it must not lead to thoughts alone:
// whoever forbids it behind a token of white space forces the model to think.
Expr behind_thoughts(Pool* pool, const ThoughtMarks& marks, Thinking thinking, Expr rest) {
  if (marks.close.empty() || thinking == Thinking::kNever) return rest;
  grammar::ByteSet spaces;
  for (const char c : {' ', '\n'}) spaces.add(static_cast<uint8_t>(c));
  constexpr int kMostSpaces = 4;
  const Expr space = pool->repeat(pool->bytes(spaces), 0, kMostSpaces);
  const Expr behind = pool->concat(text_without(pool, marks.close),
                                   pool->literal(marks.close, pool->concat(space, rest)));
  if (thinking == Thinking::kHasBegun) return behind;
  return pool->concat(space, pool->any(rest, pool->literal(marks.open, behind)));
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
       {shape.before, shape.behind_id, shape.middle, shape.between, shape.after, shape.text_mark,
        shape.behind_count, pairs.open, pairs.to_text, pairs.to_json, pairs.close, marks.open,
        marks.close}) {
    for (const text::Token token :
         tokenizer.encode(part, {.add_special = false, .parse_special = true})) {
      if (tokenizer.is_control(token)) return true;
    }
  }
  return false;
}

std::string key_of(const Conversation& conversation, const std::optional<AnswerForm>& form,
                   Thinking thinking) {
  const ToolChoice& c = conversation.choice;
  return dump(Json{{"tools", conversation.tools_json()},
                   {"mode", static_cast<int>(c.mode)},
                   {"name", c.name},
                   {"parallel", c.is_parallel},
                   {"format", form ? static_cast<int>(form->format) : -1},
                   {"text", form ? form->text : ""},
                   {"thinks", static_cast<int>(thinking)},
                   {"begun", !conversation.beginning.empty()}});
}

}  // namespace

Expr answer_expr(Pool* pool, const Conversation& conversation,
                 const std::optional<AnswerForm>& form, const CallShape* shape) {
  const Expr text = form ? form_expr(pool, *form) : pool->no(Pool::kNone);
  if (shape == nullptr) return text;
  const std::string trigger = shape->trigger();
  const Expr called = calls(pool, conversation, *shape);
  if (conversation.choice.mode == ToolChoice::Mode::kRequired) {
    return pool->literal(trigger, called);
  }
  if (form) return pool->any(text, pool->literal(trigger, called));
  return pool->concat(text_without(pool, shape->mark()),
                      pool->optional(pool->literal(trigger, called)));
}

namespace {

// Checks texts, calls and tools alone before the template sees them. A template may leave some of
// them out, so those that no long conversation has are looked at, and no others. Thoughts do not
// count: most templates leave them out.
void check_contents(const Conversation& conversation, const std::function<void(size_t)>& check) {
  size_t n_bytes = conversation.beginning.size();
  for (const Json& message : conversation.messages) {
    n_bytes += text_bytes(message["content"]);
    if (const auto calls = message.find("tool_calls"); calls != message.end()) {
      n_bytes += text_bytes(*calls);
    }
  }
  for (const Tool& tool : conversation.tools) n_bytes += text_bytes(tool.shown);
  if (n_bytes > kMostCountedBytes) check(n_bytes);
}

bool wants_no_thoughts(const Rendering& rendering) {
  const auto thinks = rendering.extra.find("enable_thinking");
  return thinks != rendering.extra.end() && *thinks == false;
}

// Returns what must stand between the template's prompt and the client's own beginning of the
// answer: the header of words, or the end of a thought that the template begins, though none is
// wanted or the client has begun what comes behind thoughts. A beginning may end the thought
// itself.
std::string bridge_of(const ChatStyle& style, const Conversation& conversation,
                      const Rendering& rendering, const std::string& prompt) {
  const ThoughtMarks& marks = style.thoughts;
  const std::string& beginning = conversation.beginning;
  if ((wants_no_thoughts(rendering) || !beginning.empty()) && rendering.adds_prompt &&
      ends_with_open_thought(prompt, marks) && beginning.find(marks.close) == std::string::npos) {
    return marks.close;
  }
  return !beginning.empty() && style.has_channels ? words_header() : "";
}

// Returns the grammar of a turn. Its key holds all that the grammar depends on, so equal turns
// share one grammar.
std::shared_ptr<grammar::Grammar> grammar_of(Context& context, const Conversation& conversation,
                                             const std::optional<AnswerForm>& form, bool has_calls,
                                             Thinking thinking, bool has_control) {
  // The style lives as long as the server.
  const auto build = [conversation, form, thinking, has_calls,
                      &style = style_of(context, conversation)](Pool* pool) {
    const CallShape* const shape = has_calls ? &style.calls : nullptr;
    if (style.has_channels) return answer_in_channels(pool, conversation, form, shape);
    return behind_thoughts(pool, style.thoughts, thinking,
                           answer_expr(pool, conversation, form, shape));
  };
  return context.grammars().find(key_of(conversation, form, thinking), has_control,
                                 [build](auto tokens, const grammar::Limits& limits) {
                                   return grammar::compile(build, std::move(tokens), limits);
                                 });
}

std::unique_ptr<Reader> reader_of_calls(const CallShape& shape, const std::vector<Tool>& tools) {
  return std::make_unique<CallReader>(shape,
                                      [tools](const std::string& name, const std::string& key) {
                                        for (const Tool& tool : tools) {
                                          if (tool.name == name)
                                            return kinds_of_property(tool.parameters, key);
                                        }
                                        return ValueKinds{};
                                      });
}

// A turn's prompt before it becomes tokens.
struct WrittenPrompt {
  std::string marked;  // what the template writes, with marks around what messages spell
  std::string bridge{};
  std::string text{};  // all of the prompt, without marks
  Thinking thinking = Thinking::kMayBegin;
};

// Asks the template once: on it goes most of the time that reading a long conversation takes.
WrittenPrompt write_prompt(const Context& context, const Conversation& conversation,
                           const std::function<void(size_t)>& check) {
  context.check_messages(conversation.messages.size());
  check_contents(conversation, check);
  const ChatStyle& style = style_of(context, conversation);
  const Rendering rendering = rendering_of(context, conversation);
  WrittenPrompt prompt{.marked = style.format.marked_text(rendering.view())};
  prompt.text = engine::ChatFormat::plain_text(prompt.marked);
  prompt.bridge = bridge_of(style, conversation, rendering, prompt.text);
  prompt.text += prompt.bridge + conversation.beginning;
  if (ends_with_open_thought(prompt.text, style.thoughts)) {
    prompt.thinking = Thinking::kHasBegun;
  } else if (wants_no_thoughts(rendering) || !conversation.beginning.empty()) {
    prompt.thinking = Thinking::kNever;
  }
  check(prompt.text.size());
  return prompt;
}

std::vector<engine::Token> tokens_of(const Context& context, const Conversation& conversation,
                                     const WrittenPrompt& prompt) {
  const engine::ChatFormat::TextPart behind[] = {
      {.text = prompt.bridge, .parse_special = true},
      {.text = conversation.beginning, .parse_special = false}};
  return style_of(context, conversation).format.tokens_of(prompt.marked, behind);
}

}  // namespace

std::vector<engine::Token> prompt_of(const Context& context, const Conversation& conversation,
                                     const std::function<void(size_t)>& check) {
  return tokens_of(context, conversation, write_prompt(context, conversation, check));
}

std::string prompt_text_of(const Context& context, const Conversation& conversation) {
  return write_prompt(context, conversation, Context::check_counted).text;
}

Answers::MakeReader prepare_turn(Context& context, const Conversation& conversation,
                                 const std::optional<AnswerForm>& form, Wanted* wanted) {
  const ChatStyle& style = style_of(context, conversation);
  const CallShape& shape = style.calls;
  const WrittenPrompt prompt =
      write_prompt(context, conversation, [&](size_t n_bytes) { context.check_bytes(n_bytes); });
  wanted->prompts = {tokens_of(context, conversation, prompt)};
  context.check_lengths(*wanted);
  const bool has_calls = may_call(conversation);
  const ThoughtMarks& marks = style.thoughts;
  const bool is_thinking = prompt.thinking == Thinking::kHasBegun;
  const bool in_channels = style.has_channels;
  const bool is_marked = has_calls || !marks.close.empty();
  wanted->shows_control =
      in_channels ||
      (is_marked && has_control(context.tokenizer(), has_calls ? shape : CallShape{}, marks));
  if (has_calls || form) {
    wanted->grammar =
        grammar_of(context, conversation, form, has_calls, prompt.thinking, wanted->shows_control);
  }
  return [shape, marks, is_thinking, has_calls, in_channels, tools = conversation.tools,
          is_begun = !conversation.beginning.empty()]() -> std::unique_ptr<Reader> {
    if (in_channels) return std::make_unique<ChannelReader>(has_calls, is_begun);
    std::unique_ptr<Reader> reader = std::make_unique<PlainReader>();
    if (has_calls) reader = reader_of_calls(shape, tools);
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
