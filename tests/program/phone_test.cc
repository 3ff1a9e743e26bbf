// Runs virtual phones from the command line, and tests files that are kept between runs.
#include <filesystem>
#include <nlohmann/json.hpp>

#include "tests/program/troika.h"
#include "tests/support/repository.h"

namespace troika::test {
namespace {

using nlohmann::json;

const std::string kPhones = test::repository_file("phones/");

class PhoneProgram : public ProgramTest {
 protected:
  Finished on_phone(std::vector<std::string> words, const std::string& stack = "heterollm") const {
    for (const std::string& word :
         {std::string("--machine"), kPhones + "8gen3.json", std::string("--stack"), stack}) {
      words.push_back(word);
    }
    return troika(words);
  }
  json json_of(const Finished& finished) const {
    expect_success(finished);
    return json::parse(finished.out, nullptr, /*allow_exceptions=*/false);
  }
};

TEST_F(PhoneProgram, V4_BenchTimesAModelThatIsOnlyAName) {
  const json j = json_of(on_phone({"bench", "mixtral-8x7b", "-p", "32,64", "-n", "2", "--json"}));
  EXPECT_EQ(j["model"], "mixtral-8x7b");
  EXPECT_EQ(j["machine"], "8gen3 with heterollm");
  ASSERT_EQ(j["prefill"].size(), 2u);
  EXPECT_EQ(j["prefill"][1]["tokens"], 64);
  EXPECT_GT(j["prefill"][1]["tokens_per_s"].get<double>(), 0.0);
  EXPECT_GT(j["decode"]["tokens_per_s"].get<double>(), 0.0);
  EXPECT_GT(j["decode"]["joules_per_token"].get<double>(), 0.0);
  EXPECT_GT(j["peaks"]["read_gb_s"].get<double>(), 0.0);
  for (const char* key : {"precision", "load_s", "first_token_s", "peak_bytes"}) {
    EXPECT_TRUE(j.contains(key)) << key;
  }
}

// The context that a bench needs is the sum of what was asked for.
TEST_F(PhoneProgram, ABenchOfMoreTokensThanAContextHoldsIsRefused) {
  for (const std::string name : {"--tokens", "--depth", "--prompt"}) {
    expect_refusal(on_phone({"bench", "tiny-llama", name, "2147483647"}), 2,
                   {name, "to 134217728"});
  }
  expect_refusal(on_phone({"bench", "tiny-llama", "-n", "134217728", "--depth", "134217728"}), 2,
                 {"--tokens 134217728", "--depth 134217728", "longest"});
  // So is the one that plans are chosen with.
  expect_refusal(troika({"plan", "tiny-llama", "--choose", "-p", "2147483647"}), 2,
                 {"--prompts", "to 134217728"});
}

TEST_F(PhoneProgram, APlanForAPhoneIsAFileThatRuns) {
  const std::string plan = folder_.file("plan.json");
  const std::string model = write(small_model());
  expect_success(on_phone({"plan", model, "-c", "128", "-o", plan}, "llm.npu"));
  const Finished forced =
      on_phone({"run", model, "-p", "Once", "-n", "4", "--temp", "0", "--plan", plan}, "llm.npu");
  const Finished here = troika({"run", model, "-p", "Once", "-n", "4", "--temp", "0"});
  expect_success(forced);
  EXPECT_EQ(forced.out, here.out);
  const Finished pruned = on_phone(
      {"run", model, "-p", "Once", "-n", "4", "--temp", "0", "--plan", plan, "--npu-prune", "40"},
      "llm.npu");
  expect_success(pruned);
  EXPECT_NE(pruned.err.find("--npu-prune does nothing here: " + plan), std::string::npos)
      << pruned.err;
  expect_refusal(on_phone({"run", model, "-p", "Once", "--plan", plan}, "heterollm"), 1,
                 {plan, "another machine", "8gen3 with llm.npu"});
  expect_refusal(troika({"run", model, "-p", "Once", "--plan", plan}), 1,
                 {plan, "another machine"});
}

// The computer takes another time in each run, but the phone takes the same.
TEST_F(PhoneProgram, V4_RunTellsTheTimeAndTheEnergyOfThePhone) {
  const std::string model = write(small_model());
  const auto run = [&](std::vector<std::string> more) {
    std::vector<std::string> words = {"run",    model, "-p",     "Once", "-n",      "6",
                                      "--temp", "0",   "--seed", "1",    "--draft", "none"};
    words.insert(words.end(), more.begin(), more.end());
    return on_phone(words, "llm.npu");
  };
  const json first = json_of(run({"--json"})), second = json_of(run({"--json"}));
  EXPECT_EQ(first["machine"], "8gen3 with llm.npu");
  EXPECT_EQ(first["is_modelled"], true);
  EXPECT_GT(first["joules"].get<double>(), 0.0);
  EXPECT_GT(first["decode"]["seconds"].get<double>(), 0.0);
  for (const char* part : {"prefill", "decode", "joules"}) EXPECT_EQ(first[part], second[part]);

  const json together = json_of(run({"--answers", "2", "--json"}));
  EXPECT_EQ(together["machine"], "8gen3 with llm.npu");
  EXPECT_EQ(together["together"]["seconds"],
            json_of(run({"--answers", "2", "--json"}))["together"]["seconds"]);

  const std::string told = run({}).err;
  EXPECT_NE(told.find("8gen3 with llm.npu; times and rates of answers are modelled"),
            std::string::npos)
      << told;
  const json here = json_of(troika({"run", model, "-p", "Once", "-n", "2", "--json"}));
  EXPECT_EQ(here["machine"], "here");
  EXPECT_EQ(here["is_modelled"], false);
}

// What a draft model takes is not in the phone's clock, so it would draft for nothing.
TEST_F(PhoneProgram, ADraftModelIsRefused) {
  const std::string model = write(small_model());
  const std::string tasks = folder_.file("tasks.jsonl");
  write_whole(tasks, "{\"prompt\": \"one two one two\"}\n");
  const std::string draft = "model:" + model;
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"run", model, "-p", "Once", "-n", "4", "--draft", draft},
        std::vector<std::string>{"eval", model, "--cag", tasks, "--drafts", draft}}) {
    expect_refusal(on_phone(words, "llm.npu"), 2, {"draft model", "--machine", "--draft context"});
  }
  const Finished drafted =
      on_phone({"run", model, "-p", "Once", "-n", "4", "--stats", "--draft", "sam"}, "llm.npu");
  expect_success(drafted);
  EXPECT_NE(drafted.err.find("ms of this machine"), std::string::npos) << drafted.err;
}

