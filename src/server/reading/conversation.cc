#include "server/reading/conversation.h"

#include <fmt/format.h>

#include <algorithm>
#include <ctime>

#include "base/os_error.h"

namespace troika::server {
namespace {

// Clients send parts of earlier answers back with what their libraries, and other servers, know
// about them. None of it changes the text.
constexpr const char* kRemarksOnText[] = {"cache_control", "annotations",   "logprobs", "citations",
                                          "parsed",        "parsed_output", "id",       "index",
                                          "extras",        "extra_content"};

[[noreturn]] void fail(const std::string& where, const std::string& problem) {
  throw Refused(400, fmt::format("The field {} {}.", troika::quoted(where), problem), where);
}

// Throws Refused unless the type is missing, or that of functions, which alone this server knows.
void check_is_function(Fields& fields) {
  const std::string type = fields.text("type", "function");
  if (type == "function" || type.empty()) return;
  fields.fail("type", fmt::format("is {}; this server knows functions only", troika::quoted(type)));
}

// Reads {"id", "type", "function": {"name", "arguments"}}. Clients send the arguments as a text,
// but templates want them as JSON.
Json read_call(const Json& call, const std::string& where, size_t* n_compared) {
  Fields fields(call, where + ".");
  check_is_function(fields);
  const Json* const function = fields.find("function");
  if (function == nullptr) fail(where + ".function", "is missing");
  Fields parts(*function, where + ".function.");
  const std::string name = parts.text("name");
  const Json* const given = parts.find("arguments");
  Json arguments = given == nullptr ? Json::object() : *given;
  if (arguments.is_string()) {
    arguments = arguments_from(arguments.get<std::string>(), n_compared);
  } else if (!arguments.is_object()) {
    parts.fail("arguments", "must be the text of a JSON object, or an object");
  }
  if (name.empty()) fail(where + ".function.name", "is missing");
  parts.ignore("parsed_arguments");  // OpenAI's library keeps the arguments in both forms
  Json read = {{"id", fields.text("id")},
               {"type", "function"},
               {"function", {{"name", name}, {"arguments", arguments}}}};
  // A call that was gathered from a stream has its number, and other servers mark calls, or the
  // functions in them, for their own use.
  for (const char* const remark :
       {"index", "cache_control", "extra_content", "provider_specific_fields"}) {
    fields.ignore(remark);
    parts.ignore(remark);
  }
  parts.finish_but_empty();
  fields.finish_but_empty();
  return read;
}

Json read_message(const Json& given, const std::string& where, size_t* n_compared) {
  Fields fields(given, where + ".");
  Json message;
  std::string role = fields.text("role");
  static constexpr const char* kRoles[] = {"system",    "developer", "user",
                                           "assistant", "tool",      "function"};
  if (std::find(std::begin(kRoles), std::end(kRoles), role) == std::end(kRoles)) {
    fail(where + ".role", "must be system, developer, user, assistant or tool");
  }
  message["role"] = role == "developer" ? "system" : role == "function" ? "tool" : role;
  const Json* const content = fields.find("content");
  const Json* const calls = fields.find("tool_calls");
  if (content == nullptr && role != "assistant") fail(where + ".content", "is missing");
  message["content"] = content == nullptr ? "" : text_of_parts(*content, where + ".content");
  if (calls != nullptr) {
    if (!calls->is_array()) fail(where + ".tool_calls", "must be a list");
    Json list = Json::array();
    for (size_t i = 0; i < calls->size(); ++i) {
      list.push_back(
          read_call((*calls)[i], fmt::format("{}.tool_calls[{}]", where, i), n_compared));
    }
    if (!list.empty()) message["tool_calls"] = list;
  }
  for (const char* const name : {"tool_call_id", "name", "reasoning_content"}) {
    if (const std::string text = fields.text(name); !text.empty()) message[name] = text;
  }
  name_thoughts(&message);
  for (const char* const name : {"refusal", "annotations", "audio", "function_call"}) {
    fields.refuse(name, "this server answers in text and calls");
  }
  fields.ignore("parsed");  // OpenAI's library keeps the text in both forms
  fields.finish_but_empty();
  return message;
}

void read_tools(Fields& fields, Conversation* conversation) {
  const Json* const tools = fields.find("tools");
  if (tools == nullptr) return;
  if (!tools->is_array()) fields.fail("tools", "must be a list");
  for (size_t i = 0; i < tools->size(); ++i) {
    const std::string where = fmt::format("tools[{}]", i);
    Fields tool((*tools)[i], where + ".");
    check_is_function(tool);
    const Json* const given = tool.find("function");
    if (given == nullptr) tool.fail("function", "is missing");
    Fields function(*given, where + ".function.");
    const std::string name = function.text("name");
    if (name.empty()) function.fail("name", "is missing");
    function.text("description");  // throws if it is there and no text
    const Json* const parameters = function.find("parameters");
    Json schema = parameters != nullptr
                      ? arguments_schema(*parameters, where + ".function.parameters")
                      : Json{{"type", "object"}, {"properties", Json::object()}};
    function.ignore("strict");  // arguments always fit the schema
    function.finish();
    tool.finish();
    conversation->tools.push_back({name, std::move(schema), shown_tool((*tools)[i])});
  }
}

// Reads {"type": "function", "function": {"name"}} and returns the name.
std::string named_function(const Json& given, const std::string& where) {
  Fields object(given, where + ".");
  check_is_function(object);
  const Json* const function = object.find("function");
  if (function == nullptr) object.fail("function", "is missing");
  Fields chosen(*function, where + ".function.");
  const std::string name = chosen.text("name");
  chosen.finish_but_empty();
  object.finish_but_empty();
  return name;
}

}  // namespace

Json arguments_schema(const Json& given, const std::string& where) {
  Json schema = {{"type", "object"}};
  if (given == true) return schema;
  if (!given.is_object()) fail(where, "must be a JSON schema that objects fit");
  const auto type = given.find("type");
  const bool has_object =
      type == given.end() || *type == "object" ||
      (type->is_array() && std::find(type->begin(), type->end(), Json("object")) != type->end());
  if (!has_object) fail(where + ".type", "must be object: the arguments of a call have names");
  for (const auto& [name, value] : given.items()) {
    if (name != "type") schema[name] = value;
  }
  return schema;
}

Json arguments_from(const std::string& text, size_t* n_compared) {
  if (text.empty()) return Json::object();
  try {
    return object_from(text, n_compared);
  } catch (const Refused&) {
    if (*n_compared > kMostCompared) throw;
    return text;
  }
}

void name_thoughts(Json* message) {
  if (message->contains("reasoning_content") && (*message)["content"] == "") {
    (*message)["thinking"] = (*message)["reasoning_content"];
  }
}

std::string text_of_parts(const Json& content, const std::string& where) {
  if (content.is_string()) return content.get<std::string>();
  if (!content.is_array()) fail(where, "must be a string or a list of parts");
  std::string text;
  for (size_t i = 0; i < content.size(); ++i) {
    // What is no object, or has no type, is refused as a part of the type "".
    static const Json kNoPart = Json::object();
    const Json& part = content[i].is_object() ? content[i] : kNoPart;
    Fields fields(part, fmt::format("{}[{}].", where, i));
    const std::string type = fields.text("type");
    const bool is_text = type == "text" || type == "input_text" || type == "output_text";
    if (!is_text || !part.contains("text") || !part["text"].is_string()) {
      throw Refused(400,
                    fmt::format("{}[{}] is a part of the type {}; this server reads texts only.",
                                where, i, troika::quoted(type)),
                    where, "unsupported");
    }
    text += fields.text("text");
    if (part.size() == 2) continue;  // there may be very many parts, and these have no more
    for (const char* const remark : kRemarksOnText) fields.ignore(remark);
    fields.finish_but_empty();
  }
  return text;
}

Json usual_variables() {
  const std::time_t now = std::time(nullptr);
  std::tm today = {};
  localtime_r(&now, &today);
  const auto written = [&](const char* form) {
    char date[32];
    return std::string(date, std::strftime(date, sizeof(date), form, &today));
  };
  return {{"enable_thinking", true},
          {"date_string", written("%d %b %Y")},
          {"datetime", written("%b %d %Y")}};
}

void Conversation::take_beginning() {
  // An input of the Responses interface may be of thoughts alone, which become no message.
  if (messages.empty()) {
    throw Refused(400, "The request holds no message that the model could answer.", "input");
  }
  const Json& last = messages.back();
  if (!adds_prompt || last["role"] != "assistant" || last.contains("tool_calls")) return;
  beginning = last["content"].get<std::string>();
  messages.erase(messages.size() - 1);
  if (!messages.empty() && messages.back()["role"] == "assistant") {
    throw Refused(400,
                  "The last two messages are both the assistant's. Join them: the answer goes on "
                  "from the last one.",
                  "messages");
  }
}

Json Conversation::tools_json() const {
  if (tools.empty()) return nullptr;
  Json list = Json::array();
  for (const Tool& tool : tools) list.push_back(tool.shown);
  return list;
}

Conversation read_conversation(Fields& fields) {
  Conversation conversation;
  const Json* const messages = fields.find("messages");
  if (messages == nullptr || !messages->is_array() || messages->empty()) {
    fields.fail("messages", "must be a list of messages, and not empty");
  }
  size_t n_compared = 0;
  for (size_t i = 0; i < messages->size(); ++i) {
    conversation.messages.push_back(
        read_message((*messages)[i], fmt::format("messages[{}]", i), &n_compared));
  }
  read_tools(fields, &conversation);
  read_tool_choice(fields, named_function, &conversation.tools, &conversation.choice);
  if (const std::string effort = fields.text("reasoning_effort"); !effort.empty()) {
    conversation.extra["reasoning_effort"] = effort;
    if (effort == "none") conversation.extra["enable_thinking"] = false;
  }
  if (const Json* const extra = fields.find("chat_template_kwargs"); extra != nullptr) {
    if (!extra->is_object()) fields.fail("chat_template_kwargs", "must be an object");
    Fields variables(*extra, "chat_template_kwargs.");
    variables.flag("enable_thinking");  // throws if the variable is there and has another kind
    // What the request says in fields of its own is checked and followed there.
    for (const char* const name : {"messages", "tools", "add_generation_prompt"}) {
      if (variables.find(name) != nullptr) {
        variables.fail(name, "is a field of the request itself. Give it there");
      }
    }
    conversation.extra.update(*extra);
  }
  // That the answer goes on from the assistant's message is what happens anyway.
  const bool goes_on = fields.flag("continue_final_message");
  const Json& last = conversation.messages.back();
  if (goes_on && (last["role"] != "assistant" || last.contains("tool_calls"))) {
    fields.fail("continue_final_message",
                "asks to go on from the assistant's last message, but the last message is none, or "
                "has calls of tools");
  }
  if (goes_on && fields.flag("add_generation_prompt")) {
    fields.fail("continue_final_message",
                "asks to go on from the last message, but add_generation_prompt to begin another");
  }
  conversation.adds_prompt = fields.flag("add_generation_prompt", !goes_on) || goes_on;
  conversation.take_beginning();
  return conversation;
}

}  // namespace troika::server
