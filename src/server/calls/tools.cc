#include "server/calls/tools.h"

#include <utility>

namespace troika::server {

Json shown_tool(Json tool) {
  Json function = Json::object();
  for (const auto& [name, value] : tool["function"].items()) {
    if (!value.is_null()) function[name] = value;
  }
  Json& parameters = function["parameters"];
  if (!parameters.is_object()) parameters = {{"type", "object"}, {"properties", Json::object()}};
  tool["type"] = "function";
  tool["function"] = std::move(function);
  return tool;
}

}  // namespace troika::server
