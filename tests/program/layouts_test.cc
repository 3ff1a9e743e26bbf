// Runs from the command line with one copy of the weights, which changes its layout during a prompt
// (D1).
#include <nlohmann/json.hpp>

#include "tests/program/troika.h"
#include "tests/support/repository.h"

namespace troika::test {
namespace {

using nlohmann::json;

class LayoutsProgram : public ProgramTest {
 protected:
  void SetUp() override {
    test_support::TinyModel model = small_model();
    model.n_layers = 5;
    model.type = test_support::kQ4_0;
    model_ = write(model);
    std::string text;
    for (int i = 0; i < 120; ++i) text += "word ";
    write_whole(folder_.file("prompt.txt"), text);
  }
  std::vector<std::string> run(std::vector<std::string> more) const {
    std::vector<std::string> words = {
        "run", model_, "-f", folder_.file("prompt.txt"), "-n", "12", "--ignore-end", "--temp", "0"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  json json_of(std::vector<std::string> more) const {
    more.push_back("--json");
    const Finished finished = troika(run(more));
    expect_success(finished);
    return json::parse(finished.out, nullptr, /*allow_exceptions=*/false);
  }
  std::string model_;
};

TEST_F(LayoutsProgram, D1TheTextIsThatOfOneLayoutAndMemoryHoldsOneCopy) {
  const json blocks = json_of({"--prefill", "int8", "--chunk", "64"});
  EXPECT_TRUE(blocks["layouts"].is_null());
  const json both = json_of({"--prefill", "int8", "--chunk", "64", "--layouts", "both"});
  const json one = json_of({"--prefill", "int8", "--chunk", "64", "--layouts", "switch"});
  EXPECT_EQ(one["tokens"], blocks["tokens"]);
  EXPECT_EQ(both["tokens"], blocks["tokens"]);
  const json& layouts = one["layouts"];
  EXPECT_EQ(layouts["blocks"], 5);
  EXPECT_EQ(layouts["blocks_for_steps"], 5);
  EXPECT_GE(layouts["loads"], 5);
  EXPECT_GT(layouts["load_s"], 0.0);
  EXPECT_GT(layouts["bytes_now"], 0);
  EXPECT_LE(layouts["bytes_peak"].get<uint64_t>(), layouts["bytes_of_a_copy"].get<uint64_t>() +
                                                       layouts["bytes_of_a_block"].get<uint64_t>());
}

TEST_F(LayoutsProgram, D1TheTimelineShowsLoads) {
  const std::string picture = folder_.file("timeline.svg");
  const Finished finished =
      troika(run({"--int8", "token", "--layouts", "switch", "--timeline", picture}));
  expect_success(finished);
  EXPECT_NE(finished.err.find("layouts"), std::string::npos) << finished.err;
  const std::string svg = read_whole(picture);
  for (const char* part : {">layout<", ">loads<", "load 4,", "panels 0,", "blocks 4,"}) {
    EXPECT_NE(svg.find(part), std::string::npos) << part;
  }
}

TEST_F(LayoutsProgram, D1WhatCannotSwitchIsRefused) {
  expect_refusal(troika(run({"--layouts", "switch"})), 2, {"--prefill int8"});
  expect_refusal(troika(run({"--layouts", "some"})), 2, {"blocks, both and switch"});
  expect_refusal(troika(run({"--layouts", "switch", "--prefill", "int8", "--packed", "1MB"})), 2,
                 {"--packed"});
  expect_refusal(troika(run({"--layouts", "both", "--machine", "phones/8gen3.json"})), 2,
                 {"this machine", "switch"});
  expect_refusal(troika(run({"--layouts", "switch", "--machine", "phones/8gen3.json", "--order",
                             "out-of-order"})),
                 2, {"--order in-order"});
}

// On a simulated phone, other software computes prompts, and graphs change while a prompt runs.
TEST_F(LayoutsProgram, D1AGraphOfAPhoneChangesToo) {
  const std::string phones = test::repository_file("phones");
  const Finished finished =
      troika({"bench", "qwen2.5-0.5b", "--machine", phones + "/8gen2.json", "--stack", "sd.npu",
              "--prompt-stack", "sd.npu.prompts", "--lanes", "cpu;npu", "--chunk", "256",
              "--layouts", "switch", "-p", "800", "-n", "2", "--json"});
  ASSERT_EQ(finished.status, 0) << finished.err;
  const json layouts = json::parse(finished.out)["layouts"];
  EXPECT_EQ(layouts["blocks"], 24);
  EXPECT_EQ(layouts["blocks_for_steps"], 24);
  EXPECT_GE(layouts["loads"], 24);
  EXPECT_GT(layouts["load_s"], 0.0);
  expect_refusal(troika({"bench", "qwen2.5-0.5b", "--machine", phones + "/8gen2.json", "--stack",
                         "sd.npu", "--prompt-stack", "no-such"}),
                 2, {"no stack 'no-such'"});
}

}  // namespace
}  // namespace troika::test
