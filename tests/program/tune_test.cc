// Tunes a model, and tests that later runs use its plan without being told.
#include <sched.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <iterator>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/program/troika.h"
#include "tests/support/repository.h"
#include "tests/support/sanitized.h"

namespace troika::test {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

constexpr const char* kNotice = "Plan: tuned on ";

class Tune : public ProgramTest {
 protected:
  void SetUp() override {
    // The text is long enough for a tuning half and a checking half, whatever the tokens are.
    std::string text;
    for (int i = 0; i < 400; ++i) {
      text += "The cat number " + std::to_string(i * 7919 % 1000) + " sat on a mat by the sea. ";
    }
    text_ = write(text, "text.txt");
    prompt_ = write(text.substr(0, 500), "prompt.txt");
    model_ = write(small_chat_model());
  }

  Command command(std::vector<std::string> words) const {
    Command command = troika_command(std::move(words));
    command.environment["XDG_CACHE_HOME"] = folder_.file("cache");
    return command;
  }
  Finished run(std::vector<std::string> words) const {
    return run_program(command(std::move(words)));
  }
  // Returns a tuning whose precision is given, so that its plan does not depend on times.
  std::vector<std::string> words_of_tune(std::vector<std::string> more = {}) const {
    std::vector<std::string> words = {"tune",      model_, "--text",    text_,   "--threads", "1",
                                      "--prefill", "int8", "--prompts", "33,64", "--seconds", "3"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  Finished tune(std::vector<std::string> more = {}) const {
    return run(words_of_tune(std::move(more)));
  }
  std::vector<std::string> words_of_run(std::vector<std::string> more = {}) const {
    std::vector<std::string> words = {"run", model_,   "-f", prompt_,       "-n",
                                      "12",  "--temp", "0",  "--ignore-end"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  static bool has(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
  }
  // Lets a run measure whose plan cannot be kept, so that its measurements stay. Returns where
  // plans are kept, which is free again.
  std::string leave_measurements() const {
    expect_success(tune());
    const std::string path = kept_path();
    fs::remove(path);
    fs::create_directory(path);
    expect_refusal(tune(), 1, {"not a regular file"});
    EXPECT_EQ(kept("tuning-").size(), 1u);
    fs::remove(path);
    return path;
  }
  // Returns the names of the side files that begin with `beginning`.
  std::vector<std::string> kept(const std::string& beginning) const {
    std::vector<std::string> names;
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator(folder_.file("cache/troika"), ignored)) {
      const std::string name = entry.path().filename().string();
      if (name.starts_with(beginning)) names.push_back(name);
    }
    return names;
  }
  std::string kept_path() const {
    const std::vector<std::string> names = kept("plan-");
    return names.empty() ? "" : folder_.file("cache/troika/" + names.front());
  }

  std::string model_, text_, prompt_;
};

TEST_F(Tune, RunsTakeThePlanUntilItIsForbiddenOrRemoved) {
  const Finished before = run(words_of_run());
  expect_success(before);
  EXPECT_FALSE(has(before.err, kNotice)) << before.err;

  const Finished tuned = tune({"--json"});
  expect_success(tuned);
  const json result = json::parse(tuned.out);
  EXPECT_EQ(result.at("plan"), kept_path());
  EXPECT_TRUE(result.at("is_new").get<bool>());
  ASSERT_FALSE(result.at("tried").empty());
  EXPECT_EQ(result.at("tried")[0].at("method"), "token");
  EXPECT_GT(result.at("tried")[0].at("tokens").get<int>(), 100);
  EXPECT_TRUE(has(result.at("summary").get<std::string>(), "prompts int8")) << tuned.out;
  // What the table shows stands in the JSON as well.
  EXPECT_EQ(result.at("found_earlier"), 0);
  EXPECT_EQ(result.at("most_loss"), 0.005);
  const json& tried = result.at("tried")[0];
  EXPECT_EQ(tried.at("verdict") == "little enough", tried.at("is_proven").get<bool>()) << tried;
  for (const json& candidate : result.at("candidates")) {
    EXPECT_FALSE(candidate.at("is_slower").get<bool>() && candidate.at("is_chosen").get<bool>());
  }
  EXPECT_EQ(result.at("prefill_reason"), json::parse(read_whole(kept_path())).at("prefill_reason"));
  EXPECT_EQ(kept("plan-").size(), 1u);
  EXPECT_TRUE(kept("tuning-").empty());
  EXPECT_TRUE(kept("calibration-").empty());

  const Finished with = run(words_of_run());
  expect_success(with);
  EXPECT_TRUE(has(with.err, kNotice) && has(with.err, "prompts int8")) << with.err;
  const Finished same = run(words_of_run({"--plan", kept_path()}));
  expect_success(same);
  EXPECT_FALSE(has(same.err, kNotice)) << same.err;
  EXPECT_EQ(with.out, same.out);
  for (const char* without : {"--no-plan", "--no-cache"}) {
    const Finished plain = run(words_of_run({without}));
    expect_success(plain);
    EXPECT_FALSE(has(plain.err, kNotice)) << plain.err;
    EXPECT_EQ(plain.out, before.out);
  }

  const std::string name = kept("plan-").front();
  const Finished listed = run({"cache"});
  expect_success(listed);
  EXPECT_TRUE(has(listed.out, name)) << listed.out;
  expect_success(run({"cache", "--remove", name}));
  const Finished after = run(words_of_run());
  expect_success(after);
  EXPECT_FALSE(has(after.err, kNotice)) << after.err;
  EXPECT_FALSE(has(after.err, "tuned")) << after.err;
  EXPECT_EQ(after.out, before.out);
}

TEST_F(Tune, EveryCommandThatRunsAModelSaysSo) {
  expect_success(tune());
  const std::vector<std::vector<std::string>> all = {
      {"eval", model_, "--perplexity", text_, "-c", "512"},
      {"bench", model_, "-p", "40", "-n", "2", "-r", "1", "--json"}};
  for (const auto& words : all) {
    const Finished finished = run(words);
    expect_success(finished);
    EXPECT_TRUE(has(finished.err, kNotice)) << words[0] << finished.err;
  }
  Command chat = command({"chat", model_, "-n", "3"});
  chat.in = "hello\n";
  const Finished talked = run_program(chat);
  expect_success(talked);
  EXPECT_TRUE(has(talked.err, kNotice)) << talked.err;
}

// 'troika plan' makes a plan of its own, and takes from the kept one what holds for the model's
// heads on any lanes: the scales of the estimate (S4), and shares where none is asked for (S3).
TEST_F(Tune, S3S4PlansThatAreMadeTakeWhatTuningFoundAboutHeads) {
  expect_success(tune());
  const auto plan = [&](std::vector<std::string> more) {
    std::vector<std::string> words = {"plan",   model_,      "--attention", "query",
                                      "--json", "--prefill", "bf16"};
    words.insert(words.end(), more.begin(), more.end());
    return run(words);
  };
  expect_refusal(plan({"--attention-buckets", "9"}), 2,
                 {"--attention-buckets", "'troika tune'", "--seconds", "--no-cache"});
  json kept = json::parse(read_whole(kept_path()));
  const size_t n_heads = 2 * 2;  // in two layers
  kept["attention"]["head_scales"] = std::vector<double>(2 * n_heads, 0.25);
  kept["attention"]["head_shares"] = std::vector<double>(n_heads, 0.5);
  write_whole(kept_path(), kept.dump());
  const Finished made = plan({"--attention-buckets", "9"});
  expect_success(made);
  const json attention = json::parse(made.out).at("attention");
  EXPECT_EQ(attention.at("head_scales"), kept["attention"]["head_scales"]);
  EXPECT_EQ(attention.at("head_shares"), kept["attention"]["head_shares"]);
  EXPECT_EQ(attention.at("share"), 0.5);
  const Finished asked = plan({"--attention-share", "10"});
  expect_success(asked);
  EXPECT_FALSE(json::parse(asked.out).at("attention").contains("head_shares")) << asked.out;
  expect_refusal(plan({"--attention-buckets", "9", "--no-cache"}), 2, {"--no-cache"});
  // A run whose lanes are not those of the kept plan takes both over, too.
  const Finished ran = run(words_of_run(
      {"--attention", "query", "--attention-buckets", "1", "--kv", "f32", "--prefill", "bf16"}));
  expect_success(ran);
  EXPECT_TRUE(has(ran.err, "is given, so the plan")) << ran.err;
}

// Where a plan was found to attend sparsely, runs do so without being told.
TEST_F(Tune, S2S3RunsAttendSparselyWhereTheKeptPlanDoes) {
  test_support::TinyModel model = small_chat_model();
  model.context = 1536;
  model_ = write(model);
  expect_success(tune());
  json kept = json::parse(read_whole(kept_path()));
  kept["attention"] = {{"form", "sparse"},     {"above", 2.5},
                       {"share", 0.2},         {"from", 1024},
                       {"reason", "measured"}, {"head_shares", {0.2, 0.2, 0.2, 0.2}}};
  kept["reuse_granule"] = 64;
  write_whole(kept_path(), kept.dump());
  const auto losses = [&](const std::vector<std::string>& more) {
    const std::string file = folder_.file("losses.txt");
    std::vector<std::string> words = {"eval", model_, "--perplexity", text_,
                                      "-c",   "1536", "--losses",     file};
    words.insert(words.end(), more.begin(), more.end());
    const Finished finished = run(words);
    expect_success(finished);
    const bool is_given = !more.empty() && more.front() == "--no-plan";
    EXPECT_EQ(has(finished.err, "sparse attention"), !is_given) << finished.err;
    return read_whole(file);
  };
  const std::string tuned = losses({});
  EXPECT_EQ(losses({"--attention", "sparse"}), tuned);
  EXPECT_EQ(losses({"--attention", "auto"}), tuned);
  const std::string full = losses({"--attention", "full"});
  EXPECT_NE(full, tuned);
  // The first 1,024 tokens attend to everything.
  EXPECT_EQ(full.substr(0, 4096), tuned.substr(0, 4096));
  // Without the plan attention is full, in another precision.
  EXPECT_EQ(losses({"--no-plan"}), losses({"--no-plan", "--attention", "full"}));
  const Finished ran = run({"run", model_, "-f", text_, "-n", "1", "-c", "16384"});
  expect_success(ran);
  EXPECT_TRUE(has(ran.err, "sparse attention")) << ran.err;
}

TEST_F(Tune, WhatIsStatedWins) {
  expect_success(tune());
  const std::vector<std::vector<std::string>> against = {
      {"--threads", "2"}, {"--prefill", "f32"}, {"--kv", "f32"}, {"--kernels", "reference"}};
  for (const auto& words : against) {
    const Finished stated = run(words_of_run(words));
    expect_success(stated);
    EXPECT_TRUE(has(stated.err, words[0] + " is given")) << stated.err;
    EXPECT_TRUE(has(stated.err, "--no-plan")) << stated.err;
    std::vector<std::string> plain = words;
    plain.push_back("--no-plan");
    EXPECT_EQ(stated.out, run(words_of_run(plain)).out) << words[0];
  }
  // No notice comes where an option repeats the plan, or is one of those that go together with a
  // plan.
  for (const std::vector<std::string>& words :
       std::vector<std::vector<std::string>>{{"--threads", "1"},
                                             {"--prefill", "int8"},
                                             {"--prefill", "auto"},
                                             {"--context", "500"},
                                             {"--int8", "group"}}) {
    const Finished stated = run(words_of_run(words));
    expect_success(stated);
    EXPECT_TRUE(has(stated.err, kNotice)) << words[0] << stated.err;
  }
}

TEST_F(Tune, ASecondTimeMeasuresNothingUnlessAsked) {
  expect_success(run({"tune", model_, "--text", text_, "--prompts", "33", "--seconds", "3"}));
  const Finished again = run({"tune", model_, "--json"});
  expect_success(again);
  EXPECT_TRUE(has(again.err, "--again")) << again.err;
  EXPECT_FALSE(json::parse(again.out).at("is_new").get<bool>());
  EXPECT_EQ(json::parse(again.out).at("prefill_reason"),
            json::parse(read_whole(kept_path())).at("prefill_reason"));
  EXPECT_FALSE(has(again.err, "does nothing")) << again.err;
  const Finished longer = run({"tune", model_, "--seconds", "30"});
  expect_success(longer);
  EXPECT_TRUE(has(longer.err, "--seconds does nothing here")) << longer.err;
  const Finished written = run({"tune", model_, "-o", folder_.file("copy.json")});
  expect_success(written);
  EXPECT_EQ(read_whole(folder_.file("copy.json")), read_whole(kept_path()));
}

TEST_F(Tune, CutOffItGoesOnWhereItStood) {
  // A child tunes until it has kept something, and then gets Ctrl-C.
  pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const std::vector<std::string> words = words_of_tune();
    std::vector<char*> arguments = {const_cast<char*>(TROIKA_PROGRAM)};
    for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
    arguments.push_back(nullptr);
    setenv("XDG_CACHE_HOME", folder_.file("cache").c_str(), 1);
    freopen(folder_.file("said").c_str(), "w", stderr);
    freopen("/dev/null", "w", stdout);
    execv(TROIKA_PROGRAM, arguments.data());
    _exit(127);
  }
  for (int i = 0; i < 2000 && kept("tuning-").empty(); ++i) usleep(5000);
  ASSERT_EQ(kept("tuning-").size(), 1u);
  kill(child, SIGINT);
  int state = 0;
  ASSERT_EQ(waitpid(child, &state, 0), child);
  // The child may have finished before the signal, but it nearly never does.
  if (WIFEXITED(state) && WEXITSTATUS(state) == 0) GTEST_SKIP() << "it was faster than the signal";
  ASSERT_TRUE(WIFEXITED(state));
  EXPECT_EQ(WEXITSTATUS(state), 1);
  EXPECT_TRUE(has(read_whole(folder_.file("said")), "the same command goes on"));
  EXPECT_TRUE(kept("plan-").empty());
  const Finished finished = tune();
  expect_success(finished);
  EXPECT_TRUE(has(finished.err, "went on where a run of")) << finished.err;
  EXPECT_EQ(kept("plan-").size(), 1u);
  EXPECT_TRUE(kept("tuning-").empty());
}

TEST_F(Tune, ADamagedPlanIsTold) {
  expect_success(tune());
  fs::resize_file(kept_path(), 100);
  const Finished finished = run(words_of_run());
  expect_success(finished);
  EXPECT_TRUE(has(finished.err, "the tuned plan is not used")) << finished.err;
  EXPECT_TRUE(has(finished.err, "troika tune")) << finished.err;
  EXPECT_EQ(finished.out, run(words_of_run({"--no-plan"})).out);
  expect_success(tune());
  EXPECT_TRUE(has(run(words_of_run()).err, kNotice));
}

TEST_F(Tune, WrongInputGetsASentence) {
  write("short", "short.txt");
  expect_refusal(run({"tune", model_, "--text", folder_.file("short.txt"), "--prefill", "int8"}), 1,
                 {"too short"});
  expect_refusal(run({"tune", model_, "--text", folder_.file("none.txt")}), 1, {"none.txt"});
  const Finished best = run({"tune", model_, "--prefill", "best"});
  expect_refusal(best, 2, {"'best'", "bf16", "auto"});
  EXPECT_FALSE(has(best.err, " f16")) << best.err;
  const Finished halves = run({"tune", model_, "--prefill", "f16", "--threads", "1"});
  expect_refusal(halves, 2, {"--prefill f16", "OpenCL", "troika run"});
  EXPECT_FALSE(has(halves.err, "--place")) << halves.err;
  expect_refusal(run({"tune", model_, "--prompts", "1"}), 2, {"--prompts"});
  expect_refusal(run({"tune", model_, "--prompts", "64,5000"}), 2, {"5000", "512"});
  expect_refusal(run({"tune", folder_.file("none.gguf")}), 1, {"none.gguf"});
  for (const char* seconds : {"nan", "inf", "-1", "1x"}) {
    expect_refusal(run({"tune", model_, std::string("--seconds=") + seconds}), 2, {"--seconds"});
  }
  EXPECT_TRUE(kept("plan-").empty());
}

// A loss that a few tokens do not show is not proven by them.
TEST_F(Tune, AShortTextProvesNothing) {
  const std::string model = repository_file("models/troika-silu-q8_0.gguf");
  const std::string text = read_whole(repository_file("texts/the-river-bank.txt"));
  const std::string brief = write(text.substr(100, 1400), "brief.txt");
  const Finished tuned = run({"tune", model, "--text", brief, "--threads", "1", "--prefill", "int8",
                              "--prompts", "33", "--seconds", "1", "--json"});
  expect_success(tuned);
  const json result = json::parse(tuned.out);
  ASSERT_FALSE(result.at("tried").empty());
  for (const json& tried : result.at("tried")) {
    EXPECT_FALSE(tried.at("is_proven").get<bool>()) << tuned.out;
  }
  EXPECT_TRUE(has(result.at("int8_reason").get<std::string>(), "too few tokens")) << tuned.out;
}

// Calibrating, and reading the text with outliers in float beside, would take time for a method
// that no text so short can prove. Planted outliers make the first method lose too much for sure.
TEST_F(Tune, OnAShortTextNothingIsTriedThatCannotBeProven) {
  const std::string model = folder_.file("planted.gguf");
  expect_success(
      run({"synth", "--plant-outliers", repository_file("models/troika-silu-q8_0.gguf"), model}));
  const std::string text = read_whole(repository_file("texts/the-river-bank.txt"));
  const std::string brief = write(text.substr(100, 4000), "brief.txt");
  const Finished tuned = run({"tune", model, "--text", brief, "--threads", "1", "--prompts",
                              "256,500", "--seconds", "1", "--json"});
  expect_success(tuned);
  const json result = json::parse(tuned.out);
  const auto reason = result.at("int8_reason").get<std::string>();
  if (has(reason, "not worth its loss")) GTEST_SKIP() << "int8 was not faster: " << reason;
  EXPECT_EQ(result.at("tried").size(), 1u) << tuned.out;
  EXPECT_TRUE(has(reason, "768 held-out tokens are needed")) << tuned.out;
}

// Predictions are columns beside what was measured, which is shown without them too.
TEST_F(Tune, APlanIsExplainedWithAProfileThatPredictsNothing) {
  const std::string model = repository_file("models/troika-relu-q8_0.gguf");
  const auto profile = [&](const char* seconds) {
    expect_success(run({"profile", model, "--type", "q8_0", "--threads", "1", "--no-storage",
                        "--seconds", seconds}));
  };
  const auto explain = [&](const std::vector<std::string>& more) {
    std::vector<std::string> words = {"plan", model, "--threads", "1", "--explain"};
    words.insert(words.end(), more.begin(), more.end());
    const Finished explained = run(words);
    expect_success(explained);
    EXPECT_TRUE(has(explained.out, "attention")) << explained.out;
    return explained.err;
  };
  profile("0");
  EXPECT_TRUE(kept("profile-").empty());
  profile("0.1");
  const std::vector<std::string> names = kept("profile-");
  ASSERT_EQ(names.size(), 1u);
  const std::string path = folder_.file("cache/troika/" + names.front());
  json without_ops = json::parse(read_whole(path));
  without_ops["ops"] = json::array();
  write_whole(path, without_ops.dump());
  EXPECT_TRUE(has(explain({}), "no times of ops"));
  without_ops["load_average"] = 5000.5;
  write_whole(path, without_ops.dump());
  const std::string busy = explain({"--ops"});
  const size_t load = busy.find("under a load of 5000.5");
  EXPECT_NE(load, std::string::npos) << busy;
  EXPECT_EQ(busy.find("under a load", load + 1), std::string::npos) << busy;
  const std::string once = explain({"--no-cache", "--ops"});
  const size_t reason = once.find("--no-cache leaves kept profiles out");
  EXPECT_NE(reason, std::string::npos) << once;
  EXPECT_EQ(once.find("--no-cache leaves", reason + 1), std::string::npos) << once;
  // A profile that a plan was chosen by has no times of single cores.
  without_ops["cores"] = json::array();
  write_whole(path, without_ops.dump());
  const Finished shown = run({"profile", "--from", path});
  expect_success(shown);
  EXPECT_TRUE(has(shown.out, "lane  name")) << shown.out;
  EXPECT_FALSE(has(shown.out, "GOPS  reads")) << shown.out;
}

// Prompts over weights that are floats are in another precision than over blocks, and the profile
// is kept by it.
TEST_F(Tune, TheProfileOfAFileIsTheOneThatItsPlanLooksFor) {
  test_support::TinyModel halves = small_chat_model();
  halves.type = test_support::kF16;
  const std::string model = write(halves, "halves.gguf");
  const auto profile = [&](std::vector<std::string> words) {
    for (const char* word : {"--no-storage", "--seconds", "0.1", "--json"}) words.push_back(word);
    const Finished finished = run(words);
    expect_success(finished);
    return finished.out;
  };
  const auto explain = [&](const std::vector<std::string>& more) {
    std::vector<std::string> words = {"plan", model, "--threads", "1", "--explain"};
    words.insert(words.end(), more.begin(), more.end());
    const Finished explained = run(words);
    expect_success(explained);
    EXPECT_EQ(has(explained.out, "predicted"), !has(explained.err, "There is no profile"))
        << explained.out << explained.err;
    return explained.err;
  };
  const std::string plain = profile({"profile", model, "--threads", "1"});
  EXPECT_FALSE(has(plain, "\"q4_0\"") || has(plain, "\"Q4_0\"")) << plain.substr(0, 4000);
  EXPECT_FALSE(has(explain({}), "There is no profile"));
  // The command that is advised has all that the profile is kept by.
  const std::vector<std::string> other = {"--activations", "f32", "--kernels", "reference"};
  const std::string advice = explain(other);
  const size_t begin = advice.find("'troika ");
  ASSERT_NE(begin, std::string::npos) << advice;
  std::istringstream advised(advice.substr(begin + 8, advice.find('\'', begin + 1) - begin - 8));
  profile({std::istream_iterator<std::string>(advised), {}});
  EXPECT_FALSE(has(explain(other), "There is no profile"));
}

// Why a tensor is cut or not stands beside a plan that is there, too.
TEST_F(Tune, H10_APlanWithSeveralLanesIsExplainedWithTheReasonForItsCuts) {
  cpu_set_t usable;
  ASSERT_EQ(sched_getaffinity(0, sizeof(usable), &usable), 0);
  std::vector<int> cores;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &usable)) cores.push_back(core);
  }
  if (cores.size() < 2) GTEST_SKIP() << "there is one core";
  const std::string model = repository_file("models/troika-relu-q8_0.gguf");
  const std::string lanes = std::to_string(cores[0]) + ";" + std::to_string(cores[1]);
  const auto explain = [&] {
    const Finished explained =
        run({"plan", model, "--lanes", lanes, "--cut", "ffn@prompt=rows:0:1,1:1", "--explain"});
    expect_success(explained);
    EXPECT_TRUE(has(explained.out, "cut: ffn@prompt=rows:0:1,1:1")) << explained.out;
    return explained.out;
  };
  EXPECT_FALSE(has(explain(), "by the profile of these lanes"));
  expect_success(run({"profile", model, "--lanes", lanes, "--no-storage", "--seconds", "1"}));
  const std::string text = explain();
  const size_t reasons = text.find("by the profile of these lanes");
  ASSERT_NE(reasons, std::string::npos) << text;
  for (const char* part : {"whole ms   parts ms", "\nqkv ", "\nffn ", "prompt 512"}) {
    EXPECT_NE(text.find(part, reasons), std::string::npos) << part << "\n" << text;
  }
}

