// Megabytes of text that is hard to tokenize come back, and the test prints how long it took. A
// quadratic algorithm would take hours.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>

#include "tests/support/vocabularies.h"
#include "text/tokenizer.h"

namespace troika::text {
namespace {

constexpr size_t kBytes = size_t{1} << 20;

std::string repeat(std::string_view unit) {
  std::string text;
  while (text.size() < kBytes) text += unit;
  return text;
}

std::string random_letters() {
  std::string text;
  for (uint32_t random = 1; text.size() < kBytes;) {
    random = random * 1664525 + 1013904223;
    text += static_cast<char>('a' + (random >> 28) % 4);
  }
  return text;
}

void expect_round_trips(const Tokenizer& tokenizer, const char* name) {
  const std::pair<const char*, std::string> texts[] = {{"random letters", random_letters()},
                                                       {"one letter", repeat("a")},
                                                       {"spaces", repeat(" ")},
                                                       {"lines", repeat("ab \n")},
                                                       {"digits", repeat("1")},
                                                       {"Han", repeat("中文")},
                                                       {"special", repeat("<|end|")},
                                                       {"words", repeat("ab cd, a 'b'. ")}};
  for (const auto& [what, text] : texts) {
    const auto start = std::chrono::steady_clock::now();
    const std::vector<Token> tokens = tokenizer.encode(text, {.parse_special = true});
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - start;
    std::printf("%s, %s: %.1f MB/s\n", name, what,
                static_cast<double>(text.size()) / 1e6 / time.count());
    EXPECT_TRUE(tokenizer.decode(tokens) == text) << what;
  }
}

const std::vector<std::string> kParts = {"ab", "cd", "abcd", "aa", "aaaa", "bd", "dc"};

TEST(Speed, Spm) {
  std::vector<std::string> tokens = {"▁▁", "▁a", "▁", "a", "b", "c", "d"};
  tokens.insert(tokens.begin(), kParts.begin(), kParts.end());
  expect_round_trips(*make_tokenizer(test::spm_vocabulary(tokens)), "spm");
  tokens.push_back("b▁c");  // joins words, so that they cannot be encoded one by one
  expect_round_trips(*make_tokenizer(test::spm_vocabulary(tokens)), "spm over words");
}

TEST(Speed, Bpe) {
  const std::vector<std::string> merges = {"a b", "c d", "ab cd", "a a", "aa aa",
                                           "b d", "d c", "Ġ Ġ",   "1 1"};
  for (const char* pre : {"gpt-2", "llama-bpe", "gpt-4o", "deepseek-llm"}) {
    expect_round_trips(*make_tokenizer(test::bpe_vocabulary(merges, pre)), pre);
  }
}

}  // namespace
}  // namespace troika::text
