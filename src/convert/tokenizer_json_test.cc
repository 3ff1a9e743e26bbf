#include "convert/tokenizer_json.h"

#include <gtest/gtest.h>

#include <string>

#include "base/error.h"
#include "convert/normalizer.h"
#include "convert/sentencepiece.h"
#include "tests/support/temp_folder.h"

namespace troika::convert {
namespace {

using test::message_of;

// What is replaced in a token costs time that grows with the square of its length.
TEST(AddToken, RefusesATokenThatIsLongerThanAny) {
  const std::string spaces = "\xe2\x96\x81\xe2\x96\x81";
  const auto longest = [&](size_t n_more) {
    return spaces + std::string(kMostTokenBytes - spaces.size() + n_more, 'a');
  };
  const TokenFile file = {"tokenizer.json", 300};
  text::Vocabulary v;
  add_token(0, longest(0), false, file, &v);
  EXPECT_EQ(v.tokens.at(0), "  " + longest(0).substr(spaces.size()));
  for (const bool is_special : {false, true}) {
    const std::string message =
        message_of<Error>([&] { add_token(1, longest(1), is_special, file, &v); });
    EXPECT_TRUE(message.starts_with("tokenizer.json: token 1 has 4097 bytes")) << message;
  }
}

// Ids between are filled, so a number in a file decides how much is allocated.
TEST(AddToken, RefusesANumberFarBeyondWhatTheModelKnows) {
  const TokenFile file = {"tokenizer.json", 300};
  text::Vocabulary v;
  add_token(301, "<image>", true, file, &v);
  const std::string message =
      message_of<Error>([&] { add_token((1 << 22) - 1, "<far>", true, file, &v); });
  EXPECT_TRUE(
      message.starts_with("tokenizer.json: a token has the number 4194303, but the model "
                          "knows 300. "))
      << message;
  EXPECT_EQ(v.tokens.size(), 302u);
}

// A normalizer puts a space before each text between special tokens, and a pre-tokenizer only where
// none is there, or at the beginning alone.
TEST(ReadTokenizerJson, KnowsWhereASpaceIsPut) {
  const auto read = [](const Json& more) {
    Json json = Json::parse(R"({"model":{"type":"BPE","byte_fallback":true,)"
                            R"("vocab":{"<unk>":0,"a":1},"merges":[]}})");
    json.update(more);
    return read_tokenizer_json(json, {"tokenizer.json", 2}, "");
  };
  const auto metaspace = [&](const char* scheme) {
    return read({{"pre_tokenizer", {{"type", "Metaspace"}, {"prepend_scheme", scheme}}}});
  };
  const text::Vocabulary first = metaspace("first"), always = metaspace("always");
  EXPECT_TRUE(first.add_space_prefix);
  EXPECT_EQ(first.space_rule, text::SpaceRule::kFirstOfAll);
  EXPECT_TRUE(always.add_space_prefix);
  EXPECT_EQ(always.space_rule, text::SpaceRule::kUnlessThere);
  EXPECT_FALSE(metaspace("never").add_space_prefix);
  const text::Vocabulary prepended = read({{"normalizer", {{"type", "Prepend"}}}});
  EXPECT_TRUE(prepended.add_space_prefix);
  EXPECT_EQ(prepended.space_rule, text::SpaceRule::kEachText);
}

// Returns a sequence of so many steps.
Json steps_in(const char* member, size_t n) {
  return {{"type", "Sequence"}, {member, std::vector<Json>(n, {{"type", "Lowercase"}})}};
}

TEST(ForeignNormalizers, AreToldUpToALimit) {
  const auto told = [](size_t n) {
    return foreign_normalizers({{"normalizer", steps_in("normalizers", n)}},
                               JsonTokenizer::kByteLevel);
  };
  EXPECT_EQ(told(32), std::vector<std::string>(32, "\"Lowercase\""));
  const std::vector<std::string> many = told(100000);
  ASSERT_EQ(many.size(), 33u);
  EXPECT_EQ(many.back(), "and others");
}

}  // namespace
}  // namespace troika::convert
