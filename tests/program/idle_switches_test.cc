// Tests that switches which can do nothing in a command say so.
#include <nlohmann/json.hpp>

#include "tests/program/troika.h"
#include "tests/support/repository.h"

namespace troika::test {
namespace {

class IdleSwitches : public ProgramTest {
 protected:
  void SetUp() override { model_ = write(small_model()); }
  std::string model_;
};

// Expects a note for the first word of each row, and for nothing else.
void expect_notes(const Finished& finished, const std::vector<std::vector<std::string>>& all) {
  size_t n_notes = 0;
  for (size_t at = 0; (at = finished.err.find(" does nothing here: ", at)) != std::string::npos;
       ++at)
    ++n_notes;
  EXPECT_EQ(n_notes, all.size()) << finished.err;
  for (const auto& idle : all) {
    EXPECT_NE(finished.err.find("note: " + idle[0] + " does nothing here: "), std::string::npos)
        << idle[0] << finished.err;
  }
}

Finished troika_with(std::vector<std::string> words,
                     const std::vector<std::vector<std::string>>& all) {
  for (const auto& idle : all) words.insert(words.end(), idle.begin(), idle.end());
  return troika(words);
}

TEST_F(IdleSwitches, OfPlans) {
  const std::vector<std::string> plan = {"plan", model_, "-o", folder_.file("plan.json")};
  const std::vector<std::vector<std::string>> all = {{"--ops"},
                                                     {"--alternatives"},
                                                     {"--calibrate-tokens", "100"},
                                                     {"--prompts", "32"},
                                                     {"--type", "q4_0"}};
  expect_notes(troika(plan), {});
  const Finished finished = troika_with(plan, all);
  expect_success(finished);
  expect_notes(finished, all);
}

TEST_F(IdleSwitches, OfAPhoneThatIsComparedWithNothing) {
  const std::vector<std::string> phone = {
      "bench",   "tiny-llama", "--machine", repository_file("phones/8gen3.json"),
      "--stack", "llm.npu",    "-p",        "32",
      "-n",      "2"};
  expect_refusal(troika_with(phone, {{"--compare", "llama-bench"}}), 2, {"--compare", "--machine"});
  const Finished idle = troika_with(phone, {{"-r", "5"}, {"--pairs", "3"}});
  expect_success(idle);
  expect_notes(idle, {{"--repetitions"}, {"--pairs"}});
}

// A plan keeps what counts where it is run, and cuts that are named replace those of a plan.
TEST_F(IdleSwitches, OfAPhonesPlanAreThoseAloneThatDoNothing) {
  const auto on_phone = [](std::vector<std::string> words, const std::vector<std::string>& more) {
    for (const char* word : {"--machine", "", "--stack", "heterollm", "--lanes", "gpu,npu"}) {
      words.push_back(*word == 0 ? repository_file("phones/8gen3.json") : std::string(word));
    }
    words.insert(words.end(), more.begin(), more.end());
    return troika(words);
  };
  const std::string file = folder_.file("phone.json");
  const Finished planned = on_phone({"plan", "tiny-llama"}, {"--activations", "f32", "-o", file});
  expect_success(planned);
  EXPECT_EQ(planned.err.find("does nothing here"), std::string::npos) << planned.err;
  EXPECT_NE(read_whole(file).find("\"f32\""), std::string::npos);
  const Finished cut = on_phone({"bench", "tiny-llama", "-p", "32", "-n", "1"},
                                {"--plan", file, "--cut", "auto", "--cut", "ffn=rows:0:1,1:1"});
  expect_success(cut);
  EXPECT_NE(cut.err.find("--cut auto does nothing here"), std::string::npos) << cut.err;
  EXPECT_EQ(cut.err.find("--cut does nothing here"), std::string::npos) << cut.err;
}

TEST_F(IdleSwitches, OfNeuronsOnAPhone) {
  const auto bench = [](std::vector<std::string> words) {
    words.insert(words.begin(),
                 {"bench", "bamboo-7b", "--machine", repository_file("phones/8gen3.json"),
                  "--stack", "powerinfer-2", "-p", "64", "-n", "1"});
    const Finished finished = troika(words);
    expect_success(finished);
    return finished.err;
  };
  const std::vector<std::vector<std::string>> of_readers = {{"--live", "0.2"},
                                                            {"--overlap", "0.5"},
                                                            {"--phone-pipeline", "none"},
                                                            {"--neuron-reads", "twice"}};
  std::vector<std::string> all, few = {"--ffn-share", "0.5"};
  for (const auto& words : of_readers) all.insert(all.end(), words.begin(), words.end());
  const std::string none = bench(all);
  few.insert(few.end(), all.begin(), all.end());
  // Clusters read their neurons twice where matrices of this machine may not.
  few.insert(few.end(), {"--neuron-pipeline", "matrix", "--neuron-pins", "10"});
  const std::string some = bench(few);
  for (const auto& words : of_readers) {
    const std::string noted = words[0] + " does nothing here: ";
    EXPECT_NE(none.find(noted), std::string::npos) << noted << none;
    EXPECT_EQ(some.find(noted), std::string::npos) << noted << some;
  }
  for (const char* const name : {"--neuron-pipeline", "--neuron-pins"}) {
    const std::string noted = std::string(name) + " does nothing here: it is for this machine";
    EXPECT_NE(some.find(noted), std::string::npos) << noted << some;
  }
  const std::string plain =
      bench({"--neurons", "plain", "--ffn-share", "0.5", "--neuron-reads", "twice"});
  EXPECT_NE(plain.find("--neuron-reads does nothing here: plain has no bundles"), std::string::npos)
      << plain;
}

// Whoever varies a switch over one plan would see the same figures each time.
TEST_F(IdleSwitches, OfAPhoneWhosePlanHasNeurons) {
  const std::string plan = folder_.file("plan.json");
  const std::vector<std::string> phone = {"--machine", repository_file("phones/8gen3.json"),
                                          "--stack", "powerinfer-2"};
  std::vector<std::string> make = {"plan", "bamboo-7b", "--ffn-share", "0.5", "-o", plan};
  make.insert(make.end(), phone.begin(), phone.end());
  expect_success(troika(make));
  std::vector<std::string> bench = {"bench", "bamboo-7b", "-p",     "64", "-n",
                                    "1",     "--json",    "--plan", plan};
  bench.insert(bench.end(), phone.begin(), phone.end());
  const Finished plain = troika(bench);
  expect_success(plain);
  expect_notes(plain, {});
  const std::vector<std::vector<std::string>> all = {{"--neurons", "cache"},
                                                     {"--ffn-share", "0.7"},
                                                     {"--live", "0.2"},
                                                     {"--overlap", "0.5"},
                                                     {"--phone-pipeline", "none"},
                                                     {"--neuron-reads", "twice"},
                                                     {"--prompt-shapes", "32"},
                                                     {"--cut", "auto"}};
  const Finished finished = troika_with(bench, all);
  expect_success(finished);
  expect_notes(finished, all);
  const auto decode_of = [](const Finished& run) {
    return nlohmann::json::parse(run.out, nullptr, false)["decode"];
  };
  EXPECT_EQ(decode_of(plain), decode_of(finished));
  bench.insert(bench.end(), {"--memory", "3G"});
  expect_notes(troika(bench), {{"--memory"}});
}

TEST_F(IdleSwitches, OfAPaperThatIsNotMeasured) {
  const std::vector<std::string> paper = {"reproduce", "baselines", "--phones",
                                          repository_file("phones")};
  const std::vector<std::vector<std::string>> all = {
      {"--plan", "no.json"},     {"--prompt", "64"}, {"--chunk", "64"},    {"--rounds", "5"},
      {"--shadow-rows", "none"}, {"--no-cache"},     {"--device", "none"}, {"--prompts", "8"}};
  const Finished finished = troika_with(paper, all);
  expect_success(finished);
  expect_notes(finished, all);
}

TEST_F(IdleSwitches, OfAProfileThatIsOnlyShown) {
  const std::vector<std::string> shown = {"profile", "--from", folder_.file("none.json")};
  const std::vector<std::vector<std::string>> all = {
      {"--seconds", "1"}, {"--again"}, {"--threads", "1"}, {"--type", "q8_0"}, {"--kv", "f32"}};
  expect_notes(troika(shown), {});
  expect_notes(troika_with(shown, all), all);
  expect_notes(troika_with(shown, {{"--check"}, {"--json"}}), {{"--check"}});
  const Finished with_model = troika({"profile", model_, "--from", folder_.file("none.json")});
  expect_notes(with_model, {{"MODEL"}});
}

TEST_F(IdleSwitches, OfOutliersThatAreNotPlanted) {
  const std::string out = folder_.file("out.gguf"), phi = folder_.file("phi.gguf");
  const std::vector<std::vector<std::string>> hidden = {
      {"--hidden-channels", "20%"}, {"--text", write(std::string("a cat"), "text.txt")}};
  std::vector<std::vector<std::string>> all = hidden;
  all.push_back({"--channels", "1%"});
  const std::vector<std::string> plant = {"synth", "--plant-outliers", model_, out};
  expect_notes(troika_with(plant, all), {});
  std::vector<std::string> heads = plant;
  heads.insert(heads.end(), {"--scale", "1", "--head-scales", "4"});
  const Finished of_heads = troika_with(heads, all);
  expect_success(of_heads);
  expect_notes(of_heads, all);
  // GELU without a gate has no inputs of down matrices that could be scaled and scaled back.
  expect_success(troika({"synth", "--like", "tiny-phi2", phi}));
  const Finished of_phi = troika_with({"synth", "--plant-outliers", phi, out}, all);
  expect_success(of_phi);
  expect_notes(of_phi, hidden);
}

TEST_F(IdleSwitches, OfNeuronsWithoutAPredictor) {
  const std::vector<std::string> count = {
      "neurons", repository_file("models/troika-relu-q8_0.gguf"), "--tokens", "64"};
  const Finished finished = troika_with(count, {{"--recall", "50"}});
  expect_success(finished);
  expect_notes(finished, {{"--recall"}});
}

TEST_F(IdleSwitches, OfTextsThatAreReadAsStepsAreComputed) {
  const std::string model = repository_file("models/troika-relu-q8_0.gguf");
  const std::vector<std::vector<std::string>> all = {
      {"--prefill", "bf16"},   {"--context", "64"},       {"--ffn", "by-output"},
      {"--neuron-pins", "5"},  {"--attention", "sparse"}, {"--attention-share", "50"},
      {"--order", "in-order"}, {"--int8-weights", "row"}, {"--packed", "1M"},
      {"--no-cuts"},           {"--fast-handover"},       {"--neuron-predictor"}};
  for (const char* command : {"neurons", "sparsity"}) {
    SCOPED_TRACE(command);
    const std::vector<std::string> words = {command, model, "--tokens", "512"};
    const Finished plain = troika(words);
    expect_success(plain);
    expect_notes(plain, {});
    const Finished finished = troika_with(words, all);
    expect_success(finished);
    expect_notes(finished, all);
  }
  // What does nothing does not stand in the way of a plan either.
  for (const char* name : {"--neuron-predictor", "--neuron-hot=20"}) {
    const std::string plan = folder_.file("half.json");
    const Finished written =
        troika({"sparsity", model, "--tokens", "512", "--keep", "50", name, "-o", plan});
    expect_success(written);
    EXPECT_NE(read_whole(plan).find("thresholds"), std::string::npos) << name;
  }
}

TEST_F(IdleSwitches, APhoneHasNoNeuronsToCount) {
  const std::string phone = repository_file("phones/8gen3.json");
  for (const char* command : {"neurons", "sparsity"}) {
    const Finished finished = troika({command, model_, "--machine", phone});
    expect_refusal(finished, 2, {"--machine", "no values"});
    EXPECT_EQ(finished.err.find("--ffn"), std::string::npos) << finished.err;
  }
}

// A run says what its prompt attended to, where a switch asks for less than all.
TEST_F(IdleSwitches, ARunSaysWhetherItsPromptReachedSparseAttention) {
  const std::string model = repository_file("models/troika-silu-4k-q8_0.gguf");
  const auto told = [&](const std::string& words, const std::string& attention) {
    const Finished finished = troika({"run", model, "-f", "-", "-n", "1", "--no-plan",
                                      "--attention-from", "512", "--attention", attention},
                                     words);
    expect_success(finished);
    const size_t at = finished.err.find("\nattention ");
    if (at == std::string::npos) return std::string();
    return finished.err.substr(at + 1, finished.err.find('\n', at + 1) - at - 1);
  };
  std::string longer;
  for (int i = 0; i < 150; ++i) longer += "Once there was a dog. ";
  EXPECT_TRUE(told(longer, "sparse").starts_with("attention  sparse: positions above"));
  EXPECT_TRUE(told("Once", "sparse").starts_with("attention  full: the prompt has"));
  EXPECT_EQ(told(longer, "full"), "");
}

TEST_F(IdleSwitches, AnEmptyStopIsRefused) {
  expect_refusal(troika({"run", model_, "-p", "Once", "--stop", ""}), 2, {"--stop", "empty"});
}

}  // namespace
}  // namespace troika::test
