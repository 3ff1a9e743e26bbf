// Tests how the command line is read: options that are given several times, numbers, and files that
// are read twice or written over.
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/program/troika.h"
#include "tests/support/repository.h"

namespace troika::test {
namespace {

class CommandLine : public ProgramTest {
 protected:
  void SetUp() override { model_ = write(small_model()); }
  std::string model_;
};

TEST_F(CommandLine, OptionsOfSeveralValuesLeaveTheWordsBehindThemAlone) {
  const std::string none = folder_.file("none.gguf");
  expect_success(troika({"run", "--stop", "END", model_, "-p", "Once", "-n", "1"}));
  expect_success(troika({"run", model_, "-n", "1", "--stop", "END", "-"}, "Once"));
  expect_success(troika({"bench", "-p", "8,16", model_, "-n", "1", "-r", "1"}));
  expect_refusal(troika({"serve", "--api-key", "SECRET", none, "--port", "0"}), 1, {none});
  expect_refusal(troika({"run", model_, "--stop", "a", "b"}), 2, {"'b' is not understood"});
  // Each time counts.
  const std::string answer = write("abc one two", "answer.txt");
  const Finished twice = troika({"run", model_, "-p", "Once", "--force-text", answer, "--stop",
                                 "two", "--stop", "one", "--json"});
  expect_success(twice);
  const std::string text = nlohmann::json::parse(twice.out)["text"];
  EXPECT_NE(text.find("abc"), std::string::npos) << text;
  EXPECT_EQ(text.find("one"), std::string::npos) << text;
}

TEST_F(CommandLine, WordsThatNobodyExpectsAreListedInTheirOrder) {
  expect_refusal(troika({"bench", model_, "one", "two", "--three", "four"}), 2,
                 {"arguments were not expected: one two --three four. "});
  expect_refusal(troika({"bench", model_, "one"}), 2, {"argument was not expected: one. "});
  // Options stand behind the command.
  for (const std::vector<std::string>& words : std::vector<std::vector<std::string>>{
           {"--threads", "4", "run", model_, "-p", "Once"}, {"--threads", "4", "run", "--bogus"}}) {
    expect_refusal(troika(words), 2, {"--threads is no option of troika itself", "command first"});
  }
}

TEST_F(CommandLine, EmptyTextsAreNotTakenForNone) {
  expect_refusal(troika({"run", model_, "-p", "Once", "--lanes", ""}), 2, {"--lanes: ", "empty"});
  expect_refusal(troika({"serve", model_, "--port", "0", "--name", ""}), 2, {"--name: ", "empty"});
}

TEST_F(CommandLine, LengthsThatNoPromptHasAreRefused) {
  for (const char* const length : {"0:512,0:100", "0:900000"}) {
    expect_refusal(troika({"run", model_, "-p", "Once", "-n", "1", "--threads", "1", "--context",
                           "300", "--length", length}),
                   2, {"--length", "the context holds 300"});
  }
}

TEST_F(CommandLine, TextsInBracketsAndBracesAreTexts) {
  for (const std::string stop : {"[END]", "{}", "[a,b]"}) {
    SCOPED_TRACE(stop);
    const std::string answer = write("abc " + stop + " def", "answer.txt");
    const Finished finished =
        troika({"run", model_, "-p", "Once", "--force-text", answer, "--stop", stop, "--json"});
    expect_success(finished);
    const nlohmann::json json = nlohmann::json::parse(finished.out);
    EXPECT_EQ(json["stop"], "string") << finished.out;
    const std::string text = json["text"];
    EXPECT_NE(text.find("abc"), std::string::npos) << text;
    EXPECT_EQ(text.find(stop[0]), std::string::npos) << text;
  }
}

// CLI11 by itself reads 010 as eight, and -1 as the largest number where there is no sign.
TEST_F(CommandLine, WholeNumbersAreDecimalAndHaveASignOnlyWhereOneMakesSense) {
  const std::vector<std::pair<std::string, std::string>> wrong = {
      {"--memory", "-1"},  {"--memory", "-1G"},    {"--memory", "010M"},
      {"--packed", "-1"},  {"--memory", "1Q"},     {"--memory", "99999999999G"},
      {"--packed", "9E"},  {"--memory", "9E"},     {"--packed", "9223372036854775808"},
      {"--memory", "G"},   {"--neuron-gap", "-1"}, {"--tokens", "010"},
      {"--threads", "01"}, {"--threads", "0x2"},   {"--seed", "-1"}};
  for (const auto& [name, value] : wrong) {
    SCOPED_TRACE(name + " " + value);
    expect_refusal(troika({"run", model_, "-p", "Once", "-n", "1", name + "=" + value}), 2,
                   {name + ": '" + value + "' is no "});
  }
  for (const std::string limit : {"0=-1", "0=9E"}) {
    expect_refusal(troika({"run", model_, "-p", "Once", "--lane-memory", limit}), 2,
                   {"--lane-memory '" + limit + "'"});
  }
  expect_refusal(troika({"run", model_, "-p", "Once", "--top-k", "99999999999"}), 2,
                 {"--top-k: '99999999999' is too large a number. Give a smaller one. "});
  expect_refusal(troika({"run", model_, "-p", "Once", "--top-k=-99999999999"}), 2,
                 {"--top-k: '-99999999999' is too small a number. Give a larger one. "});
  expect_refusal(troika({"neurons", model_, "--tokens=-5"}), 2, {"--tokens: '-5' is no "});
  expect_refusal(troika({"synth", "--like", "tiny-llama", "--seed=-1", folder_.file("out")}), 2,
                 {"--seed: '-1' is no "});
  expect_success(troika({"run", model_, "-p", "Once", "-n", "1", "--memory", "1G", "--threads", "0",
                         "--penalty-window", "-1", "--packed", "0"}));
}

TEST_F(CommandLine, StandardInputIsReadOnce) {
  for (const std::vector<std::string>& twice :
       std::vector<std::vector<std::string>>{{"-f", "-", "--json-schema", "-"},
                                             {"-", "--grammar", "-"},
                                             {"-", "--force-text", "-"}}) {
    std::vector<std::string> words = {"run", model_, "-n", "1"};
    words.insert(words.end(), twice.begin(), twice.end());
    expect_refusal(troika(words, "true"), 2, {"- is given twice"});
  }
  expect_refusal(troika({"chat", write(small_chat_model(), "chat.gguf"), "--template", "-"}, "a\n"),
                 2, {"--template -"});
}

// Passes are predicted last: what fails then loses neither the profile nor its plots.
TEST_F(CommandLine, AProfileIsWrittenBeforePassesArePredicted) {
  const std::string profile =
      write(std::string(R"({"format": "troika-profile", "version": 3, "machine": {"cpu": "x",
        "n_cores": 1, "features": "", "memory_bytes": 1, "kernel": "", "arithmetic": ""},
        "taken": "now", "load_average": 0, "n_left_out": 0, "lanes": [{"name": "a lane of a long name", "cores": [0],
        "n_threads": 1, "is_matrix": false}], "starts": [], "handovers": [], "cores": [],
        "bandwidth": [{"lanes": [0], "gb_s": [8.5]}], "ops": [{"lane": 0, "op": "linear",
        "type": "IQ4_NL", "n_rows": 512, "k": 512, "n_tokens": 1, "phase": "step", "context": 0,
        "head_dim": 0, "us": 9, "spread": 0, "n_runs": 3, "arrangement": "whole",
        "arrangement_gain": 1.5, "build_us": 9, "first_run_us": 9}]})"),
            "profile.json");
  const std::string copy = folder_.file("copy.json"), plots = folder_.file("plots");
  const std::vector<std::string> words = {"profile", "--from", profile, "-o",
                                          copy,      "--plot", plots,   "--check"};
  const auto with = [&](const std::string& model) {
    std::vector<std::string> all = words;
    all.push_back(model);
    return troika(all);
  };
  const Finished lacking = with(model_);
  expect_success(lacking);
  EXPECT_NE(lacking.err.find("no times of the op"), std::string::npos) << lacking.err;
  std::istringstream lines(lacking.out);
  int n_tables = 0;
  for (std::string head, row; std::getline(lines, head);) {
    if (!head.starts_with("lane  name") && !head.starts_with("lane  type")) continue;
    std::getline(lines, row);
    EXPECT_EQ(row.size(), head.size()) << head << "\n" << row;
    ++n_tables;
  }
  EXPECT_EQ(n_tables, 4);
  EXPECT_NE(with("qwen2-0.5b").err.find("is a name without a file"), std::string::npos);
  std::filesystem::remove(copy);
  std::filesystem::remove_all(plots);
  expect_refusal(with(folder_.file("none.gguf")), 1, {"none.gguf"});
  EXPECT_EQ(read_whole(copy).substr(0, 1), "{");
  EXPECT_TRUE(std::filesystem::exists(plots + "/bandwidth.svg"));
  expect_refusal(troika({"profile", "--from", profile, "--plot", ""}), 2, {"--plot", "empty"});
}

