// Tests what the program keeps in memory: its ledger agrees with what the system counts, and
// --memory limits it.
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "tests/program/troika.h"
#include "tests/support/sanitized.h"
#include "tests/support/temp_folder.h"

namespace troika::test {
namespace {

using nlohmann::json;

constexpr double kMega = 1e6;

// These tests share one model of a hundred megabytes.
class LedgerProgram : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new TempFolder();
    test_support::TinyModel model = test_support::tiny_model("llama");
    model.n_layers = 8;
    model.width = 1024;
    model.n_heads = 16;
    model.n_kv_heads = 4;
    model.ffn_width = 3072;
    model.context = 2048;
    model.type = test_support::kQ8_0;
    const std::vector<uint8_t> bytes = tiny_model_bytes(model);
    write_whole(folder_->file("model.gguf"), {bytes.begin(), bytes.end()});
    std::string text;
    for (int i = 0; i < 90; ++i) text += "word ";  // is more tokens than a chunk has
    write_whole(folder_->file("prompt.txt"), text);
  }
  static void TearDownTestSuite() { delete folder_; }

  static Finished run(const std::vector<std::string>& more) {
    std::vector<std::string> words = {"run",     model(),
                                      "-f",      folder_->file("prompt.txt"),
                                      "-n",      "8",
                                      "--temp",  "0",
                                      "--json",  "--ignore-end",
                                      "--chunk", "128"};
    words.insert(words.end(), more.begin(), more.end());
    return troika(words);
  }
  static json json_of(const std::vector<std::string>& more) {
    const Finished finished = run(more);
    expect_success(finished);
    return json::parse(finished.out, nullptr, /*allow_exceptions=*/false);
  }
  static std::string model() { return folder_->file("model.gguf"); }

  static TempFolder* folder_;
};
TempFolder* LedgerProgram::folder_ = nullptr;

TEST_F(LedgerProgram, TheSumIsWhatTheSystemCounts) {
  if (kIsSanitized) GTEST_SKIP() << "sanitizers keep memory of their own";
  const std::vector<std::vector<std::string>> all = {
      {"--load", "map"},
      {"--load", "copy"},
      {"--prefill", "same"},
      {"--prefill", "f32", "--kv", "q8_0"},
      {"--prefill", "int8"},
      {"--prefill", "int8", "--packed", "1G"},
      {"--prefill", "int8", "--packed", "50M", "--load", "map"},
      {"--int8", "group", "--prefill", "int8"},
      {"--prefill", "int8", "--layouts", "switch"},
  };
  for (std::vector<std::string> flags : all) {
    std::string name;
    for (const std::string& flag : flags) name += flag + " ";
    // The context has the length of prompt and answer, so that all of it is in use.
    flags.insert(flags.end(), {"-c", "320", "--memory", "2G"});
    const json result = json_of(flags);
    const int n_prompt = result["prefill"]["tokens"];
    EXPECT_GT(n_prompt, 256) << name;  // shows that there are whole chunks
    const json& memory = result["memory"];
    const double total = memory["total_bytes"], resident = memory["resident_bytes"];
    EXPECT_NEAR(total, resident, 0.05 * resident + 8 * kMega) << name << memory.dump(1);
    EXPECT_LE(total, memory["limit_bytes"].get<double>());
    double sum = 0.0;
    for (const json& bytes : memory["owners"]) sum += bytes.get<double>();
    EXPECT_EQ(sum, total);
  }
}

TEST_F(LedgerProgram, WhatDoesNotFitIsRefusedInASentence) {
  expect_refusal(run({"--memory", "16M"}), 1, {"--memory 16.8 MB", "weights ", "a smaller model"});
  // 500 MB have room for the weights, and for a program that sanitizers make large.
  expect_refusal(run({"--memory", "500M", "-c", "100000"}), 1,
                 {"A context of 100000 tokens", "--context ", "--kv q8_0", "weights"});
  expect_refusal(run({"--memory", "1G", "--machine", "phones/8gen3.json"}), 2,
                 {"--memory", "modelled time"});
}

TEST_F(LedgerProgram, PackedCopiesShrinkToTheLimit) {
  const std::vector<std::string> flags = {"-c", "320", "--prefill", "int8", "--packed", "1G"};
  const json free = json_of(flags);
  EXPECT_TRUE(free["memory"]["limit_bytes"].is_null());
  const double packed = free["memory"]["owners"]["packed"];
  EXPECT_GT(packed, 60 * kMega);
  const auto limit =
      static_cast<uint64_t>(free["memory"]["total_bytes"].get<double>() - 0.5 * packed);
  std::vector<std::string> with_limit = flags;
  with_limit.insert(with_limit.end(), {"--memory", std::to_string(limit)});
  const json limited = json_of(with_limit);
  EXPECT_LE(limited["memory"]["total_bytes"], limit);
  EXPECT_LT(limited["memory"]["owners"]["packed"], packed);
  EXPECT_GT(limited["memory"]["owners"]["packed"], 0.2 * packed);
  EXPECT_EQ(limited["tokens"], free["tokens"]);
}

TEST_F(LedgerProgram, TheContextThatNobodyAskedForShrinksToTheLimit) {
  const auto memory_of = [](const std::string& limit) {
    const Finished finished =
        troika({"run", model(), "-p", "word", "-n", "4", "--json", "--memory", limit});
    expect_success(finished);
    return json::parse(finished.out, nullptr, /*allow_exceptions=*/false);
  };
  const json free = memory_of("auto");
  EXPECT_EQ(free["context"], 2048);
  const double all = free["memory"]["total_bytes"], cache = free["memory"]["owners"]["cache"];
  const auto limit = static_cast<uint64_t>(all - 0.25 * cache);
  const json shorter = memory_of(std::to_string(limit));
  EXPECT_LE(shorter["memory"]["total_bytes"], limit);
  EXPECT_GE(shorter["context"], 256);
  EXPECT_LT(shorter["context"], 2048);
  EXPECT_EQ(memory_of("4G")["context"], 2048);
}

TEST_F(LedgerProgram, ThePlanPrintsItAsATableAndAsJson) {
  // The model is small, because candidates for a plan are measured with it.
  const std::string small = folder_->file("small.gguf");
  write_tiny_model(small_model(), small);
  const Finished both = troika({"plan", small, "--explain", "--json", "--memory", "1G"});
  expect_success(both);
  for (const char* part :
       {"in memory", "  weights ", "  keys and values ", "  together ", "  limit ", "room for "}) {
    EXPECT_NE(both.err.find(part), std::string::npos) << part << both.err;
  }
  const json plan = json::parse(both.out, nullptr, false);  // is nothing but JSON
  EXPECT_GT(plan["memory"]["owners"]["weights"], std::filesystem::file_size(small) / 2);
  EXPECT_LT(plan["memory"]["owners"]["weights"], std::filesystem::file_size(small));
  EXPECT_GE(plan["memory"]["slots"], plan["context"]);
  const std::string file = folder_->file("plan.json");
  test::write_whole(file, both.out);
  expect_success(troika({"run", small, "--plan", file, "-p", "Once", "-n", "1"}));
}

}  // namespace
}  // namespace troika::test
