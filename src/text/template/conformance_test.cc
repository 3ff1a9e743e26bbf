// Every chat template of the data folder over a conversation with and without tools: the text is
// that of Jinja2 3.1 configured as Hugging Face transformers does, of which only a hash is kept.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>

#include "text/template/chat_template.h"

namespace troika::text::jinja {
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
        "days": {"type": "integer", "minimum": 1},
        "exact": {"type": "boolean"}}}}}]
})json";

constexpr uint64_t kRaises = 1;  // the template refuses the conversation, in its own words
constexpr uint64_t kFails = 2;   // it needs tool arguments in the other form

struct Expected {
  const char* file;
  // Hashes of the text without tools, with tool arguments as an object, and as a string of JSON.
  uint64_t hashes[3];
};

const Expected kExpected[] = {
    {"Apriel-1.6-15b-Thinker-fixed.jinja",
     {0xd8df1cfdd564528a, 0xe4504bf1b5d58cb5, 0x60a07f92e1cabb8f}},
    {"ByteDance-Seed-OSS.jinja", {0x1006b14834348c2a, 0xf7da323dd7b9c7a6, kFails}},
    {"CohereForAI-c4ai-command-r-plus-tool_use.jinja", {0xe6c27e57de9b1a47, kFails, kFails}},
    {"GLM-4.6.jinja", {0x70cc560c0136b3b9, 0xc1caa492595f7579, kRaises}},
    {"GigaChat3-10B-A1.8B.jinja", {0xf9421f69c05ef168, 0x346942d8a054ee47, 0xbcd79132b85acde9}},
    {"HuggingFaceTB-SmolLM3-3B.jinja",
     {0x4b41f53fb5e5cd49, 0x799949f3f3196a95, 0x799949f3f3196a95}},
    {"Kimi-K2-Thinking.jinja", {0x49ea0f4e47a99316, 0xc38c8ec2a63b08e6, 0x6b5afe48114ae898}},
    {"LFM2-8B-A1B.jinja", {0xf950d53a2b720da7, 0xf461d31fd6ec6e4e, 0xf461d31fd6ec6e4e}},
    {"LFM2.5-Instruct.jinja", {0xf950d53a2b720da7, 0xa4a270455589770c, 0xa4a270455589770c}},
    {"MiniMax-M1.jinja", {0x0066e8ae2235da43, 0x265b7653f27132c3, 0xfb6ac59fc394ade1}},
    {"MiniMax-M3.jinja", {0xba7758ae5c45d1a4, 0x156234d0f64341dc, kFails}},
    {"NVIDIA-Nemotron-3-Nano-30B-A3B-BF16.jinja", {0xb3ca78e10d571aa3, 0xaa89c9e6f1d83b5f, kFails}},
    {"NousResearch-Hermes-2-Pro-Llama-3-8B-tool_use.jinja",
     {0x9dbd47c7c0bb7ea4, 0xf0140772b491eef5, 0x50a6bc7d3c3a4097}},
    {"Qwen-QwQ-32B.jinja", {0x8d5a97e847212b97, 0xa41c103cf9bc0db7, 0x9d9b52d90a0fa7ad}},
    {"Qwen-Qwen3-0.6B.jinja", {0xb8a12393623dd650, 0x5bc4c98975f9d1b0, 0x854dcbaa9a97502a}},
    {"Qwen3.5-4B.jinja", {0x76c393989e338672, 0x83c205bf9db3475b, kFails}},
    {"StepFun3.5-Flash.jinja", {0x094e43f0aab40aab, 0xa1aeef8bdcf0dbb3, kFails}},
    {"deepseek-ai-DeepSeek-R1-Distill-Qwen-32B.jinja",
     {0x52835ad859ebdb37, 0xa6b9a74e73d255c9, 0xdf276ce17f2438c7}},
    {"deepseek-ai-DeepSeek-V3.2.jinja",
     {0x8e2ebacc8f5b8da2, 0xe3af57fad62a38b5, 0xfaf06e7c95927cd7}},
    {"deepseek-ai-DeepSeek-V4.jinja", {0xeac85822a05365d6, 0x3b836ad3bb374650, 0xdf44615d7f66df86}},
    {"google-gemma-2-2b-it.jinja", {kRaises, kRaises, kRaises}},
    {"google-gemma-4-31B-it.jinja", {0xd43caedd32e00b48, 0xf399e8651b970cb3, 0x9bfeb491e39f0c11}},
    {"ibm-granite-granite-4.0.jinja", {0xa068b31a2a91a40a, 0x65a38051a4fc8ff5, 0x5f36a21e802b7097}},
    {"llama-cpp-deepseek-r1.jinja", {0xfe3688fa5c9094f0, kFails, kFails}},
    {"meetkai-functionary-medium-v3.1.jinja",
     {0x5f1c0b66ac8fe8e5, 0x499a13cb8e80ce30, 0x54e437a5795f5e8e}},
    {"meta-llama-Llama-3.1-8B-Instruct.jinja",
     {0xa2d555539a36c36b, 0xce324d9942cbc227, 0xe6917a8e130e8f99}},
    {"meta-llama-Llama-3.3-70B-Instruct.jinja",
     {0xa2d555539a36c36b, 0xce324d9942cbc227, 0xe6917a8e130e8f99}},
    {"mistralai-Ministral-3-14B-Reasoning-2512.jinja",
     {0xbb004abbe9a20636, 0x3c47bb8937681696, 0x021079f7ad45ac34}},
    {"moonshotai-Kimi-K2.jinja", {0x674ca30d1731e153, 0xe3ba3bc8cdeacfca, 0x13a27e0b2f62382c}},
    {"openai-gpt-oss-120b.jinja", {0xcb53269bbfcb580b, 0xb7c45ba3292cb742, 0x64e103e00ebfedf8}},
    {"poolside-Laguna-S-2.1.jinja", {0x323b23491e557ca9, 0xb7865aa6c18de559, kFails}},
    {"poolside-Laguna-XS.2.jinja", {0x924444cc6a322676, 0x0498f4706d17454d, kFails}},
    {"unsloth-Apriel-1.5.jinja", {0x225fb10a5e3b28ee, 0x5ee181829ed61bf7, 0x76229e188463e01d}},
    {"upstage-Solar-Open-100B.jinja", {0xbd5d95a10bb0edbb, 0x14ce2c8b6e15d646, 0xd55007516b469f90}},
};

uint64_t fnv1a(const std::string& s) {
  uint64_t h = 0xcbf29ce484222325;
  for (const char c : s) {
    h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  }
  return h;
}

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
  chat_template.set_time(1699963200);  // noon, so that the date is the same in every zone
  try {
    return fnv1a(chat_template.render(context(variant)));
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

// A file that the table does not know must at least render or refuse one of the conversations.
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
}  // namespace troika::text::jinja