TEST_F(CommandLine, AnEmptyShareIsNoOrdinaryModel) {
  const std::string out = folder_.file("out.gguf");
  for (const char* option : {"--plant-attention", "--plant-sparsity"}) {
    expect_refusal(troika({"synth", "--like", "tiny-bamboo", option, "", out}), 2,
                   {option, "empty"});
  }
  EXPECT_FALSE(std::filesystem::exists(out));
}

// A terminal obeys control characters, and a stranger's file may hold some.
TEST_F(CommandLine, WhatIsShownOfFilesDoesNotControlTheTerminal) {
  const std::string evil = "\x1b]52;c;eA==\x07";
  nlohmann::json profile = {{"format", "troika-profile"},
                            {"version", 3},
                            {"machine",
                             {{"cpu", evil},
                              {"n_cores", 1},
                              {"features", ""},
                              {"memory_bytes", 1},
                              {"kernel", evil},
                              {"arithmetic", evil}}},
                            {"taken", evil},
                            {"load_average", 0},
                            {"n_left_out", 0},
                            {"storage", {{"folder", evil}, {"is_direct", true}}}};
  const auto list = [](auto... items) { return nlohmann::json::array({items...}); };
  profile["storage"]["reads"] = list();
  profile["lanes"] = list(
      nlohmann::json{{"name", evil}, {"cores", list(0)}, {"n_threads", 1}, {"is_matrix", false}});
  for (const char* name : {"ops", "starts", "bandwidth", "handovers", "cores"}) {
    profile[name] = list();
  }
  const Finished shown = troika({"profile", "--from", write(profile.dump(), "evil.json")});
  expect_success(shown);
  EXPECT_NE(shown.out.find("\\u001b]52"), std::string::npos) << shown.out;
  EXPECT_EQ(shown.out.find_first_of("\x1b\x07"), std::string::npos) << shown.out;
  profile["ops"] = list(nlohmann::json{{"lane", 0}, {"op", evil}});
  const Finished refused = troika({"profile", "--from", write(profile.dump(), "evil.json")});
  expect_refusal(refused, 1, {"\\u001b]52"});
  EXPECT_EQ(refused.err.find_first_of("\x1b\x07"), std::string::npos) << refused.err;
  const std::string plan = folder_.file("plan.json");
  expect_success(troika({"plan", model_, "-o", plan}));
  nlohmann::json planned = nlohmann::json::parse(read_whole(plan));
  planned["prefill_reason"] = evil;
  write(planned.dump(), "plan.json");
  const Finished explained = troika({"plan", model_, "--plan", plan, "--explain"});
  expect_success(explained);
  EXPECT_NE(explained.out.find("\\u001b]52"), std::string::npos) << explained.out;
  EXPECT_EQ(explained.out.find_first_of("\x1b\x07"), std::string::npos) << explained.out;
}

