// The tokenizers of the tiny models give the tokens that llama.cpp gives for the same files.
#include <gtest/gtest.h>

#include <span>
#include <string>
#include <vector>

#include "gguf/file.h"
#include "tests/support/tiny_model.h"
#include "text/tokenizer.h"

namespace troika {
namespace {

constexpr const char* kText = "Once upon a time, the \U0001F434 ran to Zo\u00EB's 42 houses.";

std::unique_ptr<text::Tokenizer> tokenizer_of(const test_support::TinyModel& model) {
  const std::vector<uint8_t> bytes = test_support::tiny_model_bytes(model);
  return text::make_tokenizer(gguf::File::parse(std::as_bytes(std::span(bytes)), "tiny"));
}

TEST(TinyTokenizer, SentencePiece) {
  const std::vector<text::Token> expected = {1,   259, 289, 265, 385, 259, 271, 277, 341, 333,
                                             331, 264, 477, 323, 337, 259, 243, 162, 147, 183,
                                             259, 268, 372, 349, 259, 311, 263, 198, 174, 326,
                                             266, 259, 316, 314, 347, 345, 266, 410, 322};
  for (const char* architecture : {"llama", "gemma"}) {
    const auto tokenizer = tokenizer_of(test_support::tiny_model(architecture));
    EXPECT_EQ(tokenizer->encode(kText), expected) << architecture;
    EXPECT_EQ(tokenizer->decode(expected), kText) << architecture;
  }
}

TEST(TinyTokenizer, BytePairs) {
  const std::vector<text::Token> expected = {
      79,  110, 310, 32, 117, 112, 266, 258, 256, 105, 402, 44, 262, 32,  240, 159, 144, 180, 32,
      114, 297, 274, 32, 90,  111, 195, 171, 39,  115, 32,  52, 50,  272, 270, 115, 335, 46};
  test_support::TinyModel llama3 = test_support::tiny_model("llama");
  llama3.tokenizer = "bpe";
  llama3.pre = "llama-bpe";
  for (const auto& model :
       {test_support::tiny_model("qwen2"), test_support::tiny_model("phi2"), llama3}) {
    const auto tokenizer = tokenizer_of(model);
    std::vector<text::Token> tokens = tokenizer->encode(kText);
    if (model.architecture == "llama") {  // puts BOS in front
      ASSERT_EQ(tokens.front(), tokenizer->bos());
      tokens.erase(tokens.begin());
    }
    EXPECT_EQ(tokens, expected) << model.pre;
    EXPECT_EQ(tokenizer->decode(tokens), kText) << model.pre;
  }
}

}  // namespace
}  // namespace troika
