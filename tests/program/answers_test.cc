// Asks for several answers to one prompt from the command line. Each is the one that its seed gives
// alone.
#include <nlohmann/json.hpp>

#include "tests/program/run_test.h"
#include "tests/support/sanitized.h"

namespace troika::test {
namespace {

using nlohmann::json;

class Answers : public RunTest {
 protected:
  Answers() : RunTest({"-p", "Once upon a time", "-n", "30"}) {}
  void SetUp() override { model_ = write(small_model()); }
};

TEST_F(Answers, EachIsTheOneThatItsSeedGivesAlone) {
  for (const std::string draft : {"none", "context"}) {
    const json together = run_json({"--seed", "11", "--answers", "3", "--draft", draft});
    ASSERT_EQ(together["answers"].size(), 3u);
    for (size_t i = 0; i < 3; ++i) {
      const json& answer = together["answers"][i];
      const json alone = run_json({"--seed", std::to_string(11 + i), "--draft", draft});
      EXPECT_EQ(answer["seed"], 11 + i);
      EXPECT_EQ(answer["tokens"], alone["tokens"]);
      EXPECT_EQ(answer["text"], alone["text"]);
      EXPECT_EQ(answer["stop"], alone["stop"]);
      const json n_computed = i == 0 ? answer["prompt_tokens"] : json(0);
      EXPECT_EQ(answer["computed_tokens"], n_computed);  // shows that the prompt was read once
    }
    EXPECT_EQ(together["together"]["most_answers_in_a_step"], 3);
  }
}

TEST_F(Answers, WhatIsToldOfMemoryIsWhatOneAnswerTells) {
  const json alone = run_json({"--memory", "1G"});
  for (const std::string several : {"--answers", "--best"}) {
    const json together = run_json({"--memory", "1G", "--temp", "1", several, "2"});
    for (const char* key : {"peak_bytes", "memory", "layouts", "stream"}) {
      ASSERT_TRUE(alone.contains(key) && together.contains(key)) << several << " " << key;
      EXPECT_EQ(together[key].type(), alone[key].type()) << several << " " << key;
    }
    EXPECT_EQ(together["memory"]["limit_bytes"], 1 << 30);
    EXPECT_GT(together["memory"]["total_bytes"], 0);
  }
}

// What serves an answer goes with it, and only some are under way at once.
TEST_F(Answers, ManyTakeNoMoreMemoryThanSome) {
  const json some = run_json({"--answers", "64"});
  const json many = run_json({"--seed", "11", "--answers", "500", "--temp", "1.5"});
  ASSERT_EQ(many["answers"].size(), 500u);
  EXPECT_LE(many["together"]["most_answers_in_a_step"], 64);
  const json alone = run_json({"--seed", "510", "--temp", "1.5"});
  EXPECT_EQ(many["answers"].back()["seed"], 510);
  EXPECT_EQ(many["answers"].back()["tokens"], alone["tokens"]);
  if (test::kIsSanitized) GTEST_SKIP() << "a sanitizer takes memory of its own";
  constexpr int64_t kSlack = 16 << 20;
  EXPECT_LT(many["peak_bytes"], some["peak_bytes"].get<int64_t>() + kSlack);
}

TEST_F(Answers, PeopleSeeEachUnderItsSeed) {
  const Finished finished = run({"--seed", "7", "--answers", "2", "--temp", "0"});
  expect_success(finished);
  EXPECT_NE(finished.out.find("--- answer 1, seed 7\n"), std::string::npos) << finished.out;
  EXPECT_NE(finished.out.find("--- answer 2, seed 8\n"), std::string::npos) << finished.out;
  EXPECT_NE(finished.err.find("2 answers"), std::string::npos) << finished.err;
}

// The program shows the answer whose tokens were likeliest in the mean (P9).
TEST_F(Answers, P9TheBestIsTheMostLikely) {
  for (const std::string draft : {"none", "context"}) {
    const json best = run_json({"--seed", "11", "--best", "4", "--temp", "1.5", "--draft", draft});
    const json all =
        run_json({"--seed", "11", "--answers", "4", "--temp", "1.5", "--draft", draft});
    ASSERT_EQ(best["answers"].size(), 4u);
    const size_t chosen = best["best"];
    ASSERT_LT(chosen, 4u);
    for (size_t i = 0; i < 4; ++i) {
      EXPECT_EQ(best["answers"][i]["tokens"], all["answers"][i]["tokens"]);
      EXPECT_LE(best["answers"][i]["mean_logprob"], best["answers"][chosen]["mean_logprob"]);
      EXPECT_LT(best["answers"][i]["mean_logprob"], 0.0);
    }
    const Finished shown = run({"--seed", "11", "--best", "4", "--temp", "1.5", "--draft", draft});
    expect_success(shown);
    EXPECT_EQ(shown.out, best["answers"][chosen]["text"].get<std::string>() + "\n");
    EXPECT_NE(shown.err.find("mean log-probability"), std::string::npos) << shown.err;
  }
}

// An answer that ends at once has no text of which one could say how likely it is.
TEST_F(Answers, P9AnAnswerWithoutATextComesLast) {
  const std::string empty_or_a = write("root ::= \"\" | \"a\"", "empty_or_a.gbnf");
  bool is_one_empty = false;
  for (int seed = 1; seed < 40 && !is_one_empty; seed += 4) {
    const json best = run_json(
        {"--seed", std::to_string(seed), "--best", "4", "--temp", "1.5", "--grammar", empty_or_a});
    const json& answers = best["answers"];
    size_t n_empty = 0;
    for (const json& answer : answers) {
      n_empty += answer["text"] == "";
      EXPECT_EQ(answer["mean_logprob"].is_null(), answer["text"] == "") << answer;
    }
    if (n_empty == 0 || n_empty == answers.size()) continue;
    is_one_empty = true;
    EXPECT_EQ(answers[best["best"].get<size_t>()]["text"], "a");
  }
  EXPECT_TRUE(is_one_empty);
}

TEST_F(Answers, WhatGoesWithOneAnswerOnlyIsRefused) {
  expect_refusal(run({"--answers", "0"}), 2, {"--answers"});
  expect_refusal(run({"--answers", "2", "--show-drafts"}), 2, {"--show-drafts"});
  expect_refusal(run({"--best", "2", "--show-drafts"}), 2, {"--show-drafts"});
  expect_refusal(run({"--best", "2", "--answers", "2"}), 2, {"--best"});
  expect_refusal(run({"--answers", "2", "--draft", "model:" + model_}), 2, {"--answers"});
  // A draft model is refused before it is downloaded.
  for (const std::string name : {"--answers", "--best"}) {
    Command command =
        troika_command({"run", model_, "-p", "a", name, "4", "--draft", "model:hf:a/b:Q4_0"});
    command.environment["HF_HUB_OFFLINE"] = "1";
    expect_refusal(run_program(command), 2, {"one answer at a time", name});
  }
}

// The program refuses a prompt that does not fit once, as it does for one answer.
TEST_F(Answers, APromptThatIsTooLongIsASentence) {
  expect_refusal(run({"--answers", "2", "--context", "2"}), 1, {"--context"});
}

}  // namespace
}  // namespace troika::test