// A model may take minutes to load.
TEST_F(CommandLine, AMissingTextIsToldBeforeTheModelIsLoaded) {
  const std::string model = folder_.file("none.gguf"), text = folder_.file("none.txt");
  for (const std::vector<std::string>& words : std::vector<std::vector<std::string>>{
           {"run", model, "-p", "Once", "--chat", "--template", text},
           {"run", model, "-p", "Once", "--force-text", text},
           {"chat", model, "--template", text},
           {"serve", model, "--port", "0", "--template", text},
           {"serve", model, "--port", "0", "--force-text", text}}) {
    expect_refusal(troika(words), 1, {text});
  }
}

TEST_F(CommandLine, StandardInputThatCannotBeReadIsNoEmptyText) {
  Command command;
  command.words = {"/bin/sh",      "-c",   "\"$0\" tokenize \"$1\" -f - <\"$2\"",
                   TROIKA_PROGRAM, model_, folder_.file(".")};
  expect_refusal(test_support::run_program(command), 1, {"Standard input", "directory"});
}

// What is written must replace nothing that is read, and is known to be writable before a model is
// loaded.
TEST_F(CommandLine, WhatIsReadIsNotWrittenOver) {
  const std::string text = write("Once upon a time there was a cat.", "text.txt");
  const std::string model = read_whole(model_), words = read_whole(text);
  const std::vector<std::string> run = {"run", model_, "-f", text, "-n", "1"};
  const auto with = [](std::vector<std::string> all, std::vector<std::string> more) {
    all.insert(all.end(), more.begin(), more.end());
    return troika(all);
  };
  for (const char* name : {"--trace", "--timeline"}) {
    expect_refusal(with(run, {name, model_}), 2, {model_, "which is read"});
    expect_refusal(with(run, {name, text}), 2, {text, "which is read"});
    const Finished late = with(run, {name, folder_.file("no/such/file")});
    expect_refusal(late, 1, {folder_.file("no/such/file")});
    EXPECT_EQ(late.out, "") << "the answer came first";
  }
  const std::string both = folder_.file("both");
  expect_refusal(with(run, {"--trace", both, "--timeline", folder_.file("./both")}), 2,
                 {"--trace and --timeline", both});
  expect_refusal(with(run, {"--trace", "both", "--timeline", "./both"}), 2, {"both name both"});
  expect_refusal(troika({"eval", model_, "--perplexity", text, "--losses", text}), 2,
                 {text, "which is read"});
  expect_refusal(troika({"sparsity", model_, "-o", model_}), 2, {model_, "which is read"});
  expect_refusal(troika({"sparsity", model_, "-f", text, "-o", text}), 2, {"which is read"});
  expect_refusal(troika({"profile", model_, "-o", model_}), 2, {model_, "which is read"});
  expect_refusal(troika({"plan", model_, "--calibrate", text, "-o", text}), 2, {"which is read"});
  expect_refusal(troika({"tune", model_, "--text", text, "-o", text}), 2, {"which is read"});
  expect_refusal(troika({"plan", model_, "-o", "-"}), 2, {"- stands for standard input"});
  EXPECT_TRUE(read_whole(model_) == model);
  EXPECT_EQ(read_whole(text), words);
}

