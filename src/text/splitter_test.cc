#include "text/splitter.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"

namespace troika::text {
namespace {

using Words = std::vector<std::string_view>;

Words words(std::string_view pre, std::string_view text) { return split(find_splitter(pre), text); }

// Splits that Hugging Face's tokenizers library (0.23.3) makes with the patterns of the models.
struct Case {
  const char* pre;
  const char* text;
  Words words;
};

class Splits : public ::testing::TestWithParam<Case> {};

TEST_P(Splits, AsTheReferenceDoes) {
  const Case& c = GetParam();
  EXPECT_EQ(words(c.pre, c.text), c.words) << c.pre << " of " << c.text;
}

INSTANTIATE_TEST_SUITE_P(
    Splitter, Splits,
    ::testing::Values(
        Case{"gpt-2",
             "Hello world's  best\n\n  we'LL 12345 x=1!? é",
             {"Hello", " world", "'s", " ", " best", "\n\n ", " we", "'", "LL", " 12345", " x", "=",
              "1", "!?", " é"}},
        Case{"gpt-2", "a 'tis  ", {"a", " '", "tis", "  "}},
        Case{"smollm",
             "In 2024, 3.14",
             {"In", " ", "2", "0", "2", "4", ",", " ", "3", ".", "1", "4"}},
        Case{"smollm", " 12 ab1c", {" ", "1", "2", " ab", "1", "c"}},
        Case{"llama-bpe",
             "I'LL pay $1234567.89 today\r\n\r\n  if(x){\n\t\treturn 中文;\n}   ",
             {"I",    "'LL", " pay",     " $",       "123", "456", "7",
              ".",    "89",  " today",   "\r\n\r\n", " ",   " if", "(x",
              "){\n", "\t",  "\treturn", " 中文",    ";\n", "}",   "   "}},
        Case{"llama-bpe", "a\u3000b  \n c", {"a", "\u3000b", "  \n", " c"}},
        Case{"qwen2",
             "12 tokens'S é\u0301 \n \n x",
             {"1", "2", " tokens", "'S", " é", "\u0301", " \n \n", " x"}},
        Case{"qwen2", "\u00a0x it'ſ", {"\u00a0x", " it", "'ſ"}},
        Case{"qwen35",
             "e\u0301te\u0301 क्षि, \u0301.",
             {"e\u0301te\u0301", " क्षि", ",", " \u0301", "."}},
        Case{"seed-coder", "end.\n\n// x9", {"end", ".", "\n\n", "//", " x", "9"}},
        Case{"minicpm5", "12345 ab123456", {"123", "45", " ab", "123", "456"}},
        Case{"gpt-4o",
             "HTMLParser's parseURL it'S //\n/x",
             {"HTMLParser's", " parse", "URL", " it'S", " //\n/", "x"}},
        Case{"gpt-4o", "中ABCdé ÉTÉ ﬁn 1234", {"中ABCdé", " ÉTÉ", " ﬁn", " ", "123", "4"}},
        Case{"tekken",
             "HTMLParser's 1234 a/b\n",
             {"HTMLParser", "'s", " ", "1", "2", "3", "4", " a", "/b", "\n"}},
        Case{"tekken", "\u0301ABC ǅx", {"\u0301", "ABC", " ǅx"}},
        Case{"deepseek-llm",
             "Hello, Été!\n x 123  ",
             {"Hello", ",", " É", "t", "é", "!", "\n", " x", " ", "123", "  "}},
        Case{"deepseek-llm",
             "日本語 and 한국어 ok。 １２",
             {"日本語", " and", " ", "한국어", " ok", "。", " ", "１２"}},
        Case{"deepseek-coder",
             "def f(x):\n    return x + 12  # 中文!",
             {"def", " f", "(", "x", "):", "\n", "   ", " return", " x", " + ", "1", "2", " ", " #",
              " ", "中文", "!"}},
        Case{"deepseek-v3",
             "x=12345; .method (call) ひらがな!\n\n e\u0301",
             {"x", "=", "123", "45", ";", " .", "method", " (", "call", ")", " ", "ひらがな",
              "!\n\n", " e\u0301"}},
        Case{
            "falcon",
            "Price: $12345 isn't `x`  y",
            {"Price", ":", " ", "$", "123", "45", " isn", "'", "t", " ", "`", "x", "`", " ", " y"}},
        Case{"default",
             "a-b 1234567 <x>=`y`",
             {"a", "-", "b", " ", "123", "456", "7", " ", "<", "x", ">=", "`", "y", "`"}},
        Case{"bloom",
             "Hello, world… (yes) 12。",
             {"Hello", ",", " world", "… (", "yes", ")", " 12", "。"}},
        Case{"viking", "Hello, 123 w0rld", {"Hello", ",", " ", "1", "2", "3", " w", "0", "rld"}},
        Case{"laguna", "a b\n\n\nc\n 1", {"a", " b", "\n\n\n", "c", "\n", " ", "1"}}));

TEST(Splitter, NamesWhatItKnows) {
  try {
    find_splitter("esperanto");
    FAIL() << "no error";
  } catch (const Error& error) {
    const std::string message = error.what();
    EXPECT_NE(message.find("esperanto"), std::string::npos) << message;
    EXPECT_NE(message.find("llama-bpe"), std::string::npos) << message;
    EXPECT_NE(message.find("‹pre›"), std::string::npos) << message;
  }
}

TEST(Splitter, LosesNothingWhateverTheBytes) {
  uint32_t random = 1;
  const auto next = [&] { return random = random * 1664525 + 1013904223; };
  const std::string common = " \n\r1aA'.中\xc3\xa9";
  for (const std::string_view name : splitter_names()) {
    const Splitter splitter = find_splitter(name);
    for (int round = 0; round < 100; ++round) {
      std::string text;
      for (int i = 0; i < 40; ++i) {
        const bool any = next() >> 31;
        text.push_back(any ? static_cast<char>(next() >> 24)
                           : common[(next() >> 16) % common.size()]);
      }
      std::string joined;
      for (std::string_view word : split(splitter, text)) {
        ASSERT_FALSE(word.empty()) << name;
        joined += word;
      }
      EXPECT_EQ(joined, text) << name;
    }
    EXPECT_TRUE(split(splitter, "").empty());
  }
}

// Quadratic time would mean many minutes for a single pattern and unit.
TEST(Splitter, LongRunsTakeLinearTime) {
  const size_t n = size_t{1} << 20;
  std::vector<Splitter> splitters;  // several names may have the same
  for (const std::string_view name : splitter_names()) {
    Splitter splitter = find_splitter(name);
    const bool is_new = std::none_of(splitters.begin(), splitters.end(),
                                     [&](const Splitter& s) { return s.cuts == splitter.cuts; });
    if (is_new) splitters.push_back(std::move(splitter));
  }
  for (const char* unit : {" ", "1", "A", "\n", " \n", "'", "/"}) {
    std::string text;
    while (text.size() < n) text += unit;
    text += "1 x";
    for (const Splitter& splitter : splitters) {
      size_t bytes = 0;
      for (std::string_view word : split(splitter, text)) bytes += word.size();
      ASSERT_EQ(bytes, text.size()) << unit;
    }
  }
}

TEST(Characters, ClassesFollowUnicode) {
  EXPECT_EQ(classes_of('a'), kLetter | kLower);
  EXPECT_EQ(classes_of(U'É'), kLetter | kUpper);
  EXPECT_EQ(classes_of(U'中'), kLetter | kCaseless);
  EXPECT_EQ(classes_of(U'²'), kNumber);
  EXPECT_EQ(classes_of(U'Ⅷ'), kNumber);
  EXPECT_EQ(classes_of(0x301), kMark);
  EXPECT_EQ(classes_of(U'。'), kPunctuation);
  EXPECT_EQ(classes_of(U'€'), kSymbol);
  EXPECT_EQ(classes_of('\n'), kWhite | kNewline);
  EXPECT_EQ(classes_of(0x85), kWhite);
  EXPECT_EQ(classes_of(0x3000), kWhite);
  EXPECT_EQ(classes_of(0x200b), 0);  // a zero-width space is no space
  const Characters invalid("\xff\xe4\xb8");
  EXPECT_EQ(invalid.size(), 3u);
  EXPECT_EQ(invalid.classes[0], kSymbol);
}

}  // namespace
}  // namespace troika::text