TEST_F(PhoneProgram, ExplainShowsWhereThingsRun) {
  const Finished finished = on_phone({"plan", "llama-3-8b", "--explain"});
  expect_success(finished);
  for (const char* part : {"attention", "npu", "gpu", "all on cpu", "tokens/s", "of weights"}) {
    EXPECT_NE(finished.out.find(part), std::string::npos) << part << "\n" << finished.out;
  }
}

TEST_F(PhoneProgram, H10_CutsOfLeastTimeAreFoundShownAndFaster) {
  const std::vector<std::string> lanes = {"--lanes", "gpu;npu"};
  const auto with = [&](std::vector<std::string> words, std::vector<std::string> more) {
    words.insert(words.end(), lanes.begin(), lanes.end());
    words.insert(words.end(), more.begin(), more.end());
    return on_phone(words);
  };
  const auto rate = [&](const char* kind, std::vector<std::string> more) {
    const json j = json_of(with({"bench", "llama-3-8b", "-p", "300", "-n", "2", "--json"}, more));
    return (kind == std::string("decode") ? j["decode"] : j["prefill"][0])["tokens_per_s"]
        .get<double>();
  };
  EXPECT_GT(rate("decode", {"--cut", "auto"}), 1.1 * rate("decode", {}));
  EXPECT_GT(rate("prefill", {"--cut", "auto"}), 1.1 * rate("prefill", {}));
  EXPECT_EQ(rate("decode", {"--cut", "auto", "--no-cuts"}), rate("decode", {}));
  const Finished explained = with({"plan", "llama-3-8b", "--explain"}, {"--cut", "auto"});
  expect_success(explained);
  for (const char* part : {"parts ms", "ffn_down rows:", "not cut, best would be heads:"}) {
    EXPECT_NE(explained.out.find(part), std::string::npos) << part << "\n" << explained.out;
  }
}

TEST_F(PhoneProgram, H12_TheMarginSaysHowOddLengthsAreDivided) {
  const auto with = [&](const char* lanes, const char* cut) {
    return on_phone({"bench", "llama-3-8b", "-p", "300", "-n", "2", "--json", "--lanes", lanes,
                     "--prompt-shapes", "32,64,128,256,512", "--cut", cut});
  };
  const json margin = json_of(with("gpu;npu", "margin"));
  const json least = json_of(with("gpu;npu", "auto"));
  EXPECT_EQ(margin["decode"]["tokens_per_s"], least["decode"]["tokens_per_s"]);
  EXPECT_NE(margin["prefill"][0]["tokens_per_s"], least["prefill"][0]["tokens_per_s"]);
  const Finished nothing = with("gpu;cpu", "margin");
  expect_success(nothing);
  EXPECT_NE(nothing.err.find("--cut does nothing here: margin divides no prompt"),
            std::string::npos);
  EXPECT_EQ(with("gpu;npu", "margin").err.find("divides no prompt"), std::string::npos);
}

