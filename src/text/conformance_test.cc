// Tokenizers give the reference ids of the folder of real data.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <sstream>

#include "gguf/file.h"
#include "tests/support/vocabularies.h"
#include "text/tokenizer.h"

namespace troika::text {
namespace {

using test::data_path;
using test::read_text;

constexpr const char* kSkipped =
    "TROIKA_DATA is not set: the vocabularies and texts to compare with are not here";

// Returns the test strings. A separating line follows each of them.
std::vector<std::string> read_inputs(const std::string& path) {
  const std::string separator = "\n__ggml_vocab_test__\n";
  const std::string all = read_text(path);
  std::vector<std::string> inputs;
  for (size_t at = 0;;) {
    const size_t end = all.find(separator, at);
    if (end == std::string::npos) return inputs;
    inputs.push_back(all.substr(at, end - at));
    at = end + separator.size();
  }
}

// Returns the ids of each string, for which the file has a line.
std::vector<std::vector<Token>> read_outputs(const std::string& path) {
  std::istringstream lines(read_text(path));
  std::vector<std::vector<Token>> outputs;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream ids(line);
    outputs.push_back({});
    for (Token id; ids >> id;) outputs.back().push_back(id);
  }
  return outputs;
}

std::unique_ptr<Tokenizer> load(const std::string& name) {
  const std::string folder = *data_path("tokenizers");
  if (name == "qwen2") {
    return make_tokenizer(test::vocabulary_from_vocab_json(folder + "/qwen2", "qwen2"));
  }
  if (name == "smollm") {
    return make_tokenizer(
        test::vocabulary_from_tokenizer_json(folder + "/smollm/tokenizer.json", "smollm"));
  }
  return make_tokenizer(gguf::File::open(folder + "/ggml-vocab-" + name + ".gguf"));
}

class Reference : public ::testing::TestWithParam<const char*> {};

TEST_P(Reference, IdsAreEqual) {
  if (!data_path("")) GTEST_SKIP() << kSkipped;
  const std::string path = *data_path("tokenizers/ggml-vocab-") + GetParam() + ".gguf";
  const auto inputs = read_inputs(path + ".inp");
  const auto outputs = read_outputs(path + ".out");
  ASSERT_EQ(inputs.size(), outputs.size());
  const auto tokenizer = load(GetParam());
  for (size_t i = 0; i < inputs.size(); ++i) {
    EXPECT_EQ(tokenizer->encode(inputs[i], {.add_special = false}), outputs[i])
        << "of " << ::testing::PrintToString(inputs[i]);
    EXPECT_EQ(tokenizer->decode(outputs[i]), inputs[i]);
  }
}

INSTANTIATE_TEST_SUITE_P(Vocabularies, Reference,
                         ::testing::Values("llama-spm", "phi-3", "gpt-2", "deepseek-llm", "qwen2"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::erase(name, '-');
                           return name;
                         });

// The marks of turns take the line end behind them. llama.cpp gives these ids.
TEST(Phi3, MarksOfTurnsTakeTheWhiteSpaceBehindThem) {
  if (!data_path("")) GTEST_SKIP() << kSkipped;
  const auto tokenizer = load("phi-3");
  EXPECT_EQ(tokenizer->encode("<|user|>\nSYS\nHI<|end|>\n<|assistant|>\n", {.parse_special = true}),
            (std::vector<Token>{1, 32010, 317, 21554, 13, 17628, 32007, 32001}));
}

// The expected ids come from Hugging Face's tokenizers library (0.23.3), which reads the same file.
TEST(Smollm, IdsAreEqual) {
  if (!data_path("")) GTEST_SKIP() << kSkipped;
  const auto tokenizer = load("smollm");
  const std::vector<std::pair<std::string, std::vector<Token>>> cases = {
      {"Hello world! It's 2024, isn't it?",
       {19556, 905, 17, 657, 506, 216, 34, 32, 34, 36, 28, 3247, 982, 357, 47}},
      {"  three   spaces\n\n\tand a tab", {216, 1296, 256, 5600, 1116, 197, 397, 253, 10147}},
      {"Été à la plage, 3,14 €",
       {39614, 100, 2756, 25782, 2618, 475, 473, 28, 216, 35, 28, 33, 36, 24927}},
      {"数字123と漢字", {18265, 36518, 33, 34, 35, 7365, 118, 177, 137, 112, 36518}},
      {"🙂🙃 x", {10813, 38887, 10813, 243, 221, 1792}},
      {" ", {216}},
  };
  for (const auto& [text, ids] : cases) EXPECT_EQ(tokenizer->encode(text), ids) << text;
  EXPECT_EQ(tokenizer->encode("<|im_start|>user\nHi<|im_end|>", {.parse_special = true}),
            (std::vector<Token>{1, 4093, 198, 26843, 2}));
}

std::vector<std::string> text_files() {
  const std::string folder = *data_path("text/");
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder + "books")) {
    files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  files.resize(std::min<size_t>(files.size(), 6));
  for (const char* name : {"wikitext2.test.txt", "tinyshakespeare.txt", "tinystories.txt"}) {
    files.push_back(folder + name);
  }
  return files;
}

class RoundTrip : public ::testing::TestWithParam<const char*> {};

// Texts come back after encoding and decoding. The test also prints the speed, for people.
TEST_P(RoundTrip, TextsComeBack) {
  if (!data_path("")) GTEST_SKIP() << kSkipped;
  const auto tokenizer = load(GetParam());
  double seconds = 0;
  size_t bytes = 0;
  for (const std::string& file : text_files()) {
    const std::string text = read_text(file);
    const auto start = std::chrono::steady_clock::now();
    const std::vector<Token> tokens = tokenizer->encode(text);
    seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    bytes += text.size();
    EXPECT_TRUE(tokenizer->decode(tokens) == text) << file;
  }
  std::printf("%s: %.1f MB/s\n", GetParam(), static_cast<double>(bytes) / 1e6 / seconds);
}

INSTANTIATE_TEST_SUITE_P(Vocabularies, RoundTrip,
                         ::testing::Values("llama-spm", "phi-3", "gpt-2", "deepseek-llm", "qwen2",
                                           "smollm"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::erase(name, '-');
                           return name;
                         });

}  // namespace
}  // namespace troika::text