// A profile may come from a stranger. This one takes a second, and would take minutes if each
// product were compared with all others.
TEST(ShownProfile, HasManyProducts) {
  constexpr int kProducts = kIsSanitized ? 3'000 : 150'000;
  const auto product = [](int lane, int n_rows, int n_tokens, const char* us) {
    return "{\"lane\":" + std::to_string(lane) +
           ",\"op\":\"linear\",\"type\":\"q8_0\",\"n_rows\":" + std::to_string(n_rows) +
           ",\"k\":64,\"n_tokens\":" + std::to_string(n_tokens) +
           ",\"phase\":\"prompt\",\"context\":0,\"head_dim\":0,\"us\":" + us +
           ",\"spread\":0,\"n_runs\":1}";
  };
  std::string text =
      "{\"format\":\"troika-profile\",\"version\":3,\"machine\":{\"cpu\":\"x\",\"n_cores\":1,"
      "\"features\":\"\",\"memory_bytes\":1,\"kernel\":\"\",\"arithmetic\":\"\"},\"taken\":\"\","
      "\"load_average\":0,\"n_left_out\":0,\"starts\":[{\"lane\":1,\"us\":4.5}],"
      "\"bandwidth\":[{\"lanes\":[1],\"gb_s\":[7.25]}],\"handovers\":[],\"cores\":[],\"lanes\":["
      "{\"name\":\"one\",\"cores\":[],\"n_threads\":1,\"is_matrix\":false},"
      "{\"name\":\"two\",\"cores\":[],\"n_threads\":3,\"is_matrix\":false}],\"ops\":[";
  for (int i = kProducts; i > 1; --i) text += product(1, i, 8, "2") + ",";
  text += product(0, 1000, 8, "3") + "," + product(0, 1000, 32, "4") + "," +
          product(0, 1000, 8, "9") + "," + product(0, 1000, 7, "0.5") + "]}";
  const TempFolder folder;
  write_whole(folder.file("profile.json"), text);
  const Finished shown = troika({"profile", "--from", folder.file("profile.json")});
  expect_success(shown);
  for (const char* row :
       {"   0  one         1      0.00        0.00\n"
        "   1  two         3      4.50        7.25\n",
        "Gops at best\n   0  Q8_0      1000    64  prompt           -         3.0         4.0"
        "           -           -        1792.0\n   1  Q8_0         2    64  prompt"}) {
    EXPECT_NE(shown.out.find(row), std::string::npos) << shown.out.substr(0, 2000);
  }
  EXPECT_EQ(std::count(shown.out.begin(), shown.out.end(), '\n'),
            kProducts + 9);  // with nine of heads and lanes
}

