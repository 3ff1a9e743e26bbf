#include "server/anthropic/read_messages.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/os_error.h"

namespace troika::server {
namespace {

// Returns the text of a content that may only have text blocks.
std::string text_of(const Json& content, const std::string& where) {
  return content.is_null() ? "" : text_of_parts(content, where);
}

// Reads one message of Anthropic's interface. It may become several messages of the conversation,
// as results of tools are messages of their own there.
class MessageReader {
 public:
  MessageReader(const Json& given, std::string where, Json* messages)
      : where_(std::move(where)), messages_(messages) {
    Fields fields(given, where_ + ".");
    role_ = fields.text("role");
    if (role_ != "user" && role_ != "assistant") fields.fail("role", "must be user or assistant");
    const Json* const content = fields.find("content");
    if (content == nullptr) fields.fail("content", "is missing");
    fields.finish();
    if (content->is_string()) {
      text_ = content->get<std::string>();
    } else if (content->is_array()) {
      for (size_t i = 0; i < content->size(); ++i) {
        read_block((*content)[i], fmt::format("{}.content[{}]", where_, i));
      }
    } else {
      fields.fail("content", "must be a string or a list of blocks");
    }
    if (role_ == "assistant" || !text_.empty() || n_results_ == 0) add_message();
  }

 private:
  void read_block(const Json& given, const std::string& where) {
    Fields block(given, where + ".");
    block.ignore("cache_control");
    const std::string type = block.text("type");
    if (type == "text") {
      text_ += block.text("text");
      block.ignore("citations");
    } else if (type == "tool_use" && role_ == "assistant") {
      const Json* const input = block.find("input");
      if (input != nullptr && !input->is_object()) block.fail("input", "must be an object");
      calls_.push_back({{"id", block.text("id")},
                        {"type", "function"},
                        {"function",
                         {{"name", block.text("name")},
                          {"arguments", input != nullptr ? *input : Json::object()}}}});
      block.ignore("caller");
    } else if (type == "tool_result" && role_ == "user") {
      const Json* const content = block.find("content");
      const bool is_error = block.flag("is_error");
      const std::string text = content == nullptr ? "" : text_of(*content, where + ".content");
      messages_->push_back({{"role", "tool"},
                            {"tool_call_id", block.text("tool_use_id")},
                            {"content", (is_error ? "Error: " : "") + text}});
      ++n_results_;
    } else if (type == "thinking") {
      thought_ += block.text("thinking");
      block.ignore("signature");
    } else {
      throw Refused(400,
                    fmt::format("{} is a block of the type {}, which this server does not read: "
                                "it knows text, thinking, tool_use and tool_result.",
                                where, troika::quoted(type)),
                    where, "unsupported");
    }
    block.finish_but_empty();
  }

  // Adds the message. Turns of one role that follow each other are one turn in this interface.
  void add_message() {
    if (messages_->empty() || messages_->back()["role"] != role_) {
      messages_->push_back({{"role", role_}, {"content", ""}});
    }
    Json& message = messages_->back();
    // Texts are appended in place: a request may have very many turns.
    auto& text = message["content"].get_ref<std::string&>();
    // The assistant's text goes on where it was left, and a person's turns are paragraphs.
    if (role_ == "user" && !text.empty() && !text_.empty()) text += "\n";
    text += text_;
    for (const Json& call : calls_) message["tool_calls"].push_back(call);
    if (thought_.empty()) return;
    Json& thoughts = message["reasoning_content"];
    if (thoughts.is_null()) thoughts = "";
    thoughts.get_ref<std::string&>() += thought_;
  }

  std::string where_, role_, text_, thought_;
  Json calls_ = Json::array();
  int n_results_ = 0;
  Json* messages_;
};

void read_custom_tools(Fields& fields, Conversation* conversation) {
  const Json* const tools = fields.find("tools");
  if (tools == nullptr) return;
  if (!tools->is_array()) fields.fail("tools", "must be a list");
  for (size_t i = 0; i < tools->size(); ++i) {
    Fields tool((*tools)[i], fmt::format("tools[{}].", i));
    if (const std::string type = tool.text("type", "custom"); type != "custom") {
      tool.fail("type",
                fmt::format("is {}; this server runs no tools of its own", troika::quoted(type)));
    }
    const Json* const schema = tool.find("input_schema");
    const std::string name = tool.text("name");
    if (name.empty() || schema == nullptr) tool.fail("name", "and input_schema must be there");
    Json function = {{"name", name}};
    if (const std::string text = tool.text("description"); !text.empty()) {
      function["description"] = text;
    }
    function["parameters"] = *schema;
    conversation->tools.push_back(
        {name, arguments_schema(*schema, fmt::format("tools[{}].input_schema", i)),
         shown_tool({{"type", "function"}, {"function", function}})});
    for (const char* const remark : {"cache_control", "strict", "defer_loading", "input_examples",
                                     "allowed_callers", "eager_input_streaming"}) {
      tool.ignore(remark);
    }
    tool.finish();
  }
}

void read_custom_choice(Fields& fields, Conversation* conversation) {
  const Json* const given = fields.find("tool_choice");
  if (given == nullptr) return;
  Fields choice(*given, "tool_choice.");
  const std::string type = choice.text("type");
  ToolChoice& c = conversation->choice;
  c.is_parallel = !choice.flag("disable_parallel_tool_use");
  if (type == "none") {
    c.mode = ToolChoice::Mode::kNone;
  } else if (type == "any" || type == "tool") {
    c.mode = ToolChoice::Mode::kRequired;
    if (type == "tool") {
      c.name = choice.text("name");
      c.is_parallel = c.is_parallel && choice.find("disable_parallel_tool_use") != nullptr;
    }
  } else if (type != "auto") {
    choice.fail("type", "must be auto, any, tool or none");
  }
  choice.finish();
  const bool is_known =
      c.name.empty() || std::any_of(conversation->tools.begin(), conversation->tools.end(),
                                    [&](const Tool& tool) { return tool.name == c.name; });
  if (!is_known || (c.mode == ToolChoice::Mode::kRequired && conversation->tools.empty())) {
    fields.fail("tool_choice", "wants a tool that is not among the tools");
  }
}

// Says whether the model may think, which it may only where the client asks for that.
bool wants_thoughts(Fields& fields) {
  const Json* const given = fields.find("thinking");
  if (given == nullptr) return false;
  Fields thinking(*given, "thinking.");
  const std::string type = thinking.text("type");
  if (type != "enabled" && type != "adaptive" && type != "disabled") {
    thinking.fail("type", "must be enabled, adaptive or disabled");
  }
  thinking.ignore("budget_tokens");
  thinking.ignore("display");
  thinking.finish();
  return type != "disabled";
}

}  // namespace

Conversation read_messages(Fields& fields) {
  Conversation conversation;
  if (const Json* const system = fields.find("system"); system != nullptr) {
    conversation.messages.push_back({{"role", "system"}, {"content", text_of(*system, "system")}});
  }
  const Json* const messages = fields.find("messages");
  if (messages == nullptr || !messages->is_array() || messages->empty()) {
    fields.fail("messages", "must be a list of messages, and not empty");
  }
  for (size_t i = 0; i < messages->size(); ++i) {
    MessageReader((*messages)[i], fmt::format("messages[{}]", i), &conversation.messages);
  }
  for (Json& message : conversation.messages) name_thoughts(&message);
  conversation.take_beginning();
  read_custom_tools(fields, &conversation);
  read_custom_choice(fields, &conversation);
  conversation.extra["enable_thinking"] = wants_thoughts(fields);
  return conversation;
}

}  // namespace troika::server
