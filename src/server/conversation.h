// Messages and tools of a request, as the clients of OpenAI write them, for a chat template.
#pragma once

#include <string>
#include <vector>

#include "server/fields.h"

namespace troika::server {

struct Tool {
  std::string name;
  std::string description;
  Json parameters;  // a JSON schema
};

// Whether the answer is to call tools.
struct ToolChoice {
  enum class Mode : uint8_t { kNone, kAuto, kRequired };
  Mode mode = Mode::kAuto;
  std::string name;         // the only one that may be called; empty: any
  bool is_parallel = true;  // several at once
};

// What templates ask for of the one who uses them: the date, and that the model may think, unless a
// request says otherwise.
Json usual_variables();

struct Conversation {
  Json messages = Json::array();
  std::vector<Tool> tools;
  ToolChoice choice;
  Json extra = usual_variables();  // of the template
  bool adds_prompt = true;
  std::string beginning;  // of the answer, which the client gives as a last message

  // Takes the beginning from the messages, if the last one is the assistant's and calls no tool.
  // Is called once, after the last message. Throws Refused.
  void take_beginning();
  // Tools as templates know them; null where there are none.
  Json tools_json() const;
};

// Reads messages, tools and what belongs to them. Throws Refused.
Conversation read_conversation(Fields& fields);

// A text, or a list of parts that are texts. Throws Refused for images and the like.
std::string text_of_parts(const Json& content, const std::string& where);

}  // namespace troika::server