class WrittenOver : public CommandLine {
 protected:
  void SetUp() override {
    CommandLine::SetUp();
    text_ = write("Once upon a time there was a cat.", "text.txt");
    draft_ = write(small_model(), "draft.gguf");
    std::filesystem::create_directories(folder_.file("phones/stacks"));
    for (const std::string name : {"8gen3.json", "stacks/llm.npu.json"}) {
      write(read_whole(repository_file("phones/" + name)), "phones/" + name);
    }
    for (const std::string name : {"m-00001-of-00002.gguf", "m-00002-of-00002.gguf"}) {
      shards_.push_back(write(small_model(), name));
    }
  }
  // Expects that the command, whose last word names what it writes, leaves `file` alone.
  static void expect_kept(std::vector<std::string> words, const std::string& file) {
    SCOPED_TRACE(words[0] + " " + words.back() + " " + file);
    const std::string before = read_whole(file);
    words.push_back(file);
    expect_refusal(troika(words), 2, {file, "which is read"});
    EXPECT_TRUE(read_whole(file) == before);
  }
  std::string text_, draft_;
  std::vector<std::string> shards_;
};

TEST_F(WrittenOver, ADraftModelAHistoryAndATextAreKept) {
  const std::vector<std::string> run = {"run", model_, "-p", "Once", "-n", "1"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), run.begin(), run.end());
    return more;
  };
  expect_kept(with({"--draft", "model:" + draft_, "--trace"}), draft_);
  expect_kept(with({"--draft", "model:" + draft_, "--timeline"}), draft_);
  expect_success(troika(with({"--history", "kept"})));
  expect_kept(with({"--history", "kept", "--trace"}), empty_cache() + "/troika/history-kept.bin");
  expect_kept({"synth", "--plant-outliers", model_, "--text", text_}, text_);
}

