// Asks for answers under a schema, a grammar and a regular expression from the command line.
#include <nlohmann/json.hpp>
#include <regex>

#include "tests/program/run_test.h"

namespace troika::test {
namespace {

using nlohmann::json;

class GrammarRuns : public RunTest {
 protected:
  GrammarRuns() : RunTest({"-p", "Once upon a time", "--seed", "3", "--temp", "1"}) {}
  void SetUp() override {
    model_ = write(small_model());
    schema_ = folder_.file("person.json");
    write_whole(
        schema_,
        R"({"type":"object","properties":{"name_of_the_person":{"type":"string","maxLength":9},
                    "is_known":{"type":"boolean"}},"required":["name_of_the_person","is_known"],
                    "additionalProperties":false})");
  }
  std::string schema_;
};

TEST_F(GrammarRuns, TheAnswerFitsItsSchemaWithDraftsAndWithout) {
  const json plain = run_json({"--json-schema", schema_, "--draft", "none"});
  const json drafted = run_json({"--json-schema", schema_, "--draft-width", "8"});
  const json answer = json::parse(plain["text"].get<std::string>(), nullptr, false);
  ASSERT_TRUE(answer.is_object()) << plain["text"];
  EXPECT_TRUE(answer["name_of_the_person"].is_string());
  EXPECT_TRUE(answer["is_known"].is_boolean());
  EXPECT_EQ(plain["stop"], "end");
  EXPECT_EQ(drafted["tokens"], plain["tokens"]);
  EXPECT_GT(drafted["draft"]["accepted"], 0);
  EXPECT_EQ(drafted["draft"]["sources"].front()["name"], "grammar");
  EXPECT_EQ(plain["grammar"]["option"], "--json-schema");
  EXPECT_GE(plain["grammar"]["masks"], plain["tokens"].size());
}

TEST_F(GrammarRuns, RegularExpressionsAndGrammarsOfSeveralAnswers) {
  const json number = run_json({"--regex", "-?[1-9][0-9]{2}"});
  EXPECT_TRUE(std::regex_match(number["text"].get<std::string>(), std::regex("-?[1-9][0-9]{2}")))
      << number["text"];
  const std::string gbnf = folder_.file("yes.gbnf");
  write_whole(gbnf, "root ::= (\"yes\" | \"no\") \", \" [a-z]{3}\n");
  const json answers = run_json({"--grammar", gbnf, "--answers", "3"});
  ASSERT_EQ(answers["answers"].size(), 3u);
  for (const json& one : answers["answers"]) {
    EXPECT_TRUE(std::regex_match(one["text"].get<std::string>(), std::regex("(yes|no), [a-z]{3}")))
        << one["text"];
  }
  EXPECT_EQ(answers["grammar"]["option"], "--grammar");
  const Finished people = run({"--grammar", gbnf});
  expect_success(people);
  EXPECT_NE(people.err.find("grammar "), std::string::npos) << people.err;
}

TEST_F(GrammarRuns, AnAnswerThatIsCutOffIsNoted) {
  constexpr const char* kCut = "was cut off and may not fit --json-schema yet: give more -n";
  for (const std::vector<std::string>& more :
       {std::vector<std::string>{}, {"--json"}, {"--answers", "2"}}) {
    std::vector<std::string> words = {"--json-schema", schema_, "-n", "2"};
    words.insert(words.end(), more.begin(), more.end());
    const Finished cut = run(words);
    expect_success(cut);
    EXPECT_NE(cut.err.find(kCut), std::string::npos) << cut.err;
  }
  const Finished whole = run({"--json-schema", schema_});
  EXPECT_EQ(whole.err.find("cut off"), std::string::npos) << whole.err;
}

TEST_F(GrammarRuns, WhatCannotBeHeldToIsSaidWithItsPlace) {
  const std::string bad = folder_.file("bad.json");
  write_whole(bad, R"({"type":"object","properties":{"a":{"type":"array","uniqueItems":true}}})");
  expect_refusal(run({"--json-schema", bad}), 1, {"bad.json", "#/properties/a"});
  write_whole(bad, "{\"type\":");
  expect_refusal(run({"--json-schema", bad}), 1, {"bad.json"});
  expect_refusal(run({"--json-schema", folder_.file("none.json")}), 1, {"none.json"});
  expect_refusal(run({"--regex", "[a-"}), 2, {"--regex", "']'"});
  expect_refusal(run({"--regex", "a", "--grammar", bad}), 2, {"--regex", "--grammar"});
  expect_refusal(run({"--regex", "a", "--ignore-end"}), 2, {"--regex", "--ignore-end"});
  expect_refusal(run({"--regex", "a", "--force-text", schema_}), 2, {"--force-text"});
}

}  // namespace
}  // namespace troika::test