// A copy of the plan that cannot be written is told before anything is measured.
TEST_F(Tune, WhereNoCopyCanBeWritten) {
  expect_refusal(tune({"-o", folder_.file("none/plan.json")}), 1, {"none/plan.json"});
  const std::string before = read_whole(model_);
  expect_refusal(tune({"-o", model_}), 2, {"Choose another name"});
  EXPECT_EQ(read_whole(model_), before);
  EXPECT_TRUE(kept("").empty());
}

// What was measured stays until the plan is kept: where that fails, nothing is measured again.
TEST_F(Tune, APlanThatCannotBeKeptLosesNoMeasurement) {
  const std::string path = leave_measurements();
  const Finished again = tune({"--json"});
  expect_success(again);
  EXPECT_TRUE(has(again.err, "went on where a run of")) << again.err;
  const int n_earlier = json::parse(again.out).at("found_earlier");
  EXPECT_GT(n_earlier, 1);
  EXPECT_TRUE(has(again.err, ": " + std::to_string(n_earlier) + " measurements were there"))
      << n_earlier << again.err;
  EXPECT_TRUE(fs::is_regular_file(path));
  EXPECT_TRUE(kept("tuning-").empty());
}

TEST_F(Tune, AgainMeasuresAnewWhatACutOffRunMeasured) {
  leave_measurements();
  const Finished again = tune({"--again"});
  expect_success(again);
  EXPECT_FALSE(has(again.err, "went on where a run of")) << again.err;
  EXPECT_TRUE(kept("tuning-").empty());
}

