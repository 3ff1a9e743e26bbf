// Holds a request's messages and tools, in the form that OpenAI's clients write, for a chat
// template.
#pragma once

#include <string>
#include <vector>

#include "server/calls/tools.h"
#include "server/fields.h"

namespace troika::server {

// Returns the variables that templates expect unless a request says otherwise: the date, and that
// the model may think.
Json usual_variables();

struct Conversation {
  Json messages = Json::array();
  std::vector<Tool> tools;
  ToolChoice choice;
  Json extra = usual_variables();  // further variables of the template
  bool adds_prompt = true;
  std::string beginning;  // the answer's beginning, if the client gives it as last message

  // Takes the beginning from the messages, if the last one is the assistant's and calls no tool; it
  // may be the only one. Is called once, after the last message. Throws Refused, also where there
  // is no message.
  void take_beginning();
  // Returns the tools in the form that templates know; null if there are none.
  Json tools_json() const;
};

// Reads messages, tools and what belongs to them. Throws Refused.
Conversation read_conversation(Fields& fields);

// Returns the schema of a tool's arguments, which are an object: a schema without a type gets this
// one. `where` is the field's name. Throws Refused for a schema of something else.
Json arguments_schema(const Json& given, const std::string& where);

// Returns the arguments of an earlier call, given as text, in the form that templates want: as an
// object. A text that is none stays a text: the model wrote it, and a client sends it back as it
// is. The texts of one request share `n_compared`, as object_from() has it. Throws Refused where
// they take too much work together.
Json arguments_from(const std::string& text, size_t* n_compared);

// Gives the thoughts of an assistant's message in front of calls the other name too, by which the
// template of gpt-oss knows them. Is called when the message is whole.
void name_thoughts(Json* message);

// Returns the text of a content that is a text or a list of texts. Throws Refused for images and
// the like.
std::string text_of_parts(const Json& content, const std::string& where);

}  // namespace troika::server
