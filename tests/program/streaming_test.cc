// Runs a model that is larger than its memory (P10) from the command line.
#include <nlohmann/json.hpp>

#include <utility>

#include "tests/program/run_test.h"
#include "tests/support/sanitized.h"

namespace troika::test {
namespace {

using nlohmann::json;

class Streaming : public RunTest {
 protected:
  Streaming()
      : RunTest({"-p", "Once upon a time", "-n", "12", "--temp", "0", "--context", "128",
                 // Buffers of many threads would take the memory that is left for weights.
                 "--threads", "2"}) {}
  void SetUp() override {
    test_support::TinyModel model = test_support::tiny_model("llama");
    model.type = test_support::kQ8_0;
    model.n_layers = 16;
    model.width = 512;
    model.n_heads = 8;
    model.n_kv_heads = 4;
    model.ffn_width = 2048;
    model_ = write(model);
  }
};

TEST_F(Streaming, P10TheTextIsThatOfAModelInMemory) {
  const json whole = run_json({});
  EXPECT_TRUE(whole["stream"].is_null());
  const auto total = whole["memory"]["total_bytes"].get<int64_t>();
  const std::string limit = std::to_string(total - (int64_t{24} << 20));
  const json streamed = run_json({"--memory", limit});
  EXPECT_EQ(streamed["tokens"], whole["tokens"]);
  EXPECT_GT(streamed["stream"]["streamed_parts"], 0);
  EXPECT_GT(streamed["stream"]["read_bytes"], 0);
  EXPECT_LE(streamed["memory"]["total_bytes"], streamed["memory"]["limit_bytes"]);
  const Finished people = run({"--memory", limit});
  expect_success(people);
  EXPECT_NE(people.err.find("are read for each pass while blocks compute"), std::string::npos)
      << people.err;
  EXPECT_NE(people.err.find("streamed "), std::string::npos) << people.err;
}

class StreamingExperts : public Streaming {
 protected:
  void SetUp() override {
    test_support::TinyModel model = test_support::tiny_model("mixtral");
    model.type = test_support::kQ8_0;
    model.n_layers = 10;
    model.width = 512;
    model.n_heads = 8;
    model.n_kv_heads = 4;
    model.ffn_width = model.expert_width = 1024;
    model_ = write(model);
  }
};

TEST_F(StreamingExperts, P10TheTextIsThatOfExpertsInMemory) {
  const json whole = run_json({});
  const auto total = whole["memory"]["total_bytes"].get<int64_t>();
  const std::string limit = std::to_string(total - (int64_t{24} << 20));
  uint64_t n_in_order = 0;
  for (const char* reads : {"in-order", "by-route", "guessed"}) {
    const json streamed = run_json({"--memory", limit, "--expert-reads", reads});
    EXPECT_EQ(streamed["tokens"], whole["tokens"]) << reads;
    EXPECT_LE(streamed["memory"]["total_bytes"], streamed["memory"]["limit_bytes"]);
    const json stream = streamed["stream"];
    if (!stream.contains("experts")) {
      n_in_order = stream["read_bytes"];
      EXPECT_STREQ(reads, "in-order");
      continue;
    }
    const json experts = stream["experts"];
    EXPECT_GT(experts["hits"], 0);
    EXPECT_GT(experts["misses"], 0);
    EXPECT_TRUE(experts["right_guesses"] > 0 || reads == std::string("by-route"));
    EXPECT_LT(experts["read_bytes"], n_in_order);
  }
  const Finished people = run({"--memory", limit});
  expect_success(people);
  EXPECT_NE(people.err.find("experts have places"), std::string::npos) << people.err;
  EXPECT_NE(people.err.find("% read ahead"), std::string::npos) << people.err;
  const Finished idle = run({"--expert-reads", "by-route"});
  EXPECT_NE(idle.err.find("note: --expert-reads does nothing here: all weights are in memory"),
            std::string::npos)
      << idle.err;
}

TEST_F(StreamingExperts, P10WhereNothingIsGuessedItIsSaid) {
  if (kIsSanitized) GTEST_SKIP() << "a sanitised program's own memory differs from run to run";
  const auto total = run_json({})["memory"]["total_bytes"].get<int64_t>();
  // With the least memory that is accepted, to a megabyte, blocks take turns and routers with them.
  int64_t refused = total / 8, accepted = total - (int64_t{24} << 20);
  const auto guessed = [&](int64_t bytes) {
    // Values of a large chunk would be reckoned for longer than they are held.
    return run({"--memory", std::to_string(bytes), "--expert-reads", "guessed", "--chunk", "32"});
  };
  const std::string noted = "note: --expert-reads does nothing here: blocks take turns";
  // The run that was accepted is kept, because another one may need a little more.
  Finished least = guessed(accepted);
  expect_success(least);
  EXPECT_EQ(least.err.find(noted), std::string::npos);
  while (accepted - refused > int64_t{1} << 20) {
    const int64_t middle = refused + (accepted - refused) / 2;
    Finished tried = guessed(middle);
    (tried.status == 0 ? accepted : refused) = middle;
    if (tried.status == 0) least = std::move(tried);
  }
  EXPECT_NE(least.err.find(noted), std::string::npos) << least.err;
}

TEST_F(StreamingExperts, P11ScalesThatAreNotForExpertsAreNoted) {
  for (const char* scales : {"int4", "tensor"}) {
    const Finished noted = run({"--prefill", "int8", "--int8-weights", scales});
    expect_success(noted);
    EXPECT_NE(noted.err.find(std::string("note: --int8-weights ") + scales + " is not for experts"),
              std::string::npos)
        << noted.err;
  }
  const Finished plain = run({"--prefill", "int8"});
  EXPECT_EQ(plain.err.find("not for experts"), std::string::npos) << plain.err;
}

TEST_F(Streaming, P10WhereBlocksMayNotBeReadTheLimitIsSaid) {
  const json whole = run_json({});
  const auto total = whole["memory"]["total_bytes"].get<int64_t>();
  const std::string limit = std::to_string(total - (int64_t{24} << 20));
  expect_refusal(run({"--memory", limit, "--load", "map"}), 1, {"--memory"});
}

}  // namespace
}  // namespace troika::test
