// Tests what the commands do with good input: what they print, in which forms, and what must agree.
#include <sched.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "tests/program/troika.h"
#include "tests/support/gguf_bytes.h"
#include "tests/support/sanitized.h"

namespace troika::test {
namespace {

using nlohmann::json;
using test_support::TinyModel;

json json_of(const Finished& finished) {
  expect_success(finished);
  return json::parse(finished.out, nullptr, /*allow_exceptions=*/false);
}

class Behaviour : public ProgramTest {
 protected:
  void SetUp() override { model_ = write(small_model()); }
  std::vector<std::string> run(std::vector<std::string> more) const {
    std::vector<std::string> words = {"run", model_, "-p",          "Once upon a time",
                                      "-n",  "24",   "--ignore-end"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  // Returns the text that a run prints, without the line end behind it.
  std::string text_of(const std::vector<std::string>& words, const std::string& in = "") const {
    const Finished finished = troika(words, in);
    expect_success(finished);
    EXPECT_TRUE(finished.out.ends_with("\n"));
    return finished.out.substr(0, finished.out.size() - 1);
  }
  std::string model_;
};

TEST_F(Behaviour, JsonOfARun) {
  const json j = json_of(troika(run({"--json", "--seed", "5"})));
  EXPECT_TRUE(j["text"].is_string());
  EXPECT_EQ(j["tokens"].size(), 24u);
  EXPECT_EQ(j["stop"], "length");
  EXPECT_EQ(j["seed"], 5);
  EXPECT_GT(j["prefill"]["tokens"], 3);
  EXPECT_GT(j["prefill"]["tokens_per_s"], 0);
  EXPECT_GT(j["decode"]["tokens_per_s"], 0);
  EXPECT_GE(j["decode"]["tokens_per_step"], 1.0);
  const json& steps = j["decode"]["step_ms"];
  EXPECT_GT(steps["p50"], 0.0);
  EXPECT_LE(steps["p50"], steps["p90"]);
  EXPECT_LE(steps["p90"], steps["p99"]);
  EXPECT_LE(steps["p99"], 1000.0 * j["decode"]["seconds"].get<double>());
}

TEST_F(Behaviour, StandardErrorHasTheTimingAndStandardOutputTheTextAlone) {
  const Finished finished = troika(run({"--seed", "5"}));
  for (const char* part : {"load", "prompt", "generation", "memory", "seed 5"}) {
    EXPECT_NE(finished.err.find(part), std::string::npos) << part;
  }
  EXPECT_EQ(finished.out.find("tokens/s"), std::string::npos);
}

TEST_F(Behaviour, TheSameSeedGivesTheSameText) {
  const std::string text = text_of(run({"--seed", "5"}));
  EXPECT_EQ(text_of(run({"--seed", "5"})), text);
  EXPECT_EQ(text_of(run({"--seed", "5", "--threads", "1"})), text);
  EXPECT_NE(text_of(run({"--seed", "6"})), text);
}

TEST_F(Behaviour, AnUnsaidSeedIsToldAndCanBeRepeated) {
  const json first = json_of(troika(run({"--json"})));
  const json second = json_of(troika(run({"--json"})));
  EXPECT_NE(first["seed"], second["seed"]);
  EXPECT_EQ(json_of(troika(run({"--json", "--seed", to_string(first["seed"])})))["text"],
            first["text"]);
}

TEST_F(Behaviour, GreedyIsTheSameWithAnySeedAndThreads) {
  const std::string text = text_of(run({"--temp", "0"}));
  for (const char* threads : {"1", "2", "3", "7"}) {
    EXPECT_EQ(text_of(run({"--temp", "0", "--threads", threads, "--seed", threads})), text);
  }
  EXPECT_EQ(text_of(run({"--top-k", "1", "--seed", "9"})), text);
}

TEST_F(Behaviour, StreamedTextIsTheTextOfTheJson) {
  for (const char* seed : {"1", "2", "3"}) {  // makes tokens with bytes that form no characters
    EXPECT_EQ(text_of(run({"--seed", seed, "--temp", "4"})),
              json_of(troika(run({"--seed", seed, "--temp", "4", "--json"})))["text"]);
  }
}

TEST_F(Behaviour, PromptsFromEverywhereAreTheSame) {
  const std::string prompt = "Once upon a time";
  const std::string file = write(prompt, "prompt");
  const std::string text = text_of({"run", model_, "-p", prompt, "-n", "9", "--temp", "0"});
  EXPECT_EQ(text_of({"run", model_, "-f", file, "-n", "9", "--temp", "0"}), text);
  EXPECT_EQ(text_of({"run", model_, "-", "-n", "9", "--temp", "0"}, prompt), text);
  EXPECT_EQ(text_of({"run", model_, "-f", "-", "-n", "9", "--temp", "0"}, prompt), text);
}

TEST_F(Behaviour, StopStringsEndTheTextBeforeThem) {
  const std::string whole = json_of(troika(run({"--temp", "0", "--json"})))["text"];
  // The stop text has two letters, so that no character is cut.
  size_t at = 2;
  while (at + 2 < whole.size() && !(std::isalpha(static_cast<unsigned char>(whole[at])) &&
                                    std::isalpha(static_cast<unsigned char>(whole[at + 1])))) {
    ++at;
  }
  ASSERT_LT(at + 2, whole.size()) << whole;
  const std::string stop = whole.substr(at, 2);
  const json j = json_of(troika(run({"--temp", "0", "--json", "--stop", "@@", "--stop", stop})));
  EXPECT_EQ(j["stop"], "string");
  EXPECT_EQ(j["text"], whole.substr(0, whole.find(stop)));
  // A stop text that cuts a character still leaves valid JSON.
  json_of(
      troika(run({"--temp", "4", "--seed", "1", "--json", "--stop", "\xbf", "--stop", "\xbd"})));
}

TEST_F(Behaviour, NoTokensAreNoText) {
  EXPECT_EQ(text_of({"run", model_, "-p", "Once", "-n", "0"}), "");
}

TEST_F(Behaviour, ALogitBiasForbidsAndForces) {
  const json forced = json_of(troika(run({"--json", "--temp", "0", "--logit-bias", "300=1000"})));
  for (const json& token : forced["tokens"]) EXPECT_EQ(token, 300);
  const json plain = json_of(troika(run({"--json", "--temp", "0"})));
  const std::string first = to_string(plain["tokens"][0]);
  const json forbidden =
      json_of(troika(run({"--json", "--temp", "0", "--logit-bias", first + "=-1000"})));
  for (const json& token : forbidden["tokens"]) EXPECT_NE(token, plain["tokens"][0]);
}

TEST_F(Behaviour, EveryTypeOfCacheAndActivationRuns) {
  for (const char* kv : {"f32", "f16", "q8_0"}) {
    for (const char* activations : {"q8", "f32"}) {
      expect_success(troika(run({"--kv", kv, "--activations", activations})));
    }
  }
  EXPECT_EQ(
      text_of(run({"--kernels", "reference", "--temp", "0", "--kv", "f32", "--activations", "f32"}))
          .empty(),
      false);
}

TEST_F(Behaviour, JsonOfABench) {
  const json j = json_of(troika({"bench", model_, "-p", "8,32", "-n", "4", "-r", "2", "--json"}));
  for (const char* key : {"model", "machine", "precision", "prefill", "decode", "peaks", "load_s",
                          "first_token_s", "peak_bytes"}) {
    EXPECT_TRUE(j.contains(key)) << key;
  }
  ASSERT_EQ(j["prefill"].size(), 2u);
  EXPECT_EQ(j["prefill"][1]["tokens"], 32);
  EXPECT_GT(j["prefill"][1]["tokens_per_s"], 0);
  EXPECT_GT(j["prefill"][1]["fraction_of_peak"], 0);
  EXPECT_GT(j["prefill"][1]["operations"], j["prefill"][0]["operations"]);
  EXPECT_GT(j["decode"]["tokens_per_s"], 0);
  EXPECT_GT(j["decode"]["fraction_of_bandwidth"], 0);
  for (const char* key : {"int8_tops", "bf16_tflops", "read_gb_s"}) {
    EXPECT_TRUE(j["peaks"].contains(key)) << key;
  }
}

TEST_F(Behaviour, P1ABenchByNeuronSaysWhatItComputed) {
  test_support::TinyModel model = small_model();
  model.activation = "relu";
  const auto bench = [&, path = write(model, "relu.gguf")](const char* form) {
    return json_of(
        troika({"bench", path, "-p", "8", "-n", "4", "-r", "1", "--ffn", form, "--json"}));
  };
  const json dense = bench("by-output"), live = bench("by-neuron");
  EXPECT_TRUE(dense.at("by_neuron").is_null());
  EXPECT_TRUE(dense.at("stream").is_null());
  const double share = live.at("by_neuron").at("computed_share");
  EXPECT_GT(share, 0.0);
  EXPECT_LT(share, 1.0);
  const json& step = live.at("decode");
  EXPECT_EQ(step.at("dense_bytes_per_step"), dense.at("decode").at("bytes_per_step"));
  EXPECT_LT(step.at("bytes_per_step"), step.at("dense_bytes_per_step"));
  EXPECT_LT(step.at("operations_per_step"), dense.at("decode").at("operations_per_step"));
}

TEST_F(Behaviour, ABenchBesideAPeer) {
  const std::string peer =
      "echo '[{\"n_prompt\": 8, \"n_gen\": 0, \"avg_ts\": 4.0, \"build_number\": 7},"
      " {\"n_prompt\": 0, \"n_gen\": 2, \"avg_ts\": 2.0}]' #";
  const json j = json_of(troika({"bench", model_, "-p", "8", "-n", "2", "-r", "1", "--pairs", "3",
                                 "--compare", peer, "--json"}));
  const json& compare = j["compare"];
  EXPECT_EQ(compare["pairs"], 3);
  EXPECT_EQ(compare["peer"]["build_number"], 7);
  ASSERT_EQ(compare["rows"].size(), 2u);
  EXPECT_EQ(compare["rows"][1]["peer_tokens_per_s"], 2.0);
  // The peer always says the same, so the ratio follows from the speed that is told beside it.
  const json& row = compare["rows"][0];
  EXPECT_EQ(row["peer_tokens_per_s"], 4.0);
  EXPECT_NEAR(row["ratio"], row["tokens_per_s"].get<double>() / 4.0,
              0.001 * row["ratio"].get<double>());
}

// The peer may take minutes, and its results would be lost.
TEST_F(Behaviour, ABenchThatTheContextHasNoRoomForRunsNoPeer) {
  const std::string ran = folder_.file("ran");
  const std::vector<std::string> words = {
      "bench", model_, "-c", "32",   "-n",        "2",
      "-r",    "1",    "-p", "8,33", "--compare", "touch " + ran + "; echo '[]' #"};
  expect_refusal(troika(words), 1, {"needs 33 tokens of context", "--context"});
  EXPECT_FALSE(std::filesystem::exists(ran));
}

TEST_F(Behaviour, TheLanesOfABenchAreNamedBesideTheirShares) {
  cpu_set_t usable;
  ASSERT_EQ(sched_getaffinity(0, sizeof(usable), &usable), 0);
  std::string lanes;
  int n = 0;
  for (int core = 0; core < CPU_SETSIZE && n < 2; ++core) {
    if (CPU_ISSET(core, &usable)) lanes += (n++ == 0 ? "" : ";") + std::to_string(core);
  }
  if (n < 2) GTEST_SKIP() << "there is one core";
  const json j = json_of(troika({"bench", model_, "--lanes", lanes, "--place", "ffn=1", "-p", "64",
                                 "-n", "2", "-r", "1", "--json"}));
  EXPECT_EQ(j.at("scheduler").at("busy").size(), 2u);
  EXPECT_EQ(j.at("scheduler").at("lanes").size(), 2u);
  EXPECT_TRUE(j.at("scheduler").at("lanes").at(0).is_string());
}

TEST_F(Behaviour, AFileNameThatIsNoUtf8DoesNotSpoilTheJson) {
  const std::string model = write(small_model(), "caf\xe9.gguf");
  json_of(troika({"bench", model, "-p", "8", "-n", "2", "-r", "1", "--json"}));
  json_of(troika({"inspect", model, "--json"}));
  json_of(troika({"run", model, "-p", "a", "-n", "2", "--json"}));
  json_of(troika({"quantize", model, folder_.file("q\xe9.gguf"), "--type", "q4_k", "--json"}));
  json_of(troika({"synth", "--like", "tiny-llama", folder_.file("s\xe9.gguf"), "--json"}));
}

TEST_F(Behaviour, EvalSaysHowTextsAreReadAndWhatTheyMayBe) {
  const std::string text = write("the little girl was in the garden", "text");
  const Finished rounded = troika({"eval", model_, "--perplexity", text, "-c", "64"});
  expect_success(rounded);
  EXPECT_NE(rounded.err.find("prompts: "), std::string::npos) << rounded.err;
  const std::string documents = write("[\"one little girl\"]", "documents");
  const Finished refused =
      troika({"eval", model_, "--perplexity", documents, "--losses", folder_.file("losses")});
  expect_refusal(refused, 2, {documents, "JSON", "--losses"});
  EXPECT_EQ(refused.err.find("--second-half"), std::string::npos) << refused.err;
}

TEST_F(Behaviour, EvalOfAPlainTextAndOfDocuments) {
  const std::string sentence = "the little girl was in the garden and he saw her";
  const auto eval = [&](const std::string& content) {
    return json_of(
        troika({"eval", model_, "--perplexity", write(content, "text"), "-c", "64", "--json"}));
  };
  const json plain = eval(sentence);
  EXPECT_GT(plain["tokens"], 10);
  EXPECT_GT(plain["perplexity"], 1.0);
  EXPECT_NEAR(plain["perplexity"].get<double>(), std::exp(plain["nll"].get<double>()), 1e-6);
  EXPECT_GT(plain["bits_per_char"], 0.0);
  const json array = eval(json::array({sentence}).dump());
  EXPECT_EQ(array["tokens"], plain["tokens"]);
  EXPECT_NEAR(array["nll"].get<double>(), plain["nll"].get<double>(), 1e-9);
  // A sentence twice is as likely for each token as once.
  const json two = eval(json::array({sentence, sentence}).dump());
  EXPECT_EQ(two["tokens"], 2 * plain["tokens"].get<int>());
  EXPECT_EQ(two["cut_documents"], 0);
  EXPECT_EQ(two["cut_tokens"], 0);
  EXPECT_NEAR(two["nll"].get<double>(), plain["nll"].get<double>(), 1e-9);
  const std::string line = json{{"text", sentence}}.dump() + "\n";
  EXPECT_EQ(eval(line + "\n" + line), two);
  const std::string path = write(line + line + line, "text");
  EXPECT_EQ(
      json_of(troika({"eval", model_, "--perplexity", path, "-c", "64", "--first", "2", "--json"})),
      two);
  const Finished from_input =
      troika({"eval", model_, "--perplexity", "-", "-c", "64", "--json"}, line + line);
  EXPECT_EQ(json_of(from_input), two);
  // A text that only looks like JSON counts as plain text.
  EXPECT_GT(eval("[Chapter one] the little girl")["tokens"], 5);
  EXPECT_GT(eval("{she said} the little girl")["tokens"], 5);
}

// A document is judged as far as the context reaches, and what that leaves out is told.
TEST_F(Behaviour, EvalOfDocumentsThatAreLongerThanTheContext) {
  const std::string brief = "the little girl was in the garden";
  std::string longer;
  for (int i = 0; i < 20; ++i) longer += brief + ". ";
  const Finished finished =
      troika({"eval", model_, "--perplexity",
              write(json::array({brief, longer, longer}).dump(), "text"), "-c", "32", "--json"});
  const json j = json_of(finished);
  const json tokens = json_of(troika({"tokenize", model_, "-p", longer, "--json"}));
  const int n_cut = 2 * (tokens["n"].get<int>() - 32);
  ASSERT_GT(n_cut, 0);
  EXPECT_EQ(j["cut_documents"], 2);
  EXPECT_EQ(j["cut_tokens"], n_cut);
  EXPECT_NE(finished.err.find("2 of 3 documents are longer than the context of 32 tokens, and " +
                              std::to_string(n_cut) + " tokens"),
            std::string::npos)
      << finished.err;
}

TEST_F(Behaviour, EvalOfALongTextGoesInWindows) {
  std::string text;
  for (int i = 0; i < 60; ++i) text += "the little girl was in the garden. ";
  const json j =
      json_of(troika({"eval", model_, "--perplexity", write(text, "text"), "-c", "32", "--json"}));
  const json tokens = json_of(troika({"tokenize", model_, "-p", text, "--no-bos", "--json"}));
  // The model predicts every token: a window of 32 begins with the begin token.
  EXPECT_EQ(j["tokens"], tokens["n"]);
}

TEST_F(Behaviour, EvalOfTasks) {
  const std::string prompt = "Once upon a time";
  const json generated = json_of(
      troika({"run", model_, "-p", prompt, "-n", "40", "--temp", "0", "--stop", "\n", "--json"}));
  const std::string answer = generated["text"];
  const std::string lines = json{{"prompt", prompt}, {"answer", answer}, {"kind", "easy"}}.dump() +
                            "\n" + json{{"prompt", prompt}, {"answer", "impossible"}}.dump() + "\n";
  const json j =
      json_of(troika({"eval", model_, "--tasks", write(lines, "tasks"), "-c", "256", "--json"}));
  EXPECT_EQ(j["n"], 2);
  EXPECT_LE(j["accuracy"], 0.5);
  EXPECT_TRUE(j["kinds"]["easy"]["accuracy"].is_number());
  EXPECT_EQ(j["kinds"]["easy"]["n"], 1);
}

// Returns a file whose metadata holds invalid characters, escapes, empty arrays and NaN.
std::string odd_file() {
  test_support::GgufBytes file;
  file.add_string("general.architecture", "odd");
  file.add_string("odd.invalid", "caf\xc3 \xff\xfe");
  file.add_string("odd.key.\xff", "x");
  file.add_string("odd.\x1b[2J\nforged", "\xc2\x9b and \x7f");
  file.add_string("odd.escapes", std::string("\x1b[31mred\n\0\"quoted\"\\", 20));
  file.add_strings("odd.strings", {"", "\xed\xa0\x80", std::string(300, 'a')});
  file.add_strings("odd.none", {});
  file.add_floats("odd.floats", {1.5f, -0.0f, std::numeric_limits<float>::quiet_NaN(),
                                 std::numeric_limits<float>::infinity()});
  file.add_float32("odd.nan", std::numeric_limits<float>::quiet_NaN());
  file.add_tensor("tensor\xff\x1b\xc2\x9b", test_support::kF32, {4}, std::vector<uint8_t>(16));
  const std::vector<uint8_t> bytes = file.finish();
  return {bytes.begin(), bytes.end()};
}

TEST_F(Behaviour, InspectOfOddMetadata) {
  const std::string path = write(odd_file(), "odd.gguf");
  const json j = json_of(troika({"inspect", path, "--json"}));
  ASSERT_TRUE(j.is_object());
  EXPECT_EQ(j["metadata"]["odd.strings"].size(), 3u);
  EXPECT_EQ(j["metadata"]["odd.floats"][0], 1.5);
  for (const std::vector<std::string>& more :
       {std::vector<std::string>{}, {"--all"}, {"--tensors"}}) {
    std::vector<std::string> words = {"inspect", path};
    words.insert(words.end(), more.begin(), more.end());
    const Finished finished = troika(words);
    expect_success(finished);
    for (const char* control : {"\x1b", "\x7f", "\xc2\x9b", "\nforged"}) {
      EXPECT_EQ(finished.out.find(control), std::string::npos) << control;
    }
  }
}

// A file of few bytes must not make inspect look for each key among all others.
TEST_F(Behaviour, InspectOfManyKeys) {
  test_support::GgufBytes file;
  constexpr uint64_t kKeys = 300'000;
  for (uint64_t i = 0; i < kKeys; ++i) file.add_uint32("odd." + std::to_string(i), 1);
  const std::vector<uint8_t> bytes = file.finish();
  const std::string path = write(std::string(bytes.begin(), bytes.end()), "many.gguf");
  for (const char* form : {"--json", "--all"}) {
    const Finished finished = troika({"inspect", path, form});
    expect_success(finished);
    EXPECT_NE(finished.out.find("odd.299999"), std::string::npos);
    if (form == std::string("--json")) {
      EXPECT_EQ(json_of(finished)["metadata"].size(), kKeys);
    }
  }
}

// Each element of an array takes a byte in the file, and must not take fifty in memory.
TEST_F(Behaviour, InspectOfALongArrayTakesLittleMemory) {
  if (kIsSanitized) GTEST_SKIP() << "a sanitised program reserves more than any limit";
  std::string bytes = "GGUF";
  const auto put = [&](auto value) {
    bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
  };
  constexpr uint64_t kElements = 8'000'000;
  put(uint32_t{3});
  put(uint64_t{0});
  put(uint64_t{1});
  put(uint64_t{1});
  bytes += "a";
  put(uint32_t{9});  // says that the value is an array
  put(uint32_t{0});  // says that its elements are bytes
  put(kElements);
  bytes.append(kElements, '\1');
  const std::string path = write(bytes, "long.gguf");
  for (const char* form : {"--json", "--all"}) {
    Command command = troika_command({"inspect", path, form});
    // The limit counts the file, which is mapped, and the program itself.
    std::vector<std::string> words = {"/bin/sh", "-c", "ulimit -v 300000; exec \"$@\"", "sh"};
    words.insert(words.end(), command.words.begin(), command.words.end());
    command.words = words;
    command.out_path = folder_.file("out");
    const Finished finished = run_program(command);
    expect_success(finished);
    EXPECT_GT(std::filesystem::file_size(folder_.file("out")), 2 * kElements);
  }
}

TEST_F(Behaviour, InspectShowsArraysInArrays) {
  // A good file gets another metadata entry: an array of two arrays.
  std::string bytes = model_bytes(small_model());
  std::string entry;
  const auto put = [&](auto value) {
    entry.append(reinterpret_cast<const char*>(&value), sizeof value);
  };
  put(uint64_t{10});
  entry += "odd.nested";
  put(uint32_t{9});  // says that the value is an array
  put(uint32_t{9});  // says that its elements are arrays
  put(uint64_t{2});
  for (const uint32_t first : {1u, 2u}) {
    put(uint32_t{4});  // says that their elements are 32-bit integers
    put(uint64_t{2});
    put(first);
    put(first * 10);
  }
  // A second new entry pads the first one, so that what follows keeps its alignment.
  const size_t n_pad = 32 - entry.size() % 32;
  test_support::GgufBytes file;
  uint64_t n_entries = 0;
  std::memcpy(&n_entries, bytes.data() + 16, sizeof n_entries);
  n_entries += 2;
  std::memcpy(bytes.data() + 16, &n_entries, sizeof n_entries);
  // A string entry "p" takes 8 + 1 + 4 + 8 bytes and its text.
  const size_t n_text = (n_pad + 64 - 21) % 32;
  put(uint64_t{1});
  entry += "p";
  put(uint32_t{8});
  put(uint64_t{n_text});
  entry += std::string(n_text, 'p');
  ASSERT_EQ(entry.size() % 32, 0u);
  bytes.insert(24, entry);
  const std::string path = write(bytes, "nested.gguf");
  const json j = json_of(troika({"inspect", path, "--json"}));
  EXPECT_EQ(j["metadata"]["odd.nested"], json::parse("[[1, 10], [2, 20]]"));
  expect_success(troika({"inspect", path}));
  expect_success(troika({"run", path, "-p", "a", "-n", "1"}));
}

TEST_F(Behaviour, QuantizeSteersNoTerminalByTheNameOfATensor) {
  test_support::GgufBytes file;
  file.add_tensor("a\x1b[2J\xff.weight", test_support::kF32, {96, 2},
                  std::vector<uint8_t>(96 * 2 * 4));
  const std::vector<uint8_t> bytes = file.finish();
  const std::string path = write(std::string(bytes.begin(), bytes.end()), "steering.gguf");
  const Finished finished = troika({"quantize", path, folder_.file("out.gguf"), "--type", "q6_k"});
  expect_success(finished);
  EXPECT_NE(finished.out.find("block: a\\u001b[2J\xef\xbf\xbd.weight"), std::string::npos)
      << finished.out;
  EXPECT_EQ(finished.out.find('\x1b'), std::string::npos);
}

TEST_F(Behaviour, TokenizeInItsForms) {
  const std::string text = "the little girl";
  const json j = json_of(troika({"tokenize", model_, "-p", text, "--json"}));
  const Finished ids = troika({"tokenize", model_, "-f", "-", "--ids"}, text);
  expect_success(ids);
  std::string joined;
  for (const json& token : j["tokens"]) joined += token.dump() + " ";
  EXPECT_EQ(ids.out, joined + "\n");
  EXPECT_EQ(j["tokens"][0], 1);  // the begin token
  const json without = json_of(troika({"tokenize", model_, "-p", text, "--json", "--no-bos"}));
  EXPECT_EQ(without["n"], j["n"].get<int>() - 1);
  const Finished table = troika({"tokenize", model_, "-p", text});
  EXPECT_EQ(std::count(table.out.begin(), table.out.end(), '\n'), j["n"].get<int>());
}

TEST_F(Behaviour, PlantedFilesSayTheSame) {
  const std::string out = folder_.file("planted.gguf");
  const json report = json_of(troika(
      {"synth", "--plant-outliers", model_, out, "--channels", "1%", "--scale", "32", "--json"}));
  ASSERT_FALSE(report["sites"].empty());
  EXPECT_EQ(report["sites"][0]["name"], "blk.0.attn_norm");
  EXPECT_EQ(report["sites"][0]["planted"][0]["scale"], 32);
  const auto text = [&](const std::string& model) {
    return json_of(troika({"run", model, "-p", "the little girl", "-n", "20", "--temp", "0",
                           "--activations", "f32", "--json"}))["text"];
  };
  EXPECT_EQ(text(out), text(model_));
  const Finished table = troika({"synth", "--plant-outliers", model_, out});
  expect_success(table);
  EXPECT_NE(table.out.find("blk.1.ffn_up"), std::string::npos) << table.out;
}

TEST_F(Behaviour, PlantedAttentionSaysWhatItKeeps) {
  const std::string out = folder_.file("planted.gguf");
  const std::vector<std::string> words = {
      "synth", "--like", "tiny-llama3", "--plant-attention", "40%", "--plant-length", "9216", out};
  const Finished said = troika(words);
  expect_success(said);
  EXPECT_NE(said.out.find("2048 tokens"), std::string::npos) << said.out;
  EXPECT_NE(said.out.find("(extrapolated)"), std::string::npos) << said.out;
  std::vector<std::string> as_json = words;
  as_json.push_back("--json");
  const json report = json_of(troika(as_json))["kept_positions"];
  ASSERT_EQ(report.size(), 4u);
  EXPECT_NEAR(report[3]["share"], 0.4, 0.08);
  EXPECT_EQ(report[3]["length"], 9216);
  EXPECT_EQ(report[3]["extrapolated"], true);
  EXPECT_EQ(report[2]["extrapolated"], false);
  expect_success(troika({"run", out, "-p", "the little girl", "-n", "4"}));
  EXPECT_EQ(said.err.find("beyond the context"), std::string::npos) << said.err;
  const Finished beyond = troika(
      {"synth", "--like", "tiny-qwen3", "--plant-attention", "40%", "--plant-length", "2048", out});
  expect_success(beyond);
  EXPECT_NE(beyond.err.find("--plant-length 2048 is beyond the context of tiny-qwen3, 512 tokens"),
            std::string::npos)
      << beyond.err;
}

TEST_F(Behaviour, QuantizedFilesRun) {
  TinyModel model = small_model();
  model.width = model.head_dim = model.rope_dims = 256;
  model.n_heads = model.n_kv_heads = 1;
  model.ffn_width = 256;
  const std::string in = write(model, "wide.gguf");
  const std::string out = folder_.file("out.gguf");
  for (const char* type :
       {"f32", "f16", "bf16", "q4_0", "q4_1", "q5_0", "q5_1", "q8_0", "q3_k", "q4_k", "q5_k",
        "q6_k", "mxfp4", "q2_k", "q3_k_m", "q4_k_m", "iq4_nl", "iq4_xs"}) {
    SCOPED_TRACE(type);
    const json report = json_of(troika({"quantize", in, out, "--type", type, "--json"}));
    EXPECT_FALSE(report["types"].empty());
    EXPECT_EQ(report["output_bytes"], std::filesystem::file_size(out));
    expect_success(troika({"run", out, "-p", "Once", "-n", "3"}));
  }
  // A type without loss changes nothing in the text.
  json_of(troika({"quantize", in, out, "--type", "f32", "--json"}));
  const std::vector<std::string> rest = {"-p", "Once", "-n", "9", "--temp", "0"};
  std::vector<std::string> before = {"run", in}, after = {"run", out};
  before.insert(before.end(), rest.begin(), rest.end());
  after.insert(after.end(), rest.begin(), rest.end());
  EXPECT_EQ(text_of(before), text_of(after));
}

TEST_F(Behaviour, SynthListsAndWritesModels) {
  const json list = json_of(troika({"synth", "--list", "--json"}));
  std::set<std::string> names;
  for (const json& known : list) names.insert(known["name"]);
  for (const char* name :
       {"qwen1.5-1.8b",  "qwen2-0.5b",   "qwen2-1.5b",   "qwen2-7b",    "qwen2.5-0.5b",
        "qwen2.5-1.5b",  "qwen3-0.6b",   "llama-2-7b",   "llama-2-13b", "llama-3-8b",
        "llama-3.2-1b",  "llama-3.2-3b", "gemma-2b",     "phi-2",       "mistral-7b",
        "internlm-1.8b", "phonelm-0.5b", "phonelm-1.5b", "bamboo-7b",   "mixtral-8x7b",
        "tiny-llama",    "tiny-qwen2",   "tiny-gemma",   "tiny-phi2"}) {
    EXPECT_EQ(names.count(name), 1u) << name;
  }
  const Finished table = troika({"synth", "--list"});
  expect_success(table);
  // Whoever asks for a model gets one, or learns why not.
  for (const std::vector<std::string>& beside : std::vector<std::vector<std::string>>{
           {"--like", "tiny-llama", folder_.file("a.gguf")},
           {"--plant-sparsity", "15%"},
           {"--plant-outliers", write(small_model()), folder_.file("a.gguf")}}) {
    std::vector<std::string> words = {"synth", "--list"};
    words.insert(words.end(), beside.begin(), beside.end());
    expect_refusal(troika(words), 2, {"--list shows the known models", "Leave it out"});
  }
  // The last column ends in the same place in every line, however long a name is.
  const size_t length = table.out.find('\n') + 1;
  ASSERT_EQ(table.out.size() % length, 0u) << table.out;
  for (size_t end = length; end <= table.out.size(); end += length) {
    EXPECT_EQ(table.out[end - 1], '\n') << table.out;
  }
  const std::string first = folder_.file("a.gguf"), second = folder_.file("b.gguf");
  for (const char* name : {"tiny-llama", "tiny-qwen2", "tiny-gemma", "tiny-phi2"}) {
    SCOPED_TRACE(name);
    json_of(troika({"synth", "--like", name, "--type", "q4_k_m", first, "--json"}));
    expect_success(troika({"run", first, "-p", "Once", "-n", "2"}));
  }
  json_of(troika({"synth", "--like", "tiny-phi2", "--type", "q4_k_m", second, "--json"}));
  EXPECT_EQ(read_whole(first), read_whole(second));
  json_of(troika(
      {"synth", "--like", "tiny-phi2", "--type", "q4_k_m", second, "--seed", "9", "--json"}));
  EXPECT_NE(read_whole(first), read_whole(second));
}

// A model of each architecture is inspected and run.
TEST_F(Behaviour, EveryTinyModelIsDescribedAndRuns) {
  const json list = json_of(troika({"synth", "--list", "--json"}));
  size_t n = 0;
  for (const json& known : list) {
    const std::string name = known["name"];
    if (!name.starts_with("tiny-")) continue;
    ++n;
    const std::string path = folder_.file(name + ".gguf");
    expect_success(troika({"synth", "--like", name, "--type", "q4_k_m", path}));
    const Finished looked = troika({"inspect", path});
    expect_success(looked);
    EXPECT_NE(looked.out.find("model: "), std::string::npos) << looked.out;
    EXPECT_EQ(looked.out.find("cannot run"), std::string::npos) << looked.out;
    const bool has_experts =
        name.ends_with("moe") || name.ends_with("mixtral") || name.ends_with("turbosparse");
    EXPECT_EQ(looked.out.find("experts: ") != std::string::npos, has_experts) << looked.out;
    const json j =
        json_of(troika({"run", path, "-p", "Once", "-n", "4", "--ignore-end", "--json"}));
    EXPECT_EQ(j["tokens"].size(), 4u) << name;
  }
  EXPECT_GE(n, 16u);
}

#ifdef TROIKA_EXAMPLE
TEST_F(Behaviour, TheExampleInCSaysWhatTheProgramSays) {
  Command command;
  command.words = {TROIKA_EXAMPLE, model_, "Once upon a time", "12"};
  const Finished example = run_program(command);
  expect_success(example);
  EXPECT_EQ(example.out,
            text_of({"run", model_, "-p", "Once upon a time", "-n", "12", "--temp", "0"}) + "\n");
  command.words = {TROIKA_EXAMPLE, folder_.file("none.gguf"), "Once"};
  EXPECT_EQ(run_program(command).status, 1);
  EXPECT_NE(run_program(command).err.find("none.gguf"), std::string::npos);
  command.words = {TROIKA_EXAMPLE};
  EXPECT_EQ(run_program(command).status, 2);
}
#endif

class Stories260K : public testing::Test {
 protected:
  void SetUp() override {
    const char* data = std::getenv("TROIKA_DATA");
    if (data == nullptr) GTEST_SKIP() << "TROIKA_DATA is not set: no trained model, no stories";
    data_ = data;
    model_ = data_ + "/models/stories260K.gguf";
  }
  std::string data_, model_;
};

TEST_F(Stories260K, HasItsPerplexity) {
  const json j =
      json_of(troika({"eval", model_, "--perplexity", data_ + "/text/tinystories_1000.json",
                      "--first", "100", "-c", "512", "--json"}));
  EXPECT_EQ(j["tokens"], 38168);
  EXPECT_NEAR(j["perplexity"].get<double>(), 5.28, 0.01);
}

TEST_F(Stories260K, TellsTheKnownStory) {
  const Finished finished =
      troika({"run", model_, "-p", "Once upon a time", "-n", "40", "--temp", "0"});
  expect_success(finished);
  EXPECT_EQ(finished.out.rfind(", there was a little girl named Lily. She loved to play outside in "
                               "the park.",
                               0),
            0u)
      << finished.out;
}

}  // namespace
}  // namespace troika::test
