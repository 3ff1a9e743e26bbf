// Tests drafts from the command line: --draft, --force-text, --show-drafts, and refusals of wrong
// values.
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/program/troika.h"

namespace troika::test {
namespace {

using nlohmann::json;

constexpr const char* kPrompt = "one two three one two three one two three one two";

class Drafts : public ProgramTest {
 protected:
  void SetUp() override { model_ = write(small_model()); }
  std::vector<std::string> run(std::vector<std::string> more) const {
    std::vector<std::string> words = {"run", model_,   "-p", kPrompt,       "-n",
                                      "40",  "--temp", "0",  "--ignore-end"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  static json json_of(const Finished& finished) {
    expect_success(finished);
    return json::parse(finished.out, nullptr, /*allow_exceptions=*/false);
  }
  std::string model_;
};

TEST_F(Drafts, D6EveryKindGivesThePlainText) {
  const json plain = json_of(troika(run({"--json", "--draft", "none"})));
  EXPECT_TRUE(plain["draft"].is_null());
  for (const std::string& kind :
       {std::string("lookup"), std::string("sam"), std::string("context"), "model:" + model_}) {
    for (const char* width : {"0", "4"}) {
      const json drafted =
          json_of(troika(run({"--json", "--draft", kind, "--draft-width", width})));
      EXPECT_EQ(drafted["tokens"], plain["tokens"]) << kind << " " << width;
      const json& draft = drafted["draft"];
      EXPECT_EQ(draft["kind"], kind);
      EXPECT_LE(draft["accepted"], draft["drafted"]);
      // The first token follows from the prompt. Each verification gives what it accepts, and one.
      EXPECT_EQ(draft["accepted"].get<size_t>() + draft["verifications"].get<size_t>() + 1,
                drafted["tokens"].size())
          << kind << " " << width;
      if (kind.starts_with("model:") && width[0] == '4') {
        // The model drafts for itself, so all that it is sure of is right.
        EXPECT_EQ(draft["accepted"], draft["drafted"]);
      }
    }
  }
}

// One logit of the draft model is no number, and so are all of its chances.
TEST_F(Drafts, ADraftModelWhoseNumbersAreNoneGuessesNothing) {
  std::string bytes = model_bytes(small_model());
  bytes.replace(bytes.size() - 4, 4, std::string("\x00\x00\xc0\x7f", 4));
  const std::string broken = write(bytes, "broken.gguf");
  const json plain = json_of(troika(run({"--json", "--draft", "none"})));
  const json drafted =
      json_of(troika(run({"--json", "--draft", "model:" + broken, "--draft-width", "4"})));
  EXPECT_EQ(drafted["tokens"], plain["tokens"]);
  EXPECT_EQ(drafted["draft"]["drafted"], 0);
}

// The lines that tell how a run went have a column of 13 characters behind their names.
TEST_F(Drafts, AListOfSourcesFitsIntoItsColumn) {
  for (const char* const kind : {"sam+reuse+calibrated+history", "calibrated", "sam"}) {
    const Finished shown = troika(run({"--draft", kind}));
    expect_success(shown);
    const size_t line = shown.err.find("\ndrafts ") + 1;
    EXPECT_EQ(shown.err.find("   ", line + 21), line + 21) << shown.err;
    EXPECT_EQ(shown.err.find(" tokens a pass", line), line + 28) << shown.err;
  }
}

TEST_F(Drafts, ReplayGivesTheForcedTextAndSaysSo) {
  const std::string path = folder_.file("answer.txt");
  std::ofstream(path) << "one two three one two three";
  const json replay = json_of(troika(run({"--json", "--force-text", path, "--draft-width", "8"})));
  EXPECT_EQ(replay["replay"], true);
  const std::string text = replay["text"];  // the tokenizer may put a space in front
  EXPECT_TRUE(text.ends_with("one two three one two three")) << text;
  EXPECT_GT(replay["draft"]["accepted"], 0);
  const Finished shown = troika(run({"--force-text", path, "--stats", "--show-drafts"}));
  expect_success(shown);
  EXPECT_NE(shown.err.find("replay"), std::string::npos) << shown.err;
  EXPECT_NE(shown.err.find("guesses were right"), std::string::npos) << shown.err;
  const json bench = json_of(troika({"bench", model_, "--replay", path, "--force-text", path,
                                     "--pairs", "2", "--widths", "1,4", "-r", "1", "--json"}));
  EXPECT_EQ(bench["replay"]["replay"], true);
  EXPECT_EQ(bench["replay"]["pairs"], 2);
  EXPECT_GT(bench["replay"]["ratio"], 0);
  EXPECT_EQ(bench["widths"].size(), 2u);
  EXPECT_EQ(bench["widths"][0]["ratio"], 1.0);
  // The model's weights are floats.
  EXPECT_EQ(bench["multiply_precision"], "f32");
  EXPECT_GT(bench["multiply_tops"], 0.0);
  EXPECT_GT(bench["widths"][0]["multiply_ms"], 0.0);
  for (const char* field : {"read_gb_s", "multiply_with"}) {
    EXPECT_TRUE(bench.contains(field)) << field;
  }
  test_support::TinyModel relu = small_model();
  relu.activation = "relu";
  const json unknown = json_of(troika({"bench", write(relu, "relu.gguf"), "--widths", "1", "-r",
                                       "1", "--ffn", "by-neuron", "--json"}));
  EXPECT_TRUE(unknown["widths"][0]["read_ms"].is_null()) << unknown;
  EXPECT_TRUE(unknown["widths"][0]["multiply_ms"].is_null()) << unknown;
  const json without_one = json_of(troika({"bench", model_, "--widths", "4", "-r", "1", "--json"}));
  EXPECT_TRUE(without_one["widths"][0]["ratio"].is_null()) << without_one;
}

TEST_F(Drafts, WhatCannotDraftIsRefused) {
  expect_refusal(troika(run({"--draft", "magic"})), 2, {"magic", "lookup", "model:FILE"});
  expect_refusal(troika(run({"--draft", "model:"})), 2, {"model:FILE"});
  expect_refusal(troika(run({"--draft-width", "33"})), 2, {"33", "32"});
  expect_refusal(troika(run({"--draft", "model:/nowhere.gguf"})), 1, {"/nowhere.gguf"});
  test_support::TinyModel other = small_model("qwen2");  // has another tokenizer
  const std::string path = folder_.file("other.gguf");
  write_tiny_model(other, path);
  expect_refusal(troika(run({"--draft", "model:" + path})), 1, {path, "same family"});
  expect_refusal(troika({"bench", model_, "--widths", "65"}), 2, {"65"});
  expect_refusal(troika({"bench", model_, "--replay", path}), 2, {"--force-text"});
}

}  // namespace
}  // namespace troika::test