TEST_F(Tune, OptionsWithoutEffectAreNoted) {
  const Finished idle = run({"tune", model_, "--text", text_, "--threads", "1", "--prefill", "bf16",
                             "--prompts", "33", "--seconds", "1", "--most-loss", "1"});
  expect_success(idle);
  EXPECT_TRUE(has(idle.err, "--most-loss does nothing here: prompts are in bf16")) << idle.err;
  EXPECT_FALSE(has(tune({"--most-loss", "1"}).err, "does nothing"));
}

TEST_F(Tune, AFolderOrDiskThatTakesNothing) {
  Command nowhere = command(words_of_tune());
  nowhere.environment["XDG_CACHE_HOME"] = "/dev/null";
  expect_refusal(run_program(nowhere), 1, {"/dev/null/troika", "XDG_CACHE_HOME"});
  // What cannot be kept is not measured.
  Command profile = command({"profile", "--seconds", "1", "--no-storage"});
  profile.environment["XDG_CACHE_HOME"] = "/dev/null";
  expect_refusal(run_program(profile), 1, {"/dev/null/troika", "XDG_CACHE_HOME"});
  Command full = command(words_of_tune());
  full.most_file_bytes = 20;
  expect_refusal(run_program(full), 1, {"larger than the limit"});
  EXPECT_TRUE(kept("").empty());  // shows that nothing half-written stays
}

