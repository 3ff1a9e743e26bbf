// The tools of a request, and which of them an answer may call.
#pragma once

#include <string>

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

}  // namespace troika::server
