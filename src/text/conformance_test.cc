// Against the reference ids in the folder of real data.
#include <gtest/gtest.h>

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

// Test strings; a line of its own follows each.
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

// A line of ids for each string.
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

class RoundTrip : public ::testing::TestWithParam<const char*> {};

TEST_P(RoundTrip, TextsComeBack) {
  if (!data_path("")) GTEST_SKIP() << kSkipped;
  const auto tokenizer = load(GetParam());
  for (const char* name : {"wikitext2.test.txt", "tinyshakespeare.txt", "tinystories.txt"}) {
    const std::string text = read_text(*data_path("text/") + name);
    EXPECT_TRUE(tokenizer->decode(tokenizer->encode(text)) == text) << name;
  }
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