// What has no room is told, or left out, before anything is measured.
TEST_F(Tune, ComparedPromptsAreThoseThatTheContextHolds) {
  expect_refusal(run({"plan", model_, "--context", "64", "--compare", "1", "-p", "32,65"}), 2,
                 {"--prompts", "65 tokens", "--context 64"});
  const Finished usual =
      run({"plan", model_, "--context", "64", "--compare", "1", "--threads", "1", "--no-cache"});
  expect_success(usual);
  EXPECT_TRUE(has(usual.out, "32 tok")) << usual.out;
  EXPECT_FALSE(has(usual.out, "300 tok")) << usual.out;
  EXPECT_TRUE(has(usual.out, "measured")) << usual.out;
}

TEST_F(Tune, CalibratingAndChoosingMakeOnePlan) {
  const std::string first = folder_.file("first.json"), second = folder_.file("second.json");
  expect_success(
      run({"plan", model_, "--calibrate", text_, "--calibrate-tokens", "1024", "--choose",
           "--prefill", "int8", "--threads", "1", "-p", "64", "-o", first, "--no-cache"}));
  EXPECT_TRUE(kept("").empty());
  expect_success(run(
      {"plan", model_, "--plan", first, "--choose", "--threads", "1", "-p", "64", "-o", second}));
  for (const std::string& path : {first, second}) {
    const json plan = json::parse(read_whole(path));
    EXPECT_EQ(plan.at("prefill"), "int8");
    EXPECT_FALSE(plan.at("int8").at("inputs").empty());
    EXPECT_FALSE(has(plan.at("prefill_reason").get<std::string>(), "nobody has measured"));
    EXPECT_EQ(plan.at("lanes").size(), 1u);
  }
  EXPECT_EQ(json::parse(read_whole(first)).at("int8"), json::parse(read_whole(second)).at("int8"));
}

