#include "tune/proof/text_parts.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/support/tiny_engine.h"
#include "text/utf8.h"
#include "tune/default_text.h"

namespace troika::tune {
namespace {

class TextParts : public testing::Test {
 protected:
  const text::Tokenizer& tokenizer() const { return model_.engine->tokenizer(); }
  size_t n_tokens(const std::string& text) const {
    return tokenizer().encode(text, {.add_special = false, .parse_special = false}).size();
  }
  // Returns a title, and one long line in a language without spaces.
  static std::string without_spaces() {
    std::string text = "T\n";
    for (int i = 0; i < 4000; ++i) text += i % 3 == 0 ? "的" : i % 3 == 1 ? "一" : "是";
    return text;
  }

  test_support::TinyEngine model_;
};

TEST_F(TextParts, ATextWithoutSpacesIsNotCutToItsTitle) {
  const std::string text = without_spaces();
  for (const size_t wanted : {size_t{500}, size_t{501}, size_t{502}, size_t{512}}) {
    const std::string part = beginning_of_text(tokenizer(), text, wanted);
    EXPECT_GE(n_tokens(part), 9 * wanted / 10) << wanted;
    EXPECT_LE(n_tokens(part), 11 * wanted / 10) << wanted;
    EXPECT_TRUE(text.starts_with(part)) << wanted;
    EXPECT_EQ(text::incomplete_utf8_tail(part), 0u) << wanted;
  }
  EXPECT_GE(n_tokens(beginning_of_text(tokenizer(), "T\n" + std::string(4000, 'x'), 512)), 400u);
}

TEST_F(TextParts, HalvesOfATextWithoutSpacesAreHalves) {
  std::string text = without_spaces() + "\nend";
  for (int i = 0; i < 3; ++i, text += "!") {
    const auto [first, second] = halves(text);
    EXPECT_EQ(first + second, text);
    EXPECT_NEAR(static_cast<double>(first.size()), static_cast<double>(second.size()), 8.0);
    EXPECT_EQ(text::incomplete_utf8_tail(first), 0u) << i;
  }
}

TEST_F(TextParts, WordsStayWholeWhereASpaceIsNear) {
  const std::string text(default_text());
  const auto [first, second] = halves(text);
  EXPECT_TRUE(second.starts_with(' ') || second.starts_with('\n')) << second.substr(0, 20);
  const std::string part = beginning_of_text(tokenizer(), text, 600);
  EXPECT_TRUE(text[part.size()] == ' ' || text[part.size()] == '\n') << text[part.size()];
  EXPECT_EQ(beginning_of_text(tokenizer(), text, text.size()), text);
}

}  // namespace
}  // namespace troika::tune
