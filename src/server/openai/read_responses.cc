#include "server/openai/read_responses.h"

#include <fmt/format.h>

#include <string>

#include "base/os_error.h"
#include "server/writer.h"

namespace troika::server {
namespace {

void read_message_item(Fields& item, const std::string& where, Json* messages) {
  std::string role = item.text("role");
  if (role == "developer") role = "system";
  if (role != "system" && role != "user" && role != "assistant") {
    item.fail("role", "must be system, developer, user or assistant");
  }
  const Json* const content = item.find("content");
  if (content == nullptr) item.fail("content", "is missing");
  messages->push_back({{"role", role}, {"content", text_of_parts(*content, where + ".content")}});
}

// Adds a call to the messages. Calls that follow each other belong to one message.
void read_call_item(Fields& item, Json* messages, size_t* n_compared) {
  const Json call = {{"id", item.text("call_id")},
                     {"type", "function"},
                     {"function",
                      {{"name", item.text("name")},
                       {"arguments", arguments_from(item.text("arguments"), n_compared)}}}};
  const bool continues = !messages->empty() && messages->back()["role"] == "assistant";
  if (!continues) messages->push_back({{"role", "assistant"}, {"content", ""}});
  messages->back()["tool_calls"].push_back(call);
}

void read_output(Fields& item, const std::string& where, Json* messages) {
  const Json* const output = item.find("output");
  if (output == nullptr) item.fail("output", "is missing");
  messages->push_back({{"role", "tool"},
                       {"tool_call_id", item.text("call_id")},
                       {"content", text_of_parts(*output, where + ".output")}});
}

void read_item(const Json& given, const std::string& where, Json* messages, size_t* n_compared) {
  Fields item(given, where + ".");
  const std::string type = item.text("type", "message");
  for (const char* const remark : {"id", "status", "phase", "namespace"}) item.ignore(remark);
  if (type == "message") {
    read_message_item(item, where, messages);
  } else if (type == "function_call") {
    read_call_item(item, messages, n_compared);
  } else if (type == "function_call_output") {
    read_output(item, where, messages);
  } else if (type == "reasoning") {
    return;  // models do not want to read their old thoughts
  } else {
    throw Refused(400,
                  fmt::format("{} is an item of the type {}, which this server does not read: it "
                              "knows message, function_call, function_call_output and reasoning.",
                              where, troika::quoted(type)),
                  where, "unsupported");
  }
  item.finish_but_empty();
}

void read_functions(Fields& fields, Conversation* conversation) {
  const Json* const tools = fields.find("tools");
  if (tools == nullptr) return;
  if (!tools->is_array()) fields.fail("tools", "must be a list");
  for (size_t i = 0; i < tools->size(); ++i) {
    Fields tool((*tools)[i], fmt::format("tools[{}].", i));
    if (const std::string type = tool.text("type"); type != "function") {
      tool.fail("type",
                fmt::format("is {}; this server knows functions only", troika::quoted(type)));
    }
    const std::string name = tool.text("name");
    if (name.empty()) tool.fail("name", "is missing");
    tool.text("description");  // throws if it is there and no text
    const Json* const parameters = tool.find("parameters");
    Json schema = arguments_schema(parameters != nullptr ? *parameters : Json(true),
                                   fmt::format("tools[{}].parameters", i));
    tool.ignore("strict");
    tool.finish();
    Json function = (*tools)[i];
    function.erase("type");
    conversation->tools.push_back(
        {name, std::move(schema), shown_tool({{"type", "function"}, {"function", function}})});
  }
}

// Reads {"type": "function", "name"} and returns the name.
std::string chosen_function(const Json& given, const std::string& where) {
  Fields chosen(given, where + ".");
  if (const std::string type = chosen.text("type"); type != "function") {
    chosen.fail("type",
                fmt::format("is {}; it must be function: this server has no tools of its own",
                            troika::quoted(type)));
  }
  const std::string name = chosen.text("name");
  chosen.finish();
  return name;
}

}  // namespace

Conversation read_responses(Fields& fields) {
  Conversation conversation;
  if (const std::string text = fields.text("instructions"); !text.empty()) {
    conversation.messages.push_back({{"role", "system"}, {"content", text}});
  }
  const Json* const input = fields.find("input");
  if (input == nullptr || (!input->is_string() && !input->is_array()) || input->empty()) {
    fields.fail("input", "must be a text or a list of items, and not empty");
  }
  if (input->is_string()) {
    conversation.messages.push_back({{"role", "user"}, {"content", *input}});
  } else {
    size_t n_compared = 0;
    for (size_t i = 0; i < input->size(); ++i) {
      read_item((*input)[i], fmt::format("input[{}]", i), &conversation.messages, &n_compared);
    }
  }
  conversation.take_beginning();
  read_functions(fields, &conversation);
  read_tool_choice(fields, chosen_function, &conversation.tools, &conversation.choice);
  if (const Json* const given = fields.find("reasoning"); given != nullptr) {
    Fields reasoning(*given, "reasoning.");
    const std::string effort = reasoning.text("effort");
    if (!effort.empty()) conversation.extra["reasoning_effort"] = effort;
    if (effort == "none") conversation.extra["enable_thinking"] = false;
    reasoning.ignore("summary");
    reasoning.ignore("generate_summary");
    reasoning.finish();
  }
  return conversation;
}

std::optional<AnswerForm> read_text_form(Fields& fields) {
  const Json* const given = fields.find("text");
  if (given == nullptr) return std::nullopt;
  Fields text(*given, "text.");
  text.ignore("verbosity");
  const Json* const format = text.find("format");
  text.finish();
  if (format == nullptr) return std::nullopt;
  const Json wrapped = {{"response_format", *format}};
  Fields as_chat(wrapped, "text.");
  return read_form(as_chat);
}

}  // namespace troika::server
