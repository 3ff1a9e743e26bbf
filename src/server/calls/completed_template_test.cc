#include "server/calls/completed_template.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "engine/chat.h"
#include "server/calls/shape.h"
#include "server/calls/turn.h"
#include "tests/support/tiny_engine.h"

namespace troika::server {
namespace {

using TemplateJson = nlohmann::ordered_json;

// Lists tools, leaves calls out, and takes thoughts from an answer, as the template of LFM2.5 does.
constexpr const char* kListsTools =
    R"({%- set ns = namespace(head="") -%}{%- if messages[0]["role"] == "system" -%})"
    R"({%- set ns.head = messages[0].content -%}{%- endif -%}{%- set head = ns.head -%})"
    R"({%- if tools -%}{%- set head = head + ("\n" if head else "") + "List of tools: " -%})"
    R"({%- set head = head + (tools | tojson) -%}{%- endif -%})"
    R"({%- if head -%}{{ "<|im_start|>system\n" + head + "<|im_end|>\n" }}{%- endif -%})"
    R"({%- for message in messages -%}{%- if message.role != "system" -%})"
    R"({{ "<|im_start|>" + message.role + "\n" }}{%- set content = message.content -%})"
    R"({%- if "</think>" in content -%}{%- set content = content.split("</think>")[-1] -%}{%- endif -%})"
    R"({{- content + "<|im_end|>\n" -}}{%- endif -%}{%- endfor -%})"
    R"({%- if add_generation_prompt -%}{{ "<|im_start|>assistant\n" }}{%- endif -%})";

TemplateJson call_of(const std::string& name, const TemplateJson& arguments) {
  return {
      {"id", "1"}, {"type", "function"}, {"function", {{"name", name}, {"arguments", arguments}}}};
}

TEST(CompletedTemplate, ShowsTheCallsThatATemplateOfLiquidLeavesOut) {
  const test_support::TinyEngine tiny;
  const engine::ChatFormat chat(*tiny.engine, completed_template(kListsTools));
  const TemplateJson tools = TemplateJson::parse(R"([{"name":"f"}])");
  TemplateJson messages = {
      {{"role", "user"}, {"content", "Hm?"}},
      {{"role", "assistant"},
       {"content", "Wait."},
       {"tool_calls", {call_of("f", {{"a", "\"}"}}), call_of("g", R"({"b":1})")}}},
      {{"role", "tool"}, {"content", "42"}}};
  EXPECT_EQ(chat.text(engine::TemplateInput{.messages = messages, .tools = &tools}),
            "<|im_start|>system\nOutput function calls as JSON.\nList of tools: "
            "[{\"name\": \"f\"}]<|im_end|>\n<|im_start|>user\nHm?<|im_end|>\n"
            "<|im_start|>assistant\nWait.<|tool_call_start|>[{\"name\": \"f\", \"arguments\": "
            "{\"a\": \"\\\"}\"}}, {\"name\": \"g\", \"arguments\": {\"b\":1}}]<|tool_call_end|>"
            "<|im_end|>\n<|im_start|>tool\n42<|im_end|>\n<|im_start|>assistant\n");
  messages.insert(messages.begin(), TemplateJson{{"role", "system"}, {"content", "Be kind."}});
  const std::string kind = chat.text(engine::TemplateInput{.messages = messages, .tools = &tools});
  EXPECT_TRUE(kind.starts_with("<|im_start|>system\nBe kind.\nOutput function calls as JSON.\n"))
      << kind;
  messages[2]["content"] = "<think>So.</think>Wait.";
  messages[2]["tool_calls"] = {call_of("f", {{"a", "</think>"}})};
  const std::string thinks =
      chat.text(engine::TemplateInput{.messages = messages, .tools = &tools});
  EXPECT_NE(thinks.find("\nWait.<|tool_call_start|>[{\"name\": \"f\", \"arguments\": "
                        "{\"a\": \"</think>\"}}]<|tool_call_end|><|im_end|>"),
            std::string::npos)
      << thinks;
  const TemplateJson none = TemplateJson::array();
  EXPECT_TRUE(chat.text(engine::TemplateInput{.messages = none, .tools = &tools})
                  .starts_with("<|im_start|>system\nOutput function calls as JSON.\n"));
  EXPECT_TRUE(chat.text({{"system", "Be kind."}, {"user", "Hm?"}})
                  .starts_with("<|im_start|>system\nBe kind.<|im_end|>\n"));
}

TEST(CompletedTemplate, HasCallsOfItsOwnShape) {
  const test_support::TinyEngine tiny;
  const CallShape shape =
      find_shape(engine::ChatFormat(*tiny.engine, completed_template(kListsTools)));
  EXPECT_TRUE(shape.is_of_template);
  EXPECT_EQ(shape.before, "<|tool_call_start|>[{\"name\": \"");
  EXPECT_EQ(shape.middle, "\", \"arguments\": ");
  EXPECT_EQ(shape.between, "}, {\"name\": \"");
  EXPECT_EQ(shape.after, "}]<|tool_call_end|>");
  EXPECT_EQ(shape.mark(), "<|tool_call_start|>");
}

TEST(CompletedTemplate, LeadsWhatBeginsLikeACallToOne) {
  const test_support::TinyEngine tiny;
  const CallShape shape =
      find_shape(engine::ChatFormat(*tiny.engine, completed_template(kListsTools)));
  Conversation conversation;
  conversation.tools = {
      {"f", TemplateJson::parse(R"({"type":"object","properties":{"a":{"type":"integer"}}})"), {}}};
  const auto is_accepted = [&](const std::string& text) {
    const grammar::Limits limits;
    grammar::Pool pool(limits);
    grammar::Expr at = pool.seal(answer_expr(&pool, conversation, {}, &shape));
    for (const char c : text) at = pool.step(at, static_cast<uint8_t>(c));
    return pool.nullable(at);
  };
  const std::string call = R"({"name": "f", "arguments": {"a":1}})";
  EXPECT_TRUE(is_accepted("Hi."));
  EXPECT_TRUE(is_accepted("Hi.<|tool_call_start|>[" + call + "]<|tool_call_end|>"));
  EXPECT_TRUE(is_accepted("<|tool_call_start|>[" + call + ", " + call + "]<|tool_call_end|>"));
  EXPECT_FALSE(is_accepted("<|tool_call_start|>[f(a=1)]<|tool_call_end|>"));
  EXPECT_FALSE(is_accepted("<|tool_call_start|>"));
}

TEST(CompletedTemplate, LeavesOtherTemplatesAsTheyAre) {
  const std::string shows_calls = std::string(kListsTools) + "{#- tool_calls -#}";
  EXPECT_EQ(completed_template(shows_calls), shows_calls);
  for (const char* const part : {"{{ messages }}", R"({{ "List of tools: " }})",
                                 R"({{- content + "<|im_end|>" }}{{ "List of tools: " }})"}) {
    EXPECT_EQ(completed_template(part), part);
  }
  EXPECT_EQ(completed_template(""), "");
}

TEST(CallShapes, TellTheMarkThatNoWordsHold) {
  CallShape shape;
  shape.before = "\n<tool_call>\n{\"name\": \"";
  EXPECT_EQ(shape.mark(), shape.trigger());
  shape.before = "<|call|>{";
  EXPECT_EQ(shape.mark(), "<|call|>");
  shape.before = "<|call";
  EXPECT_EQ(shape.mark(), "<|call");
}

}  // namespace
}  // namespace troika::server
