#include "server/calls/tools.h"

#include <fmt/format.h>

#include <set>
#include <utility>

#include "base/os_error.h"

namespace troika::server {
namespace {

std::set<std::string> names_of(const std::vector<Tool>& tools) {
  std::set<std::string> names;
  for (const Tool& tool : tools) names.insert(tool.name);
  return names;
}

void check_is_known(const std::string& name, const std::set<std::string>& known,
                    const std::string& where) {
  if (known.contains(name)) return;
  throw Refused(400,
                fmt::format("The field {} names {}, which is none of the tools.",
                            troika::quoted(where), troika::quoted(name)),
                where);
}

// A list of allowed tools may name one this often: it is read before anything else bounds it.
constexpr size_t kMostTimesNamed = 8;

// Reads {"mode", "tools"}. The other tools are left out of the turn, so that the model is not shown
// what it may not call.
ToolChoice::Mode read_allowed(Fields& allowed, const std::string& where, ReadNamed read_named,
                              std::vector<Tool>* tools) {
  const std::string mode = allowed.text("mode");
  if (mode != "auto" && mode != "required") allowed.fail("mode", "must be auto or required");
  const Json* const list = allowed.find("tools");
  if (list == nullptr || !list->is_array() || list->empty()) {
    allowed.fail("tools", "must be a list of functions, and not empty");
  }
  if (list->size() > kMostTimesNamed * tools->size()) {
    allowed.fail("tools", "names the same functions again and again; once is enough");
  }
  const std::set<std::string> known = names_of(*tools);
  std::set<std::string> chosen;
  for (size_t i = 0; i < list->size(); ++i) {
    const std::string here = fmt::format("{}.tools[{}]", where, i);
    const std::string name = read_named((*list)[i], here);
    check_is_known(name, known, here);
    chosen.insert(name);
  }
  std::erase_if(*tools, [&](const Tool& tool) { return !chosen.contains(tool.name); });
  return mode == "auto" ? ToolChoice::Mode::kAuto : ToolChoice::Mode::kRequired;
}

// Reads {"type": "allowed_tools"} with the mode and the tools beside the type, as the Responses
// interface has it, or in an object of their own.
ToolChoice::Mode read_allowed_tools(const Json& given, ReadNamed read_named,
                                    std::vector<Tool>* tools) {
  Fields outer(given, "tool_choice.");
  outer.ignore("type");
  const Json* const inner = outer.find("allowed_tools");
  ToolChoice::Mode mode;
  if (inner == nullptr) {
    mode = read_allowed(outer, "tool_choice", read_named, tools);
  } else {
    Fields allowed(*inner, "tool_choice.allowed_tools.");
    mode = read_allowed(allowed, "tool_choice.allowed_tools", read_named, tools);
    allowed.finish_but_empty();
  }
  outer.finish_but_empty();
  return mode;
}

}  // namespace

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

void read_tool_choice(Fields& fields, ReadNamed read_named, std::vector<Tool>* tools,
                      ToolChoice* choice) {
  choice->is_parallel = fields.flag("parallel_tool_calls", true);
  const Json* const given = fields.find("tool_choice");
  if (given == nullptr || *given == "auto") return;
  if (*given == "none") {
    choice->mode = ToolChoice::Mode::kNone;
  } else if (*given == "required") {
    choice->mode = ToolChoice::Mode::kRequired;
    if (tools->empty()) fields.fail("tool_choice", "wants a call, but there are no tools");
  } else if (!given->is_object()) {
    fields.fail("tool_choice", "must be none, auto, required or an object that names functions");
  } else if (Fields(*given, "tool_choice.").text("type") == "allowed_tools") {
    choice->mode = read_allowed_tools(*given, read_named, tools);
  } else {
    choice->name = read_named(*given, "tool_choice");
    check_is_known(choice->name, names_of(*tools), "tool_choice");
    choice->is_parallel = choice->is_parallel && fields.find("parallel_tool_calls") != nullptr;
    choice->mode = ToolChoice::Mode::kRequired;
  }
}

}  // namespace troika::server
