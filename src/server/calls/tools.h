// The tools of a request, and which of them an answer may call.
#pragma once

#include <string>
#include <vector>

#include "server/fields.h"

namespace troika::server {

struct Tool {
  std::string name;
  Json parameters;  // a JSON schema, which the arguments of calls fit
  Json shown;       // the tool in the form that templates know, as shown_tool() makes it
};

// Returns {"type": "function", "function": {...}}, with the client's own fields in their own order,
// as templates write tools out. Fields that are null are left out; where there are no parameters,
// or they are no object, the function takes none. `tool` may lack its type. Its field "function" is
// an object.
Json shown_tool(Json tool);

// Says whether the answer may or must call tools, and which.
struct ToolChoice {
  enum class Mode : uint8_t { kNone, kAuto, kRequired };
  Mode mode = Mode::kAuto;
  std::string name;  // the only tool that may be called; empty: any
  // Says that an answer may have several calls. A tool that is named is called once, unless the
  // client says otherwise: small models would call it to the end.
  bool is_parallel = true;
};

// Returns the name in an object that names a function. `where` is the object's name in errors.
using ReadNamed = std::string (*)(const Json& given, const std::string& where);

// Reads "tool_choice" and "parallel_tool_calls" as OpenAI's interfaces have them, which write the
// name of a function in two ways. Where only some tools are allowed, the others are taken away.
// Throws Refused.
void read_tool_choice(Fields& fields, ReadNamed read_named, std::vector<Tool>* tools,
                      ToolChoice* choice);

}  // namespace troika::server