// Other lanes give the answers that the plan's own give.
TEST_F(Tune, ChoosingKeepsWhatTheAnswersOfAPlanDependOn) {
  const std::string first = folder_.file("first.json"), second = folder_.file("second.json");
  expect_success(run({"plan", model_, "--threads", "1", "-o", first}));
  json given = json::parse(read_whole(first));
  given["ffn"] = {{"form", "by-neuron"}, {"thresholds", {8.0, 8.0}}};
  given["attention"] = {{"form", "sparse"},     {"above", 2.5},
                        {"share", 0.2},         {"from", 1024},
                        {"reason", "measured"}, {"head_shares", {0.2, 0.2, 0.2, 0.2}}};
  given["reuse_granule"] = 64;
  given["order"] = "lock-step";
  given["cut_at_norms"] = true;
  given["step_costs"] = {{{"rows", 1}, {"ms", 2.5}}};
  write_whole(first, given.dump());
  const Finished chosen = run(
      {"plan", model_, "--plan", first, "--choose", "--threads", "1", "-p", "64", "-o", second});
  expect_success(chosen);
  EXPECT_TRUE(has(chosen.err, "is not kept: step_costs\n")) << chosen.err;
  const json kept = json::parse(read_whole(second));
  for (const char* field : {"ffn", "attention", "reuse_granule", "order", "cut_at_norms"}) {
    EXPECT_EQ(kept.at(field), given.at(field)) << field;
  }
  EXPECT_FALSE(kept.contains("step_costs"));
  const auto answer = [&](const std::vector<std::string>& plan) {
    std::vector<std::string> words = {"run", model_,   "-p", "a cat",       "-n",
                                      "12",  "--temp", "0",  "--ignore-end"};
    words.insert(words.end(), plan.begin(), plan.end());
    const Finished ran = run(words);
    expect_success(ran);
    return ran.out;
  };
  EXPECT_EQ(answer({"--plan", second}), answer({"--plan", first}));
  EXPECT_NE(answer({"--plan", first}), answer({"--no-plan"}));
}

}  // namespace
}  // namespace troika::test