TEST_F(WrittenOver, APhoneAndItsSoftwareAreKept) {
  const std::string phone = folder_.file("phones/8gen3.json");
  const std::string stack = folder_.file("phones/stacks/llm.npu.json");
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"run", model_, "-p", "Once", "-n", "1", "--trace"},
        {"eval", model_, "--perplexity", text_, "--losses"},
        {"plan", model_, "-o"},
        {"sparsity", model_, "-o"}}) {
    std::vector<std::string> on_phone = words;
    const std::vector<std::string> machine = {"--machine", phone, "--stack", "llm.npu"};
    on_phone.insert(on_phone.begin() + 2, machine.begin(), machine.end());
    expect_kept(on_phone, phone);
    expect_kept(on_phone, stack);
  }
}

TEST_F(WrittenOver, WhatReproducingReadsIsKept) {
  const std::string phones = folder_.file("phones");
  const std::vector<std::string> picture = {"reproduce", "powerinfer-2", "--phones", phones,
                                            "--picture"};
  for (const std::string name : {"/8gen3.json", "/stacks/llm.npu.json"}) {
    expect_kept(picture, phones + name);
  }
  expect_kept({"reproduce", "sd.npu", "--phones", phones, "--timeline"}, phones + "/8gen3.json");
}

// A plan has been read when the one that is made of it is written.
TEST_F(WrittenOver, APlanMayReplaceTheOneThatItBeginsWith) {
  const std::string plan = folder_.file("plan.json");
  expect_success(troika({"plan", model_, "--context", "128", "-o", plan}));
  expect_success(troika({"plan", model_, "--plan", plan, "--chunk", "64", "-o", plan}));
  EXPECT_NE(read_whole(plan).find("64"), std::string::npos);
  expect_kept({"run", model_, "-p", "Once", "-n", "1", "--plan", plan, "--trace"}, plan);
}

TEST_F(WrittenOver, AllFilesOfASplitModelAreKept) {
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"run", shards_[0], "-p", "Once", "-n", "1", "--trace"},
        {"eval", shards_[0], "--perplexity", text_, "--losses"},
        {"plan", shards_[0], "-o"},
        {"sparsity", shards_[0], "-o"},
        {"profile", shards_[0], "-o"},
        {"tune", shards_[0], "-o"}}) {
    expect_kept(words, shards_[1]);
  }
}

}  // namespace
}  // namespace troika::test