TEST_F(PhoneProgram, N2_ExplainSaysWhatChunksShareAndWhatThatSaves) {
  std::vector<std::string> words = {"plan",           "qwen1.5-1.8b", "--explain",
                                    "--cut-at-norms", "--chunk",      "256"};
  const Finished four = on_phone(words, "llm.npu");
  expect_success(four);
  for (const char* part : {"120 of the 144 subgraphs", "each of the 4 chunks", "sharing saves"}) {
    EXPECT_NE(four.out.find(part), std::string::npos) << part << "\n" << four.out;
  }
  words.back() = "1024";
  const Finished one = on_phone(words, "llm.npu");
  expect_success(one);
  EXPECT_NE(one.out.find("saves 0.0 KB (0 %)"), std::string::npos) << one.out;
}

// A table and JSON tell the same: how long a prompt waits for graphs of its own.
TEST_F(PhoneProgram, BenchTellsTheTimeOfGraphsThatEachPromptMakes) {
  const auto bench = [&](const char* stage) {
    return json_of(on_phone(
        {"bench", "tiny-llama", "-p", "64", "-n", "1", "--npu-step", stage, "--json"}, "llm.npu"));
  };
  const json naive = bench("naive"), chunk = bench("chunk");
  EXPECT_GT(naive["prefill"][0].at("graphs_s").get<double>(), 0.0);
  EXPECT_EQ(naive["load_s"].get<double>(), 0.0);
  EXPECT_EQ(chunk["prefill"][0].at("graphs_s").get<double>(), 0.0);
  EXPECT_GT(chunk["load_s"].get<double>(), 0.0);
}

TEST_F(PhoneProgram, N9_ANoteSaysWhereTheMemoryOfALaneEnded) {
  const std::vector<std::string> plan = {"plan",       "llama-2-7b",   "--type",   "q8_0",
                                         "--lanes",    "cpu;npu",      "--chunk",  "256",
                                         "--npu-step", "out-of-order", "--explain"};
  const Finished limited = on_phone(plan, "llm.npu");
  expect_success(limited);
  EXPECT_NE(limited.err.find("it runs 'out' in 0 of 32 blocks"), std::string::npos) << limited.err;
  EXPECT_NE(limited.out.find("npu holds 3.99 GB"), std::string::npos) << limited.out;
  std::vector<std::string> words = plan;
  words.insert(words.end(), {"--lane-memory", "1=64G"});
  const Finished whole = on_phone(words, "llm.npu");
  expect_success(whole);
  EXPECT_EQ(whole.err.find("of 32 blocks"), std::string::npos) << whole.err;
}

TEST_F(PhoneProgram, AConstantCanBeGiven) {
  const auto seconds = [&](std::vector<std::string> more) {
    std::vector<std::string> words = {"bench", "tiny-llama", "-p", "64", "-n", "1", "--json"};
    words.insert(words.end(), more.begin(), more.end());
    return json_of(on_phone(words, "llm.npu"))["prefill"][0]["tokens_per_s"].get<double>();
  };
  EXPECT_GT(seconds({}), 1.5 * seconds({"--constant", "cpu.launch_us=5000", "--lanes", "cpu"}));
  expect_refusal(on_phone({"bench", "tiny-llama", "--constant", "cpu.speed=1"}), 2, {"cpu.speed"});
  expect_refusal(on_phone({"bench", "tiny-llama", "--constant", "cpu.prime.count=0", "--constant",
                           "cpu.middle.count=0"}),
                 1, {"cpu.middle.count"});
  expect_refusal(on_phone({"bench", "tiny-llama", "--constant", "cpu.prime.count=0.6"}), 1,
                 {"cpu.prime.count", "whole number"});
  expect_refusal(on_phone({"bench", "tiny-llama", "--constant", "cpu.launch_us"}), 2,
                 {"--constant", "NAME=VALUE"});
}

TEST_F(PhoneProgram, WrongUseIsASentence) {
  expect_refusal(troika({"bench", "llama-3-8b", "--machine", kPhones + "8gen3.json"}), 2,
                 {"--stack", "llm.npu"});
  expect_refusal(on_phone({"bench", "llama-3-8b"}, "nosuch"), 2, {"nosuch", "heterollm"});
  expect_refusal(
      troika({"plan", "tiny-llama", "--machine", "/no/8gen3.json", "--stack", "llm.npu"}), 1,
      {"--machine /no/8gen3.json", "no such file", "share/troika/phones"});
  expect_refusal(troika({"reproduce", "micro", "--phones", "/no"}), 1,
                 {"no folder /no", "--phones", "share/troika/phones"});
  expect_refusal(on_phone({"bench", "llama-9-1b"}), 1, {"llama-9-1b"});
  expect_refusal(on_phone({"bench", "llama-3-8b", "--lanes", "cpu;tpu"}), 2, {"tpu", "npu"});
  expect_refusal(on_phone({"run", "llama-3-8b", "-p", "x"}), 1, {"llama-3-8b"});
  expect_refusal(on_phone({"bench", "llama-3-8b", "--widths", "1"}), 2, {"--machine"});
}

