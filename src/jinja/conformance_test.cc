// Renders every chat template of the data folder over a conversation with and without tools. The
// text must be that of Jinja2 3.1 as Hugging Face transformers configures it (but for tojson, which
// takes a generator here). The test keeps only its hash.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>

#include "base/hash.h"
#include "jinja/chat_template.h"

namespace troika::jinja {
namespace {

const char kContext[] = R"json({
  "bos_token": "<s>", "eos_token": "</s>", "add_generation_prompt": true,
  "messages": [
    {"role": "system", "content": "Answer in one line.\n"},
    {"role": "user", "content": "What's the <weather> in Zürich?"},
    {"role": "assistant", "content": "", "tool_calls": [
      {"id": "call00001", "type": "function", "function": {
        "name": "weather", "arguments": {"city": "Zürich", "days": 2, "exact": true}}}]},
    {"role": "tool", "name": "weather", "tool_call_id": "call00001", "content": "{\"c\": 21.5}"},
    {"role": "assistant", "content": "It is warm: 21.5 °C."},
    {"role": "user", "content": "Thanks & bye"}],
  "tools": [
    {"type": "function", "function": {
      "name": "weather", "description": "The \"weather\" of a city's next days",
      "parameters": {"type": "object", "required": ["city"], "properties": {
        "city": {"type": "string", "description": "A city"},
        "days": {"type": "integer", "description": "Days > 0", "minimum": 1},
        "exact": {"type": "boolean", "description": "No rounding"}}}}}]
})json";

constexpr uint64_t kRaises = 1;  // the template refuses the conversation in its own words
constexpr uint64_t kFails = 2;   // the template needs tool arguments in the other form

struct Expected {
  const char* file;
  // Has hashes of the text without tools, with tool arguments as an object, and with them as a
  // string of JSON.
  uint64_t hashes[3];
};

const Expected kExpected[] = {
    {"Apriel-1.6-15b-Thinker-fixed.jinja",
     {0xd8df1cfdd564528a, 0x617df31ae8101801, 0xa8bda63e5912988b}},
    {"ByteDance-Seed-OSS.jinja", {0x1006b14834348c2a, 0xb4e1b0d80e368be2, kFails}},
    {"CohereForAI-c4ai-command-r-plus-tool_use.jinja",
     {0xe6c27e57de9b1a47, 0x21b50c438d3c92ac, 0x2962741f250b2c8e}},
    {"GLM-4.6.jinja", {0x70cc560c0136b3b9, 0x71a1c23c3e2fcce3, kRaises}},
    {"GigaChat3-10B-A1.8B.jinja", {0xf9421f69c05ef168, 0x004b11499bd982f3, 0xd607bd056fd1cd95}},
    {"HuggingFaceTB-SmolLM3-3B.jinja",
     {0x4b41f53fb5e5cd49, 0x799949f3f3196a95, 0x799949f3f3196a95}},
    {"Kimi-K2-Thinking.jinja", {0x49ea0f4e47a99316, 0x2f956c58b1efe682, 0xba6f0febf573fb64}},
    {"LFM2-8B-A1B.jinja", {0xf950d53a2b720da7, 0x4213057ada92e140, 0x4213057ada92e140}},
    {"LFM2.5-Instruct.jinja", {0xf950d53a2b720da7, 0xeb7358d1fb086a8a, 0xeb7358d1fb086a8a}},
    {"MiniMax-M1.jinja", {0x0066e8ae2235da43, 0x2e91448d0e0c14a9, 0xfa42422284ac1d3f}},
    {"MiniMax-M3.jinja", {0xba7758ae5c45d1a4, 0xf647ed32cc653a1a, kFails}},
    {"NVIDIA-Nemotron-3-Nano-30B-A3B-BF16.jinja", {0xb3ca78e10d571aa3, 0x61b750f8ed318e5b, kFails}},
    {"NousResearch-Hermes-2-Pro-Llama-3-8B-tool_use.jinja",
     {0x9dbd47c7c0bb7ea4, 0x1417f4a3787530a5, 0xf0c8398ca02ac5c7}},
    {"Qwen-QwQ-32B.jinja", {0x8d5a97e847212b97, 0xf1ff25215d8da9ab, 0x8a193dc76aeca6a1}},
    {"Qwen-Qwen3-0.6B.jinja", {0xb8a12393623dd650, 0x0009bd95d297817c, 0xe1a9ff2e0819d196}},
    {"Qwen3.5-4B.jinja", {0x76c393989e338672, 0x585ac16228be1c8f, kFails}},
    {"StepFun3.5-Flash.jinja", {0x094e43f0aab40aab, 0x44b33143f19c1e05, kFails}},
    {"deepseek-ai-DeepSeek-R1-Distill-Qwen-32B.jinja",
     {0x52835ad859ebdb37, 0xa6b9a74e73d255c9, 0xdf276ce17f2438c7}},
    {"deepseek-ai-DeepSeek-V3.2.jinja",
     {0x8e2ebacc8f5b8da2, 0xfd65f24150cd09b9, 0x58ff17a02ab1109b}},
    {"deepseek-ai-DeepSeek-V4.jinja", {0xeac85822a05365d6, 0xf7a51903731f2b9c, 0x6bba36669c344802}},
    {"google-gemma-2-2b-it.jinja", {kRaises, kRaises, kRaises}},
    {"google-gemma-4-31B-it.jinja", {0xd43caedd32e00b48, 0x574848f5a0aa837b, 0x8b71533535a5cec9}},
    {"ibm-granite-granite-4.0.jinja", {0xa068b31a2a91a40a, 0x69f58c46b01bd049, 0xbfe00b73692bdecb}},
    {"llama-cpp-deepseek-r1.jinja", {0xfe3688fa5c9094f0, 0xa17246812de46b3b, 0x01d51b22b865fefd}},
    {"meetkai-functionary-medium-v3.1.jinja",
     {0x5f1c0b66ac8fe8e5, 0x830afa021b47f75a, 0x34565b7af6f96dc0}},
    {"meta-llama-Llama-3.1-8B-Instruct.jinja",
     {0xa2d555539a36c36b, 0x25a2411f4f3d4bb1, 0xe1ec62c253b58303}},
    {"meta-llama-Llama-3.3-70B-Instruct.jinja",
     {0xa2d555539a36c36b, 0x25a2411f4f3d4bb1, 0xe1ec62c253b58303}},
    {"mistralai-Ministral-3-14B-Reasoning-2512.jinja",
     {0xbb004abbe9a20636, 0xe04b655a4338e544, 0x8a3b789a44ac8072}},
    {"moonshotai-Kimi-K2.jinja", {0x674ca30d1731e153, 0xf1233bfd85c71cde, 0xa5f95245283d2e40}},
    {"openai-gpt-oss-120b.jinja", {0xcb53269bbfcb580b, 0x89c9c409dbd37374, 0xef3833c2cbf0bc12}},
    {"poolside-Laguna-S-2.1.jinja", {0x323b23491e557ca9, 0xc4a220ca35458f5f, kFails}},
    {"poolside-Laguna-XS.2.jinja", {0x924444cc6a322676, 0x461fcc8298f05ccf, kFails}},
    {"unsloth-Apriel-1.5.jinja", {0x225fb10a5e3b28ee, 0xed2c5fa956b80003, 0x24fb5a598c008909}},
    {"upstage-Solar-Open-100B.jinja", {0xbd5d95a10bb0edbb, 0xb44d613c04ebeff8, 0xcf37e5577f4ae9d2}},
};

