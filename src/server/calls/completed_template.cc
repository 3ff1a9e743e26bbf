#include "server/calls/completed_template.h"

#include <string_view>

namespace troika::server {
namespace {

// The templates of LFM2 and LFM2.5 list tools in the system message and write an assistant's
// message as its text alone. Liquid's description of the models says how a call looks, and that the
// system message may ask for calls as JSON in place of Python. JSON is what a schema can be held
// to. Both are put in where the template writes the list of tools and the end of a message.
constexpr std::string_view kTools = "\"List of tools: ";
constexpr std::string_view kToolsAsJson = R"("Output function calls as JSON.\nList of tools: )";
constexpr std::string_view kEndOfMessage = R"({{- content + "<|im_end|>)";
constexpr std::string_view kCallsAndEnd = R"({{- content -}}
{%- if message.tool_calls -%}
    {{- "<|tool_call_start|>[" -}}
    {%- for call in message.tool_calls -%}
        {%- set arguments = call.function.arguments -%}
        {%- if arguments is not string -%}
            {%- set arguments = arguments | tojson -%}
        {%- endif -%}
        {{- (", " if not loop.first else "") + '{"name": "' + call.function.name -}}
        {{- '", "arguments": ' + arguments + "}" -}}
    {%- endfor -%}
    {{- "]<|tool_call_end|>" -}}
{%- endif -%}
{{- "<|im_end|>)";

// Where there is no message, as if a client gives the beginning of the answer alone, the templates
// ask for the role of the first one.
constexpr std::string_view kFirstRole = R"(if messages[0]["role"])";
constexpr std::string_view kFirstRoleIfAny = R"(if messages and messages[0]["role"])";

}  // namespace

std::string completed_template(const std::string& source) {
  const size_t tools = source.find(kTools), end = source.find(kEndOfMessage);
  const bool shows_calls = source.find("tool_calls") != std::string::npos;
  if (shows_calls || tools == std::string::npos || end == std::string::npos || end < tools) {
    return source;
  }
  std::string completed = source;
  completed.replace(end, kEndOfMessage.size(), kCallsAndEnd);
  completed.replace(tools, kTools.size(), kToolsAsJson);
  const size_t role = completed.find(kFirstRole);
  if (role != std::string::npos) completed.replace(role, kFirstRole.size(), kFirstRoleIfAny);
  return completed;
}

}  // namespace troika::server