TEST_F(PhoneProgram, S6S7S8SparseAttentionHasSwitchesForItsParts) {
  const auto bench = [&](std::vector<std::string> more) {
    std::vector<std::string> words = {"bench",
                                      "tiny-qwen2",
                                      "-p",
                                      "256",
                                      "-n",
                                      "1",
                                      "-c",
                                      "512",
                                      "--chunk",
                                      "128",
                                      "--lanes",
                                      "cpu;npu",
                                      "--phone-cores",
                                      "middle=1",
                                      "--ordinary-handover",
                                      "--json"};
    words.insert(words.end(), more.begin(), more.end());
    return on_phone(words, "shadowattn");
  };
  const auto seconds = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"--attention", "query"});
    return json_of(bench(more))["prefill"][0]["seconds"].get<double>();
  };
  const double all = seconds({});
  EXPECT_LT(all, seconds({"--attention-heads", "in-turn"}));
  EXPECT_LE(all, seconds({"--attention-heads", "overlap"}));
  EXPECT_LT(seconds({"--attention-lanes", "cpu,cpu,cpu", "--attention-block", "64"}),
            seconds({"--attention-lanes", "cpu,cpu,cpu"}));
  EXPECT_LE(seconds({"--attention-share", "10", "--attention-equal"}),
            seconds({"--attention-share", "90", "--attention-equal"}));
  expect_refusal(bench({"--attention-heads", "fused"}), 2, {"--attention-heads", "query"});
  expect_refusal(bench({"--attention", "query", "--attention-heads", "all"}), 2,
                 {"--attention-heads", "in-turn"});
  expect_refusal(bench({"--attention", "query", "--attention-buckets", "2"}), 2,
                 {"--attention-buckets 2", "9"});
  expect_refusal(bench({"--attention", "query", "--attention-lanes", "npu,npu,cpu"}), 2,
                 {"--attention-lanes", "selection"});
  const auto cores = [&](const char* text) {
    return on_phone({"bench", "tiny-qwen2", "--phone-cores", text}, "shadowattn");
  };
  expect_refusal(cores("large=2"), 2, {"--phone-cores", "large=2"});
  expect_refusal(cores("middle=9"), 2, {"--phone-cores", "9 middle"});
  expect_refusal(bench({"--bus-taken", "70"}), 2, {"--bus-taken 70"});
  expect_refusal(bench({"--bus-taken", "nan"}), 2, {"--bus-taken"});
  for (const char* depth : {"0", "-5"}) {
    expect_refusal(bench({"--device-queue", depth}), 2, {"--device-queue"});
  }
  expect_refusal(troika({"bench", write(small_model()), "--attention-block", "64"}), 2,
                 {"--attention-block", "--machine"});
  const std::string model = write(small_model());
  expect_refusal(on_phone({"run", model, "-p", "Once", "--attention", "query"}, "shadowattn"), 2,
                 {"--attention query", "bench"});
}

TEST_F(PhoneProgram, CacheListsAndRemovesWhatIsKept) {
  const std::string home = folder_.file("cache");
  std::filesystem::create_directories(home + "/troika");
  write_whole(home + "/troika/profile-0123456789abcdef.json", "{}");
  write_whole(home + "/troika/something", "abc");
  const auto cache = [&](std::vector<std::string> words) {
    words.insert(words.begin(), "cache");
    Command command = troika_command(words);
    command.environment["XDG_CACHE_HOME"] = home;
    return run_program(command);
  };
  json j = json_of(cache({"--json"}));
  ASSERT_EQ(j["files"].size(), 2u);
  EXPECT_EQ(j["files"][0]["kind"], "profile");
  EXPECT_EQ(j["bytes"], 5);
  expect_refusal(cache({"--remove", "nosuch"}), 2, {"nosuch"});
  expect_success(cache({"--remove", "something"}));
  EXPECT_FALSE(std::filesystem::exists(home + "/troika/something"));
  EXPECT_EQ(json_of(cache({"--remove-all", "--json"}))["removed"],
            json::array({"profile-0123456789abcdef.json"}));
  j = json_of(cache({"--json"}));
  EXPECT_EQ(j["files"].size(), 0u);
}

}  // namespace
}  // namespace troika::test
