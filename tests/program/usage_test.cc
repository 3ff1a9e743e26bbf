// Tests wrong options and values, prompts that do not fit, and which options --help names.
#include <sched.h>

#include <array>
#include <nlohmann/json.hpp>

#include "tests/program/troika.h"
#include "tests/support/repository.h"

namespace troika::test {
namespace {

class Usage : public ProgramTest {
 protected:
  void SetUp() override { model_ = write(small_model()); }
  Finished run(std::vector<std::string> more) const {
    std::vector<std::string> words = {"run", model_, "-p", "Once upon a time", "-n", "3"};
    words.insert(words.end(), more.begin(), more.end());
    return troika(words);
  }
  std::string model_;
};

TEST_F(Usage, NothingAtAllShowsTheCommands) {
  expect_refusal(
      troika({}), 2,
      {"run", "chat", "bench", "eval", "inspect", "tokenize", "quantize", "synth", "--version"});
}

TEST_F(Usage, UnknownCommandAndFlag) {
  expect_refusal(troika({"dance"}), 2, {"no command 'dance'", "--help"});
  expect_refusal(troika({"--dance"}), 2, {"--dance", "--help"});
  // A word behind an option that is not known may be its value, and is called no command.
  expect_refusal(troika({"-m", "model.gguf", "-p", "hello"}), 2, {"-m is no option", "--help"});
  expect_refusal(troika({"--seed", "5"}), 2, {"--seed is no option", "--help"});
  expect_refusal(run({"--nosuch"}), 2, {"--nosuch", "--help"});
  expect_refusal(troika({"run"}), 2, {"MODEL", "--help"});
  expect_refusal(troika({"run", model_, "something"}), 2, {"something"});
}

TEST_F(Usage, WhatIsMissingOrGivenTwiceIsNamed) {
  expect_refusal(run({"-n", "4"}), 2, {"--tokens is given more than once", "--help"});
  expect_refusal(troika({"run", model_}), 2, {"There is no prompt", "-p TEXT"});
  expect_refusal(run({"-f", model_}), 2, {"several times", "-p TEXT"});
}

TEST_F(Usage, APreTokenizerThatNobodyKnowsIsRefused) {
  const std::string byte_level = write(small_model("qwen2"), "byte-level.gguf");
  expect_refusal(troika({"tokenize", byte_level, "-p", "a", "--pre", "nosuch"}), 2,
                 {"--pre \"nosuch\"", "llama-bpe"});
}

TEST_F(Usage, AShapeWithoutWeightsNeedsAPhone) {
  for (const char* const command : {"bench", "run"}) {
    std::vector<std::string> words = {command, "tiny-llama", "-n", "1"};
    if (words[0] == "run") words.insert(words.end(), {"-p", "a"});
    expect_refusal(troika(words), 2, {"tiny-llama", "--machine", "synth --like"});
  }
  // These open the file themselves.
  for (const std::vector<std::string>& words : {std::vector<std::string>{"tune", "tiny-llama"},
                                                {"plan", "tiny-llama", "--choose"},
                                                {"neurons", "tiny-llama"},
                                                {"sparsity", "tiny-llama"}}) {
    expect_refusal(troika(words), 2, {"tiny-llama", "--machine", "synth --like"});
  }
}

TEST_F(Usage, NumbersBeyond64BitsAreRefused) {
  for (const char* const name : {"--memory", "--seed"}) {
    expect_refusal(run({name, "18446744073709551616"}), 2, {name, "18446744073709551616"});
  }
}

TEST_F(Usage, WrongValues) {
  const std::vector<std::pair<std::string, std::string>> wrong = {{"--temp", "-1"},
                                                                  {"--temp", "hot"},
                                                                  {"--temp", "nan"},
                                                                  {"--temp", "inf"},
                                                                  {"--top-p", "0"},
                                                                  {"--top-p", "1.5"},
                                                                  {"--top-p", "nan"},
                                                                  {"--top-k", "-1"},
                                                                  {"--min-p", "-0.1"},
                                                                  {"--min-p", "1"},
                                                                  {"--repeat-penalty", "0"},
                                                                  {"--frequency-penalty", "inf"},
                                                                  {"--presence-penalty", "nan"},
                                                                  {"--penalty-window", "-2"},
                                                                  {"--threads", "-3"},
                                                                  {"--memory", "much"},
                                                                  {"--memory", "-1M"},
                                                                  {"--threads", "100000"},
                                                                  {"--threads", "two"},
                                                                  {"--context", "-1"},
                                                                  {"--context", "99999999999"},
                                                                  {"--kv", "q3"},
                                                                  {"--activations", "x"},
                                                                  {"--prefill", "fp4"},
                                                                  {"--int8", "shadows"},
                                                                  {"--int8-weights", "some"},
                                                                  {"--weight-outliers", "51"},
                                                                  {"--outlier-prune", "101"},
                                                                  {"--load", "huge"},
                                                                  {"--layouts", "panels"},
                                                                  {"--shadow-rows", "some"},
                                                                  {"--order", "random"},
                                                                  {"--lanes", "0,0"},
                                                                  {"--place", "ffn=1"},
                                                                  {"--place", "legs=0"},
                                                                  {"--chunk", "31"},
                                                                  {"--in-flight", "-1"},
                                                                  {"--kernels", "nosuch"},
                                                                  {"--logit-bias", "junk"},
                                                                  {"--logit-bias", "5"},
                                                                  {"--logit-bias", "5=x"},
                                                                  {"--logit-bias", "-5=1"},
                                                                  {"--logit-bias", "5=nan"},
                                                                  {"--logit-bias", "99999999999=1"},
                                                                  {"--logit-bias", "512=1"},
                                                                  {"--seed", "abc"},
                                                                  {"--seed", "-1"}};
  for (const auto& [flag, value] : wrong) {
    SCOPED_TRACE(flag + " " + value);
    // A message about a value names the option, or at least the value.
    const Finished finished = run({flag + "=" + value});
    expect_refusal(finished, 2, {});
    EXPECT_TRUE(finished.err.find(flag) != std::string::npos ||
                finished.err.find("'" + value + "'") != std::string::npos)
        << finished.err;
    EXPECT_EQ(finished.out, "");
    EXPECT_EQ(finished.err.find("‹"), std::string::npos) << finished.err;
  }
}

TEST_F(Usage, WrongProcessorsAndStepsOfAPhone) {
  const std::vector<std::string> phone = {"--machine", repository_file("phones/8gen3.json")};
  const auto expect = [&](std::vector<std::string> words, const std::string& part) {
    words.insert(words.begin(), phone.begin(), phone.end());
    expect_refusal(run(words), 2, {part});
  };
  expect({"--stack", "nothing"}, "llm.npu");
  expect({"--stack", "llm.npu", "--lanes", "cpu;dsp"}, "dsp");
  expect({"--stack", "llm.npu", "--lanes", "cpu;cpu"}, "twice");
  expect({"--stack", "llm.npu", "--npu-step", "sideways"}, "out-of-order");
  expect({"--stack", "llm.npu", "--npu-step", "outlier", "--npu-prune", "101"}, "--npu-prune 101");
  expect({"--stack", "llm.npu", "--memory", "1G"}, "--memory");
  expect({"--stack", "powerinfer-2", "--neurons", "sideways"}, "llmflash");
  expect({"--stack", "powerinfer-2", "--phone-pipeline", "sideways"}, "cluster");
  expect({"--stack", "llm.npu", "--layouts", "both"}, "--layouts");
}

TEST_F(Usage, MemoryOfLanesIsALaneAndBytes) {
  for (const char* text : {"", "1", "=1G", "1=", "x=1G", "1=1X", "-1=1G", "1=1G;2=1G"}) {
    expect_refusal(run({"--lane-memory", text}), 2, {"--lane-memory"});
  }
  expect_refusal(run({"--lane-memory", "3=1G"}), 2, {"there is no lane 3"});
  // At least one lane must have memory for all weights.
  expect_refusal(run({"--lane-memory", "0=1K"}), 1, {"memory for all weights"});
}

TEST_F(Usage, SwitchesOfAPhoneAreRefusedHere) {
  const std::vector<std::vector<std::string>> all = {
      {"--stack", "llm.npu"}, {"--npu-step", "outlier"}, {"--npu-prune", "50"},
      {"--npu-plain-shapes"}, {"--ordinary-handover"},   {"--constant", "npu.launch_us=1"},
      {"--live", "0.2"},      {"--ffn-share", "0.5"},    {"--phone-pipeline", "matrix"}};
  for (const auto& words : all) expect_refusal(run(words), 2, {words[0], "--machine"});
}

TEST_F(Usage, SwitchesOfThisMachineAreRefusedOnAPhone) {
  const std::vector<std::vector<std::string>> all = {
      {"--prefill", "bf16"},      {"--int8", "token"},       {"--int8-weights", "row"},
      {"--weight-outliers", "2"}, {"--outlier-prune", "50"}, {"--packed", "1M"},
      {"--npu-prune", "50"},      {"--attention", "sparse"}, {"--attention-share", "10"}};
  for (std::vector<std::string> words : all) {
    const std::string name = words[0];
    words.insert(words.end(),
                 {"--machine", test::repository_file("phones/8gen3.json"), "--stack", "llm.npu"});
    expect_refusal(run(words), 2, {name, "leave"});
  }
}

TEST_F(Usage, WhatIsNoNumberIsSaidInASentence) {
  const Finished refused = troika({"bench", "bamboo-7b", "--ffn-share", "50%"});
  expect_refusal(refused, 2, {"--ffn-share takes a number, and '50%' is none"});
}

// A command that takes no phone advises none of its own.
TEST_F(Usage, AShapeWithoutWeightsIsForBenchAndPlan) {
  for (const std::vector<std::string>& words : std::vector<std::vector<std::string>>{
           {"tune", "tiny-llama"}, {"serve", "tiny-llama", "--port", "0"}}) {
    expect_refusal(troika(words), 2, {"'troika bench' and 'troika plan'", "--like tiny-llama"});
  }
}

TEST_F(Usage, SwitchesThatThePlanLeavesWithoutEffectAreNoted) {
  const std::vector<std::vector<std::string>> all = {{"--order", "in-order"},
                                                     {"--in-flight", "2"},
                                                     {"--shadow-rows", "all"},
                                                     {"--packed", "1M"},
                                                     {"--int8-weights", "row"},
                                                     {"--weight-outliers", "2"},
                                                     {"--outlier-prune", "50"},
                                                     {"--strict-npu"},
                                                     {"--attention-share", "10"},
                                                     {"--attention-from", "2048"},
                                                     {"--neuron-pipeline", "matrix"},
                                                     {"--neuron-pins", "10"},
                                                     {"--neuron-gates", "memory"},
                                                     {"--neuron-reads", "twice"},
                                                     {"--neuron-ahead"},
                                                     {"--neuron-lru"},
                                                     {"--no-neuron-ahead"},
                                                     {"--no-cuts"},
                                                     {"--cut-at-norms"},
                                                     {"--cut-at-activations"},
                                                     {"--neurons=cache", "--ffn", "by-output"},
                                                     {"--place", "ffn=0"},
                                                     {"--lane-memory", "0=1G"},
                                                     {"--lane-busy", "0=100"}};
  for (std::vector<std::string> words : all) {
    const std::string noted =
        "note: " + words[0].substr(0, words[0].find('=')) + " does nothing here: ";
    words.insert(words.end(), {"--prefill", "f32"});
    const Finished finished = run(words);
    expect_success(finished);
    EXPECT_NE(finished.err.find(noted), std::string::npos) << noted << finished.err;
  }
  const Finished plain = run({"--prefill", "f32"});
  EXPECT_EQ(plain.err.find("does nothing"), std::string::npos) << plain.err;
  const Finished useful = run({"--prefill", "int8", "--packed", "1M"});
  EXPECT_EQ(useful.err.find("does nothing"), std::string::npos) << useful.err;
}

TEST_F(Usage, SwitchesOfDraftsWithoutEffectAreNoted) {
  for (const auto& [kind, name, value] :
       std::vector<std::array<std::string, 3>>{{"none", "--draft-width", "3"},
                                               {"none", "--calibrate-drafts", "10"},
                                               {"sam", "--calibrate-drafts", "10"}}) {
    const Finished idle = run({"--draft", kind, name, value});
    expect_success(idle);
    EXPECT_NE(idle.err.find("note: " + name + " does nothing here: --draft " + kind),
              std::string::npos)
        << idle.err;
  }
  const Finished without_texts = run({"--draft", "history"});
  expect_success(without_texts);
  EXPECT_NE(without_texts.err.find("note: history in --draft history guesses nothing here"),
            std::string::npos)
      << without_texts.err;
  const Finished with_texts =
      run({"--draft", "sam+history", "--history", folder_.file("history.bin")});
  EXPECT_EQ(with_texts.err.find("guesses nothing"), std::string::npos) << with_texts.err;
  const Finished useful = run({"--draft", "sam+calibrated", "--calibrate-drafts", "10"});
  EXPECT_EQ(useful.err.find("does nothing"), std::string::npos) << useful.err;
}

TEST_F(Usage, SwitchesOfSamplingAndOutputWithoutEffectAreNoted) {
  const std::string answer = write("abc", "answer.txt");
  // Each row has an option with its value, and the option beside which it does nothing.
  const std::vector<std::pair<std::vector<std::string>, std::vector<std::string>>> all = {
      {{"--top-k", "5"}, {"--temp", "0"}},
      {{"--top-p", "0.5"}, {"--temp", "0"}},
      {{"--min-p", "0.1"}, {"--temp", "0"}},
      {{"--seed", "5"}, {"--temp", "0"}},
      {{"--penalty-window", "5"}, {}},
      {{"--repeat-penalty", "2"}, {"--penalty-window", "0"}},
      {{"--system", "be brief"}, {}},
      {{"--show-drafts"}, {"--json"}},
      {{"--stats"}, {"--json"}},
      {{"--stats"}, {"--draft", "none"}},
      {{"--stats"}, {"--answers", "2"}},
      {{"--temp", "1"}, {"--force-text", answer}},
      {{"--top-k", "5"}, {"--force-text", answer}},
      {{"--seed", "5"}, {"--force-text", answer}},
      {{"--best", "2"}, {"--temp", "0"}},
      {{"--ignore-end"}, {"--force-text", answer}},
      {{"--history", folder_.file("history.bin")}, {"--force-text", answer}}};
  for (const auto& [idle, beside] : all) {
    std::vector<std::string> words = idle;
    words.insert(words.end(), beside.begin(), beside.end());
    const Finished finished = run(words);
    expect_success(finished);
    EXPECT_NE(finished.err.find("note: " + idle[0] + " does nothing here: "), std::string::npos)
        << idle[0] << finished.err;
  }
  for (const std::vector<std::string>& words :
       std::vector<std::vector<std::string>>{{"--top-k", "5", "--seed", "5", "--temp", "1"},
                                             {"--penalty-window", "5", "--repeat-penalty", "1.1"},
                                             {"--lane-busy", "0=50"},
                                             {"--seed", "18446744073709551615"},
                                             {"--stats"}}) {
    const Finished useful = run(words);
    expect_success(useful);
    EXPECT_EQ(useful.err.find("does nothing"), std::string::npos) << useful.err;
  }
}

// Each row has an option of bench or eval that nothing of what is measured looks at.
TEST_F(Usage, SwitchesOfMeasuringWithoutEffectAreNoted) {
  const std::string text = write(std::string("Once upon a time there was a cat."), "text.txt");
  const std::vector<std::string> rates = {"-p", "8", "-n", "1", "-r", "1"};
  const std::vector<std::string> widths = {"--widths", "1", "-r", "1"};
  const std::vector<std::string> perplexity = {"--perplexity", text};
  const auto expect_idle = [&](const std::string& command, const std::vector<std::string>& basis,
                               const std::vector<std::vector<std::string>>& all) {
    std::vector<std::string> words = {command, model_};
    words.insert(words.end(), basis.begin(), basis.end());
    const Finished plain = troika(words);
    EXPECT_EQ(plain.err.find("does nothing"), std::string::npos) << plain.err;
    for (const auto& idle : all) words.insert(words.end(), idle.begin(), idle.end());
    const Finished finished = troika(words);
    expect_success(finished);
    for (const auto& idle : all) {
      EXPECT_NE(finished.err.find("note: " + idle[0] + " does nothing here: "), std::string::npos)
          << idle[0] << finished.err;
    }
  };
  expect_idle("bench", rates,
              {{"--pairs", "2"}, {"--draft", "sam"}, {"--history", "x"}, {"--type", "q8_0"}});
  expect_idle("bench", widths, {{"--prompt", "8"}, {"--tokens", "1"}, {"--pairs", "2"}});
  expect_idle("bench", {"--replay", text, "--force-text", text, "--pairs", "1"},
              {{"--depth", "3"}, {"--repetitions", "1"}, {"--history", "x"}});
  expect_idle("eval", perplexity,
              {{"--first", "2"},
               {"--chat"},
               {"--first-line"},
               {"--first-word"},
               {"--drafts", "sam"},
               {"--draft-width", "3"},
               {"--answer", "4"}});
}

TEST_F(Usage, NoCutsIsNotedWhereAPlanHasNone) {
  const std::string plain = folder_.file("plain.json"), cut = folder_.file("cut.json");
  expect_success(troika({"plan", model_, "-o", plain, "--threads", "1"}));
  const Finished idle = run({"--plan", plain, "--no-cuts"});
  expect_success(idle);
  EXPECT_NE(idle.err.find("note: --no-cuts does nothing here: "), std::string::npos) << idle.err;
  cpu_set_t cores;
  ASSERT_EQ(sched_getaffinity(0, sizeof(cores), &cores), 0);
  if (!CPU_ISSET(0, &cores) || !CPU_ISSET(1, &cores)) GTEST_SKIP() << "needs the cores 0 and 1";
  expect_success(
      troika({"plan", model_, "-o", cut, "--lanes", "0;1", "--cut", "ffn@step=rows:0:1,1:1"}));
  const Finished useful = run({"--plan", cut, "--no-cuts"});
  expect_success(useful);
  EXPECT_EQ(useful.err.find("--no-cuts"), std::string::npos) << useful.err;
}

TEST_F(Usage, SwitchesThatAPlanFileReplacesAreNoted) {
  const std::string plan = folder_.file("plan.json");
  expect_success(troika({"plan", model_, "-o", plan, "--threads", "1"}));
  const std::vector<std::vector<std::string>> all = {
      {"--threads", "2"},       {"--context", "64"},         {"--kv", "q8_0"},
      {"--place", "ffn=0"},     {"--place", "ffn=50000000"}, {"--lane-memory", "1=1G"},
      {"--activations", "f32"}, {"--prefill", "f32"},        {"--attention", "sparse"},
      {"--chunk", "64"}};
  for (std::vector<std::string> words : all) {
    const std::string noted = "note: " + words[0] + " does nothing here: " + plan;
    words.insert(words.end(), {"--plan", plan});
    const Finished finished = run(words);
    expect_success(finished);
    EXPECT_NE(finished.err.find(noted), std::string::npos) << noted << finished.err;
  }
  const Finished alone = run({"--plan", plan});
  EXPECT_EQ(alone.err.find("does nothing"), std::string::npos) << alone.err;
  expect_success(troika({"plan", model_, "-o", plan, "--threads", "1", "--prefill", "int8"}));
  const Finished packed = run({"--packed", "1M", "--plan", plan});
  expect_success(packed);
  EXPECT_NE(packed.err.find("note: --packed does nothing here: " + plan), std::string::npos)
      << packed.err;
}

TEST_F(Usage, APlanMayComeFromAPipe) {
  const std::string plan = folder_.file("plan.json");
  expect_success(troika({"plan", model_, "-o", plan, "--threads", "1"}));
  expect_success(
      troika({"run", model_, "-p", "Once", "-n", "1", "--plan", "/dev/stdin"}, read_whole(plan)));
  expect_success(
      troika({"run", model_, "-p", "Once", "-n", "1", "--plan", "/dev/stdin", "--no-cuts"},
             read_whole(plan)));
}

TEST_F(Usage, SparseAttentionThatNoPromptCanReachIsNoted) {
  const Finished idle = run({"--attention", "sparse", "--context", "128"});
  expect_success(idle);
  EXPECT_NE(idle.err.find("--attention does nothing here: the context holds 128 tokens"),
            std::string::npos)
      << idle.err;
  expect_refusal(run({"--attention", "blocks"}), 2, {"'blocks'", "sparse"});
  expect_refusal(run({"--attention", "sparse", "--prefill", "f32"}), 2, {"--prefill", "steps"});
  expect_refusal(run({"--attention", "sparse", "--chunk", "100"}), 2, {"--chunk 100", "64"});
}

// One lane plans no order of heads, and what the program says at its start says so.
TEST_F(Usage, S7AnOrderOfHeadsOnOneLaneIsNoted) {
  const std::vector<std::string> heads = {"--attention", "query", "--attention-lanes", "0,0,0",
                                          "--prefill",   "bf16",  "--context",         "1100",
                                          "--threads",   "1",     "--attention-heads", "ordered"};
  const Finished idle = run(heads);
  expect_success(idle);
  EXPECT_NE(idle.err.find("--attention-heads does nothing here: one lane has no order"),
            std::string::npos)
      << idle.err;
  std::vector<std::string> words = {"plan", model_, "--explain"};
  words.insert(words.end(), heads.begin(), heads.end());
  const Finished explained = troika(words);
  expect_success(explained);
  EXPECT_NE(explained.out.find("; heads fused: "), std::string::npos) << explained.out;
}

// Mistakes are found before a model is loaded.
TEST_F(Usage, S1TheEstimateRefusesWhatItWouldPassOver) {
  const std::string text = write(std::string("Once upon a time. "), "text.txt");
  const auto estimate = [&](std::vector<std::string> more) {
    std::vector<std::string> words = {"eval", folder_.file("no.gguf"), "--estimate"};
    words.insert(words.end(), more.begin(), more.end());
    return troika(words);
  };
  expect_refusal(estimate({"--tasks", text}), 2, {"--perplexity"});
  expect_refusal(estimate({"--perplexity", text, "--losses", "x"}), 2, {"leave --losses out"});
  expect_refusal(estimate({"--perplexity", text, "--second-half"}), 2, {"--second-half"});
  expect_refusal(estimate({"--perplexity", text, "--first", "3"}), 2, {"--first"});
  const std::vector<std::string> words = {"eval",      model_,    "--perplexity", text,
                                          "--prefill", "bf16",    "--estimate",   "--attention",
                                          "full",      "--chunk", "128"};
  expect_refusal(troika(words), 2, {"No query was looked at", "longer text"});
  std::vector<std::string> early = words;
  early.insert(early.end(), {"--attention-from", "0"});
  expect_refusal(troika(early), 2, {"--attention-from 0"});
}

TEST_F(Usage, LanesWithoutWorkAreNoted) {
  cpu_set_t cores;
  ASSERT_EQ(sched_getaffinity(0, sizeof(cores), &cores), 0);
  if (!CPU_ISSET(0, &cores) || !CPU_ISSET(1, &cores)) GTEST_SKIP() << "needs the cores 0 and 1";
  const Finished idle = run({"--lanes", "0;1"});
  expect_success(idle);
  EXPECT_NE(idle.err.find("lane 1 has no work"), std::string::npos) << idle.err;
  const Finished placed = run({"--lanes", "0;1", "--place", "ffn=1", "--order", "in-order"});
  expect_success(placed);
  EXPECT_EQ(placed.err.find("does nothing"), std::string::npos) << placed.err;
  // A rule gives a lane work only if an executable is one that the rule is for.
  const std::vector<std::pair<std::string, std::string>> rules = {
      {"norm=1", "'norm' is no subgraph of its own here (see --cut-at-norms"},
      {"ffn@100000=1", "no executable of 'ffn' is for 100000 tokens or more"},
      {"@100000=1", "no executable of any subgraph is for 100000 tokens or more"},
      {"head@prompt=1", "no executable of 'head' is for prompts\n"}};
  for (const auto& [rule, why] : rules) {
    const Finished met = run({"--lanes", "0;1", "--place", rule});
    expect_success(met);
    EXPECT_NE(met.err.find("note: --place does nothing here: " + why), std::string::npos)
        << met.err;
    EXPECT_NE(met.err.find("lane 1 has no work"), std::string::npos) << met.err;
  }
  const Finished cut = run({"--lanes", "0;1", "--place", "norm=1", "--cut-at-norms"});
  expect_success(cut);
  EXPECT_EQ(cut.err.find("does nothing"), std::string::npos) << cut.err;
  const Finished shadow = run({"--lanes", "0;1", "--place", "shadow=1", "--prefill", "q8"});
  expect_success(shadow);
  EXPECT_NE(shadow.err.find("lane 1 has no work"), std::string::npos) << shadow.err;
  const Finished split =
      run({"--lanes", "0;1", "--place", "shadow=1", "--prefill", "int8", "--int8", "llm.int8"});
  expect_success(split);
  EXPECT_EQ(split.err.find("does nothing"), std::string::npos) << split.err;
  for (const std::string order : {"in-order", "lock-step"}) {
    const Finished alone =
        run({"--lanes", "0;1", "--place", "ffn=1", "--order", order, "--in-flight", "3"});
    expect_success(alone);
    EXPECT_NE(alone.err.find("note: --in-flight does nothing here: " + order), std::string::npos)
        << alone.err;
  }
}

// A cut does nothing if no executable has the number of rows that it is for.
TEST_F(Usage, CutsThatMeetNoExecutableAreNoted) {
  cpu_set_t cores;
  ASSERT_EQ(sched_getaffinity(0, sizeof(cores), &cores), 0);
  if (!CPU_ISSET(0, &cores) || !CPU_ISSET(1, &cores)) GTEST_SKIP() << "needs the cores 0 and 1";
  const Finished idle = run({"--lanes", "0;1", "--cut", "ffn@5000-6000=rows:0:1,1:1"});
  expect_success(idle);
  EXPECT_NE(idle.err.find("--cut does nothing here: no executable has as many rows"),
            std::string::npos)
      << idle.err;
  const Finished cut = run({"--lanes", "0;1", "--cut", "ffn@step=rows:0:1,1:1"});
  expect_success(cut);
  EXPECT_EQ(cut.err.find("--cut does nothing"), std::string::npos) << cut.err;
  const Finished automatic = run({"--lanes", "0;1", "--cut", "auto"});
  expect_success(automatic);
  EXPECT_NE(automatic.err.find("'troika plan MODEL --choose'"), std::string::npos) << automatic.err;
}

TEST_F(Usage, WrongNumbersOfTokens) {
  for (const std::string value : {"-1", "99999999999", "many", "1.5"}) {
    SCOPED_TRACE(value);
    expect_refusal(troika({"run", model_, "-p", "Once", "-n", value}), 2,
                   {"--tokens", "'" + value + "'"});
  }
}

TEST_F(Usage, ATokenCanBeForbiddenForGood) { expect_success(run({"--logit-bias=5=-inf"})); }

TEST_F(Usage, AContextThatMemoryDoesNotHold) {
  expect_refusal(run({"--context", "2000000000"}), 1, {"2000000000", "--context"});
}

TEST_F(Usage, AFolderIsNoPlan) {
  expect_refusal(run({"--plan", "/"}), 1, {"/: the plan cannot be read", "'troika plan MODEL"});
}

// A device has no end, so that a program that reads all of it never ends.
TEST_F(Usage, AFileWithoutAnEndIsRefused) {
  const std::vector<std::string> device = {"/dev/zero", "268435456 bytes", "another file"};
  expect_refusal(run({"--plan", "/dev/zero"}), 1, {"/dev/zero", "67108864", "another file"});
  expect_refusal(troika({"run", model_, "-n", "1", "-f", "/dev/zero"}), 1, device);
  expect_refusal(run({"--grammar", "/dev/zero"}), 1, device);
  expect_refusal(run({"--json-schema", "/dev/zero"}), 1, device);
  expect_refusal(troika({"profile", "--from", "/dev/zero"}), 1, {"/dev/zero", "67108864"});
  expect_refusal(troika({"plan", model_, "--calibrate", "/dev/zero"}), 1, device);
}

TEST_F(Usage, ThePromptMustBeGivenOnce) {
  write("a text", "prompt.txt");
  const std::string file = folder_.file("prompt.txt");
  expect_refusal(troika({"run", model_}), 2, {"-p TEXT", "-f FILE"});
  expect_refusal(run({"-f", file}), 2, {"once"});
  expect_refusal(run({"-"}), 2, {"once"});
  expect_refusal(run({"extra"}), 2, {"'extra' is not understood"});
  const std::string none = folder_.file("none.txt");
  expect_refusal(troika({"run", model_, "-f", none}), 1, {none, "Check the path"});
  expect_refusal(troika({"run", model_, "-f", "/"}), 1, {"/", "Give a file"});
}

TEST_F(Usage, EmptyPrompt) {
  // A model with a begin token can continue an empty prompt; a model without one cannot.
  expect_success(troika({"run", model_, "-p", "", "-n", "2"}));
  const std::string no_bos = write(small_model("qwen2"), "no-bos.gguf");
  expect_refusal(troika({"run", no_bos, "-p", "", "-n", "2"}), 1, {"prompt is empty"});
  expect_refusal(troika({"run", no_bos, "-", "-n", "2"}), 1, {"prompt is empty"});
}

TEST_F(Usage, PromptLongerThanTheContext) {
  std::string text;
  for (int i = 0; i < 100; ++i) text += "word ";
  expect_refusal(troika({"run", model_, "-p", text, "-c", "16"}), 1,
                 {"context holds 16", "--context", "Shorten"});
  // The context that is advised holds the answer, too.
  const std::string told = troika({"run", model_, "-p", text, "-c", "16", "-n", "7"}).err;
  const size_t n_prompt = std::stoul(told.substr(told.find("prompt has ") + 11));
  EXPECT_NE(told.find("--context " + std::to_string(n_prompt + 7) + ","), std::string::npos)
      << told;
}

TEST_F(Usage, ContextOfOneToken) {
  // The begin token fills the context, so nothing more fits.
  const Finished finished = troika({"run", model_, "-p", "", "-c", "1", "--json"});
  expect_success(finished);
  EXPECT_EQ(nlohmann::json::parse(finished.out)["stop"], "context");
}

TEST_F(Usage, InvalidUtf8InThePrompt) {
  for (const std::string& model : {model_, write(small_model("qwen2"), "bpe.gguf")}) {
    const std::string prompt = "caf\xc3 \xff\xfe\x80 \xed\xa0\x80 \xf5 end";
    expect_success(troika({"run", model, "-p", prompt, "-n", "5"}));
    const Finished finished =
        troika({"run", model, "-n", "40", "--json", "--seed", "1", "--temp", "5", "-"},
               prompt + std::string("\0more", 5));
    expect_success(finished);
    const nlohmann::json json = nlohmann::json::parse(finished.out);  // throws for invalid UTF-8
    EXPECT_TRUE(json["text"].is_string());
    for (const std::string flag : {"--json", "--ids", "--no-bos"}) {
      expect_success(troika({"tokenize", model, "-p", prompt, flag}));
    }
  }
}

TEST_F(Usage, AnAbsurdNumberOfTokensEndsWithTheContext) {
  const Finished finished = troika({"run", model_, "-p", "Once", "-n", "2147483647", "-c", "64",
                                    "--ignore-end", "--json", "--seed", "3"});
  expect_success(finished);
  const nlohmann::json json = nlohmann::json::parse(finished.out);
  EXPECT_EQ(json["stop"], "context");
  EXPECT_EQ(json["prefill"]["tokens"].get<int>() + static_cast<int>(json["tokens"].size()), 64);
}

TEST_F(Usage, HelpOfEachCommandNamesItsOptions) {
  const std::vector<std::pair<std::string, std::vector<std::string>>> commands = {
      {"run",
       {"MODEL",
        "--prompt",
        "--file",
        "--tokens",
        "--chat",
        "--system",
        "--stop",
        "--special",
        "--ignore-end",
        "--json",
        "--temp",
        "--top-k",
        "--top-p",
        "--min-p",
        "--repeat-penalty",
        "--frequency-penalty",
        "--presence-penalty",
        "--penalty-window",
        "--logit-bias",
        "--seed",
        "--threads",
        "--context",
        "--kv",
        "--activations",
        "--kernels",
        "--pre"}},
      {"chat",
       {"MODEL", "--system", "--template", "--tokens", "--temp", "/help", "/clear", "Ctrl-C"}},
      {"bench",
       {"MODEL", "--prompt", "--prefill", "--tokens", "--depth", "--repetitions", "--compare",
        "--pairs", "--json"}},
      {"eval", {"MODEL", "--perplexity", "--tasks", "--first", "--chat", "--json"}},
      {"inspect", {"MODEL", "--tensors", "--all", "--json"}},
      {"tokenize", {"MODEL", "--prompt", "--file", "--no-bos", "--special", "--ids", "--json"}},
      {"quantize", {"IN", "OUT", "--type", "q4_k_m", "--json"}},
      {"synth",
       {"OUT", "--like", "--type", "--seed", "--list", "--json", "--plant-outliers", "--channels",
        "--scale", "--head-scales", "--plant-sparsity", "--overlap", "--plant-attention",
        "--plant-length"}}};
  const Finished all = troika({"--help"});
  expect_success(all);
  for (const auto& [command, options] : commands) {
    SCOPED_TRACE(command);
    EXPECT_NE(all.out.find("  " + command), std::string::npos);
    const Finished help = troika({command, "--help"});
    expect_success(help);
    for (const std::string& option : options) {
      EXPECT_NE(help.out.find(option), std::string::npos) << option;
    }
  }
}

TEST_F(Usage, MoreThreadsThanCoresAreNoted) {
  const Finished many = run({"--threads", "200"});
  expect_success(many);
  EXPECT_NE(many.err.find("--threads 200 are more than the"), std::string::npos) << many.err;
  EXPECT_EQ(run({"--threads", "1"}).err.find("are more than"), std::string::npos);
}

// The model may take long to load, so that a text which is missing is told before.
TEST_F(Usage, AMissingTextIsToldBeforeTheModelIsLoaded) {
  const std::string none = folder_.file("none.txt"), model = folder_.file("none.gguf");
  expect_refusal(troika({"eval", model, "--perplexity", none}), 1, {none, "Check the path"});
  expect_refusal(troika({"eval", model, "--tasks", none}), 1, {none, "Check the path"});
}

TEST_F(Usage, WrongWaysToEvaluate) {
  expect_refusal(troika({"eval", model_}), 2, {"--perplexity", "--tasks"});
  const std::vector<std::pair<std::string, std::string>> wrong = {
      {"", "no text"},
      {"{\"text\": \"a\"}\n{\"other\": 1}\n", ":2:"},
      {"{\"text\": \"a\"}\nnonsense\n", ":2:"},
      {"[\"a\", 1]", "strings"},
      {"[]", "no text"}};
  for (const auto& [text, part] : wrong) {
    SCOPED_TRACE(text);
    expect_refusal(troika({"eval", model_, "--perplexity", write(text, "text")}), 1,
                   {folder_.file("text"), part});
  }
  expect_refusal(
      troika({"eval", model_, "--second-half", "--perplexity", write("[\"a\"]", "text")}), 2,
      {"--second-half", "plain text"});
  expect_refusal(troika({"eval", model_, "--second-half", "--perplexity", write("a b", "text")}), 1,
                 {"tokens", "--context"});
  const std::vector<std::pair<std::string, std::string>> wrong_tasks = {
      {"", "no task"},
      {"{\"prompt\": \"a\"}\n", "answer"},
      {"{\"prompt\": \"a\", \"answer\": \"b\", \"kind\": 7}\n", "kind"},
      {"\n\n[1]\n", ":3:"}};
  for (const auto& [text, part] : wrong_tasks) {
    SCOPED_TRACE(text);
    expect_refusal(troika({"eval", model_, "--tasks", write(text, "tasks")}), 1,
                   {folder_.file("tasks"), part});
  }
}

TEST_F(Usage, WrongWaysToBench) {
  expect_refusal(troika({"bench", model_, "-p", "0"}), 2, {"--prompt"});
  expect_refusal(troika({"bench", model_, "-p", "8,x"}), 2, {"--prompt"});
  expect_refusal(troika({"bench", model_, "-p", "5000", "-n", "2", "-c", "64"}), 1,
                 {"5000", "--context"});
}

TEST_F(Usage, PeersThatCannotBeComparedWith) {
  const auto beside = [&](const std::string& peer) {
    return troika(
        {"bench", model_, "-p", "8", "-n", "1", "-r", "1", "--pairs", "1", "--compare", peer});
  };
  expect_refusal(beside("/no/such/llama-bench"), 1, {"/no/such/llama-bench"});
  expect_refusal(beside("llama-bench -p 512"), 2, {"leave -p out"});
  expect_refusal(beside("sh -c 'exit 3'"), 1, {"status 3"});
  expect_refusal(beside("echo nonsense #"), 1, {"JSON", "nonsense"});
  expect_refusal(beside("echo '[{\"n_prompt\": 8}]' #"), 1, {"avg_ts"});
  // Copies of such a value would use up the stack.
  const std::string deep(400'000, '[');
  const std::string results =
      write("[{\"n_prompt\": 8, \"n_gen\": 0, \"avg_ts\": 4.0, \"backends\": " + deep +
                std::string(deep.size(), ']') + "}]",
            "results.json");
  expect_refusal(beside("cat " + results + " #"), 1, {"nested more than 32 deep", "llama-bench"});
}

TEST_F(Usage, WrongWaysToQuantizeAndSynthesize) {
  const std::string out = folder_.file("out.gguf");
  expect_refusal(troika({"quantize", model_}), 2, {"OUT"});
  expect_refusal(troika({"quantize", model_, out, "--type", "q3_z"}), 2, {"q3_z", "q4_k_m"});
  expect_refusal(troika({"synth", out}), 2, {"--like", "--list"});
  expect_refusal(troika({"synth", "--like", "nosuch", out}), 2, {"nosuch", "tiny-llama"});
  expect_refusal(troika({"synth", "--like", "tiny-llama", "--type", "q3_z", out}), 2, {"q3_z"});
  expect_refusal(troika({"quantize", model_, model_}), 2, {model_, "which is read"});
  const auto plant = [&](std::vector<std::string> more) {
    std::vector<std::string> words = {"synth", "--plant-outliers", model_};
    words.insert(words.end(), more.begin(), more.end());
    return troika(words);
  };
  expect_refusal(plant({}), 2, {"OUT"});
  expect_refusal(plant({model_}), 2, {model_, "which is read"});
  expect_refusal(plant({out, "--like", "tiny-llama"}), 2, {"--like", "--plant-outliers"});
  expect_refusal(plant({out, "--channels", "many"}), 2, {"--channels", "many", "0.3%"});
  expect_refusal(plant({out, "--channels", "80%"}), 2, {"80%"});
  expect_refusal(plant({out, "--scale", "48"}), 2, {"48", "power of two"});
  expect_refusal(plant({out, "--type", "q8_0"}), 2, {"q8_0", "f16"});
  expect_refusal(troika({"synth", "--like", "tiny-llama", "--scale", "64", out}), 2,
                 {"--scale", "--plant-outliers"});
  expect_refusal(troika({"synth", "--plant-outliers", out + ".none", out}), 1, {out + ".none"});
  EXPECT_EQ(folder_.n_files(), 1u);
  EXPECT_TRUE(read_whole(model_) == model_bytes(small_model()));
}

TEST_F(Usage, P8PlanningOfNeuronsSaysWhatItNeeds) {
  expect_refusal(troika({"plan", model_, "--choose-neurons"}), 2, {"--choose-neurons", "--memory"});
  expect_refusal(troika({"plan", model_, "--choose-neurons", "--choose", "--memory", "1G"}), 2,
                 {"--choose-neurons", "--choose"});
  expect_refusal(
      troika({"plan", model_, "--choose-neurons", "--memory", "1G", "--ffn", "every-neuron"}), 2,
      {"--choose-neurons", "--ffn every-neuron"});
  expect_refusal(troika({"plan", model_, "--profile", model_ + ".none"}), 2,
                 {"--profile", "--choose-neurons"});
}

TEST_F(Usage, P8PlanningOfNeuronsWantsOneLane) {
  cpu_set_t cores;
  ASSERT_EQ(sched_getaffinity(0, sizeof(cores), &cores), 0);
  if (!CPU_ISSET(0, &cores) || !CPU_ISSET(1, &cores)) GTEST_SKIP() << "needs the cores 0 and 1";
  expect_refusal(troika({"plan", model_, "--choose-neurons", "--memory", "1G", "--lanes", "0;1"}),
                 2, {"--choose-neurons", "--lanes"});
}

TEST_F(Usage, WrongWaysToPlantAttention) {
  const std::string out = folder_.file("out.gguf");
  const auto plant = [&](std::vector<std::string> more) {
    std::vector<std::string> words = {"synth", "--like", "tiny-llama3", out};
    words.insert(words.end(), more.begin(), more.end());
    return troika(words);
  };
  for (const char* share : {"0", "0%"}) {
    expect_refusal(plant({"--plant-attention", share}), 2, {"--plant-attention", "40%"});
  }
  for (const char* share : {"1", "100%", "nan", "inf", "-20%"}) {
    expect_refusal(plant({std::string("--plant-attention=") + share}), 2,
                   {"--plant-attention", "less than 1"});
  }
  expect_refusal(plant({"--plant-attention", "much"}), 2, {"--plant-attention", "much"});
  expect_refusal(plant({"--plant-attention", "0.1%"}), 2, {"0.1%", "keep"});
  expect_refusal(plant({"--plant-attention", "40%", "--plant-length", "1024"}), 2,
                 {"--plant-length", "1024"});
  expect_refusal(plant({"--plant-length", "2048"}), 2, {"--plant-length", "--plant-attention"});
  expect_refusal(plant({"--plant-attention", "40%", "--plant-sparsity", "15%"}), 2,
                 {"--plant-attention", "--plant-sparsity", "two files"});
  expect_refusal(troika({"synth", "--plant-outliers", model_, out, "--plant-attention", "40%"}), 2,
                 {"--plant-attention", "--plant-outliers"});
  EXPECT_EQ(folder_.n_files(), 1u);
}

TEST_F(Usage, WrongSharesOfLiveNeurons) {
  const std::string out = folder_.file("out.gguf");
  for (const std::string share : {"0", "-1%", "nan", "inf", "150%"}) {
    SCOPED_TRACE(share);
    expect_refusal(troika({"synth", "--like", "tiny-llama", "--plant-sparsity=" + share, out}), 2,
                   {"neurons"});
  }
  EXPECT_EQ(folder_.n_files(), 1u);
}

// `profile` checks lanes and threads as `run` does.
TEST_F(Usage, ProfileChecksLanesAsARunDoes) {
  expect_refusal(troika({"profile", "--threads", "-1"}), 2, {"--threads -1", "makes no sense"});
  expect_refusal(troika({"profile", "--threads", "2", "--lanes", "0"}), 2,
                 {"--lanes", "leave --threads out"});
}

}  // namespace
}  // namespace troika::test