nlohmann::ordered_json context(int variant) {
  auto c = nlohmann::ordered_json::parse(kContext);
  nlohmann::ordered_json kept = nlohmann::ordered_json::array();
  for (auto& m : c["messages"]) {
    if (variant == 2 && m.contains("tool_calls")) {
      m["tool_calls"][0]["function"]["arguments"] = R"({"city": "Zürich"})";
    }
    if (variant > 0 || (m["role"] != "tool" && !m.contains("tool_calls"))) {
      kept.push_back(m);
    }
  }
  c["messages"] = kept;
  if (variant == 0) {
    c.erase("tools");
  }
  return c;
}

uint64_t render_hash(const std::string& source, int variant) {
  ChatTemplate chat_template(source);
  chat_template.set_time(1699963200);  // is noon, so that the date is the same in every zone
  try {
    return hash_of(chat_template.render(context(variant)));
  } catch (const RaisedByTemplate&) {
    return kRaises;
  } catch (const Error&) {
    return kFails;
  }
}

TEST(TemplateConformance, EveryFileOfTheDataFolder) {
  const char* data = std::getenv("TROIKA_DATA");
  if (data == nullptr) {
    GTEST_SKIP() << "Set TROIKA_DATA to the data folder to test its chat templates.";
  }
  const std::filesystem::path folder = std::filesystem::path(data) / "chat-templates";
  for (const Expected& expected : kExpected) {
    std::ifstream file(folder / expected.file, std::ios::binary);
    ASSERT_TRUE(file.good()) << (folder / expected.file);
    const std::string source((std::istreambuf_iterator<char>(file)), {});
    for (int variant = 0; variant < 3; ++variant) {
      EXPECT_EQ(render_hash(source, variant), expected.hashes[variant])
          << expected.file << ", conversation " << variant;
    }
  }
}

// Files that the table does not have must at least render or refuse one of the conversations.
TEST(TemplateConformance, UnknownFilesRender) {
  const char* data = std::getenv("TROIKA_DATA");
  if (data == nullptr) {
    GTEST_SKIP() << "Set TROIKA_DATA to the data folder to test its chat templates.";
  }
  const auto folder = std::filesystem::path(data) / "chat-templates";
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    std::ifstream file(entry.path(), std::ios::binary);
    const std::string source((std::istreambuf_iterator<char>(file)), {});
    EXPECT_NE(render_hash(source, 0), kFails) << entry.path();
    EXPECT_NE(std::min(render_hash(source, 1) == kFails, render_hash(source, 2) == kFails), true)
        << entry.path();
  }
}

}  // namespace
}  // namespace troika::jinja
