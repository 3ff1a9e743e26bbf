#include "server/calls/answer_readers.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "server/calls/channels.h"
#include "server/calls/pairs.h"

namespace troika::server {
namespace {

const CallShape kShape = {"<tool_call>\n{\"name\": \"",
                          "\", \"arguments\": ", "}\n</tool_call>\n<tool_call>\n{\"name\": \"",
                          "}\n</tool_call>", true};
constexpr const char* kTwo =
    "I look it up.\n<tool_call>\n{\"name\": \"first\", \"arguments\": "
    "{\"a\":\"}\\\"\"}}\n</tool_call>\n"
    "<tool_call>\n{\"name\": \"second\", \"arguments\": {\"b\":[1,{}]}}\n</tool_call>";

// Shows what was read: calls in brackets, and a mark where text or thoughts begin.
std::string shown(const std::vector<Delta>& deltas) {
  std::string text;
  Delta::Kind last = Delta::Kind::kText;
  for (const Delta& delta : deltas) {
    if (delta.kind == Delta::Kind::kCall) text += "[" + delta.text + "]";
    if (delta.kind == Delta::Kind::kThought && last != delta.kind) text += "(thought)";
    if (delta.kind == Delta::Kind::kText && last != delta.kind) text += "(text)";
    if (delta.kind != Delta::Kind::kCall) text += delta.text;
    last = delta.kind;
  }
  return text;
}

std::vector<Delta> read_in_parts(Reader& reader, const std::string& text, size_t n_bytes) {
  std::vector<Delta> all;
  for (size_t at = 0; at < text.size(); at += n_bytes) {
    for (Delta& delta : reader.push(std::string_view(text).substr(at, n_bytes))) {
      all.push_back(std::move(delta));
    }
  }
  for (Delta& delta : reader.finish()) all.push_back(std::move(delta));
  return all;
}

std::string read_calls(const std::string& text, size_t n_bytes) {
  CallReader reader(kShape);
  return shown(read_in_parts(reader, text, n_bytes));
}

TEST(CallReader, FindsCallsHoweverTheTextIsCut) {
  for (size_t n = 1; n <= 40; ++n) {
    EXPECT_EQ(read_calls(kTwo, n), "I look it up.[first]{\"a\":\"}\\\"\"}[second]{\"b\":[1,{}]}")
        << n;
  }
}

TEST(CallReader, LeavesTextThatOnlyLooksLikeACall) {
  for (const std::string text :
       {"a < b", "<tool_call>", "<tool_call>\n{\"name\": \"half", "x <tool"}) {
    for (size_t n = 1; n < 8; ++n) EXPECT_EQ(read_calls(text, n), text) << n;
  }
  const std::string no_name = "<tool_call>\n{\"name\": \"" + std::string(1000, 'x') + "\"}";
  EXPECT_EQ(read_calls(no_name, 7), no_name);
}

TEST(CallReader, GoesOnWithTextBehindACall) {
  const std::string text = "<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>\nDone.";
  for (size_t n = 1; n < 9; ++n) EXPECT_EQ(read_calls(text, n), "[f]{}(text)\nDone.") << n;
}

std::string read_thoughts(const std::string& text, bool is_thinking, size_t n_bytes) {
  ThoughtReader reader({"<think>", "</think>"}, is_thinking, std::make_unique<PlainReader>());
  return shown(read_in_parts(reader, text, n_bytes));
}

TEST(ThoughtReader, TakesThoughtsFromTheBeginning) {
  for (size_t n = 1; n < 12; ++n) {
    EXPECT_EQ(read_thoughts("\n<think>so < so</think>\n\nYes.", false, n),
              "(thought)so < so(text)Yes.");
    EXPECT_EQ(read_thoughts("so</think>Yes.", true, n), "(thought)so(text)Yes.");
    EXPECT_EQ(read_thoughts("never ends </thi", true, n), "(thought)never ends </thi");
    EXPECT_EQ(read_thoughts("No <think>later</think>", false, n), "No <think>later</think>");
    EXPECT_EQ(read_thoughts("<th", false, n), "<th");
  }
}

std::string read_channels(const std::string& text, bool has_calls, bool is_in_words, size_t n) {
  ChannelReader reader(has_calls, is_in_words);
  return shown(read_in_parts(reader, text, n));
}

TEST(ChannelReader, TellsThoughtsWordsAndCallsApart) {
  const std::string thought = "<|channel|>analysis<|message|>a < b<|end|><|start|>assistant";
  for (size_t n = 1; n < 40; ++n) {
    EXPECT_EQ(read_channels(thought + "<|channel|>final<|message|>Yes <|.", true, false, n),
              "(thought)a < b(text)Yes <|.");
    EXPECT_EQ(read_channels(thought + "<|channel|>commentary to=functions.f <|constrain|>json"
                                      "<|message|>{\"a\":1}<|call|>",
                            true, false, n),
              "(thought)a < b[f]{\"a\":1}");
    EXPECT_EQ(
        read_channels(" to=functions.f<|channel|>commentary json<|message|>{}", true, false, n),
        "[f]{}");
    EXPECT_EQ(read_channels("<|channel|>commentary<|message|>I look.<|end|>", true, false, n),
              "I look.");
    EXPECT_EQ(read_channels("goes on<|return|>", false, true, n), "goes on");
    EXPECT_EQ(read_channels("Plain words.", false, false, n), "Plain words.");
    EXPECT_EQ(read_channels("<|channel|>ana", true, false, n), "");
    // Such a mark begins no header, though a whole one stands behind it.
    const std::string odd = "a<|end|><|stara|>b<|channel|>commentary to=functions.f<|message|>{}";
    EXPECT_EQ(read_channels("<|channel|>final<|message|>" + odd, true, false, n),
              "a" + odd.substr(odd.find("<|stara")));
    const std::string far = "<|channel|>" + std::string(600, 'x') + "<|message|>a";
    EXPECT_EQ(read_channels(far, true, false, n), far);
  }
}

// A client decides by its schema how deep a model must nest a value.
TEST(PairValues, StayAsTheyAreWhereTheyAreNestedDeeply) {
  const ValueKinds kinds{.text = false, .other = true};
  const auto nested = [](size_t n) { return std::string(n, '[') + " " + std::string(n, ']'); };
  EXPECT_EQ(value_json(nested(3), kinds), "[[[]]]");
  EXPECT_EQ(value_json(nested(200'000), kinds), nested(200'000));
  const std::string broken = nested(200'000) + "]";
  EXPECT_EQ(value_json(broken, kinds), "\"" + broken + "\"");
}

TEST(MarkedJson, BecomesJson) {
  CallShape shape;
  shape.before = "<|tool_call>call:";
  shape.after = "<tool_call|>";
  shape.between = shape.after + shape.before;
  shape.is_of_template = true;
  shape.text_mark = "<|\"|>";
  const std::string text = shape.before +
                           "f{a:<|\"|>x \"<é\n<|\"|>,b:{c:[1,<|\"|><|\"|>],d:true},e:{}}" +
                           shape.between + "g{}" + shape.after;
  for (size_t n = 1; n < 50; ++n) {
    CallReader reader(shape);
    EXPECT_EQ(shown(read_in_parts(reader, text, n)),
              "[f]{\"a\":\"x \\\"<é\\n\",\"b\":{\"c\":[1,\"\"],\"d\":true},\"e\":{}}[g]{}")
        << n;
    CallReader cut(shape);
    EXPECT_EQ(shown(read_in_parts(cut, shape.before + "f{a:<|\"|>Rome<|\"|>,lo", n)),
              "[f]{\"a\":\"Rome\",")
        << n;
  }
}

}  // namespace
}  // namespace troika::server
