// Renders any bytes as a template over a fixed conversation. Only troika::Error may come out, and
// soon.
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "base/error.h"
#include "jinja/chat_template.h"

namespace {

const nlohmann::ordered_json& conversation() {
  static const auto kConversation = nlohmann::ordered_json::parse(R"({
    "messages": [
      {"role": "system", "content": "Be brief."},
      {"role": "user", "content": [{"type": "text", "text": "Grüße, <b> & 'q'"}]},
      {"role": "assistant", "content": "", "tool_calls": [{"id": "1", "type": "function",
        "function": {"name": "f", "arguments": {"x": 1, "y": [1.5, null, true]}}}]},
      {"role": "tool", "name": "f", "content": "{\"r\": 2}"},
      {"role": "assistant", "content": "<think>hm</think> two"}],
    "tools": [{"type": "function", "function": {"name": "f", "description": "d",
      "parameters": {"type": "object", "properties": {"x": {"type": "integer"}}}}}],
    "add_generation_prompt": true, "bos_token": "<s>", "eos_token": "</s>", "n": 7
  })");
  return kConversation;
}

troika::jinja::Limits small_limits() {
  troika::jinja::Limits limits;
  limits.n_steps = 200'000;
  limits.memory_bytes = 16 << 20;
  limits.output_bytes = 1 << 20;
  return limits;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const std::string source(reinterpret_cast<const char*>(data), size);
    const troika::jinja::ChatTemplate chat_template(source, small_limits());
    chat_template.render(conversation());
  } catch (const troika::Error&) {
  }
  return 0;
}
