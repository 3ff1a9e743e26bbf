#include "server/calls/completed_template.h"

#include <string_view>

namespace troika::server {
namespace {

// The templates of LFM2 and LFM2.5 list tools in the system message and write an assistant's
// message as its text alone. Liquid's description of the models says how a call looks, and that the
// system message may ask for calls as JSON in place of Python. JSON is what a schema can be held
// to. This stands in front of such a template and puts both into the messages.
constexpr std::string_view kCallsOfLiquid = R"(
{%- set completed = namespace(messages=[], asks_for_json=tools | default([]) | length > 0) -%}
{%- if completed.asks_for_json and (messages | length == 0 or messages[0].role != "system") -%}
  {%- set messages = [{"role": "system", "content": ""}] + messages -%}
{%- endif -%}
{%- for message in messages -%}
  {%- set content = namespace(text=message.content or "") -%}
  {%- if loop.first and completed.asks_for_json -%}
    {%- set content.text = content.text + ("\n" if content.text else "") + "Output function calls as JSON." -%}
  {%- endif -%}
  {%- if message.tool_calls -%}
    {%- set content.text = content.text + "<|tool_call_start|>[" -%}
    {%- for call in message.tool_calls -%}
      {%- set arguments = call.function.arguments -%}
      {%- if arguments is not string -%}
        {%- set arguments = arguments | tojson -%}
      {%- endif -%}
      {%- set content.text = content.text + (", " if not loop.first else "") + '{"name": "' + call.function.name + '", "arguments": ' + arguments + '}' -%}
    {%- endfor -%}
    {%- set content.text = content.text + "]<|tool_call_end|>" -%}
  {%- endif -%}
  {%- set completed.messages = completed.messages + [{"role": message.role, "content": content.text}] -%}
{%- endfor -%}
{%- set messages = completed.messages -%}
)";

bool has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

std::string completed_template(const std::string& source) {
  const bool shows_tools_alone =
      has(source, "List of tools: ") && has(source, "<|im_start|>") && !has(source, "tool_calls");
  return shows_tools_alone ? std::string(kCallsOfLiquid.substr(1)) + source : source;
}

}  // namespace troika::server
