#include "text/spm.h"

#include <gtest/gtest.h>

#include "tests/support/vocabularies.h"
#include "text/tokenizer.h"

namespace troika::text {
namespace {

using test::spm_vocabulary;

std::vector<std::string> pieces(const Tokenizer& tokenizer, std::string_view text,
                                EncodeOptions options = {.add_special = false}) {
  std::vector<std::string> out;
  for (Token token : tokenizer.encode(text, options)) {
    out.emplace_back(tokenizer.piece(token, true));
  }
  return out;
}

using Pieces = std::vector<std::string>;

TEST(Spm, JoinsTheHighestScoreFirst) {
  const auto ab_first = make_tokenizer(spm_vocabulary({"ab", "bc", "a", "b", "c", "▁"}));
  EXPECT_EQ(pieces(*ab_first, "abc"), (Pieces{" ", "ab", "c"}));
  const auto bc_first = make_tokenizer(spm_vocabulary({"bc", "ab", "a", "b", "c", "▁"}));
  EXPECT_EQ(pieces(*bc_first, "abc"), (Pieces{" ", "a", "bc"}));
}

TEST(Spm, JoinsTheLeftmostAmongEquals) {
  const auto t = make_tokenizer(spm_vocabulary({"aa", "a", "▁"}));
  EXPECT_EQ(pieces(*t, "aaa"), (Pieces{" ", "aa", "a"}));
}

TEST(Spm, SpellsInBytesWhatHasNoToken) {
  const auto t = make_tokenizer(spm_vocabulary({"▁"}));
  EXPECT_EQ(pieces(*t, "é"), (Pieces{" ", "\xc3", "\xa9"}));
  EXPECT_EQ(t->decode(t->encode("é")), "é");
}

TEST(Spm, AddsASpaceInFrontAndTakesItAway) {
  Vocabulary v = spm_vocabulary({"▁a", "a", "▁"});
  const auto with = make_tokenizer(v);
  EXPECT_EQ(pieces(*with, "a"), (Pieces{" a"}));
  EXPECT_EQ(pieces(*with, " a"), (Pieces{" ", " a"}));
  EXPECT_EQ(with->decode(with->encode(" a")), " a");
  EXPECT_TRUE(with->encode("", {.add_special = false}).empty());
  v.add_space_prefix = false;
  const auto without = make_tokenizer(v);
  EXPECT_EQ(pieces(*without, "a"), (Pieces{"a"}));
  EXPECT_EQ(without->decode(without->encode(" a")), " a");
}

// Some models were trained on turns whose marks take the white space behind them.
TEST(Spm, SpecialTokensMayTakeTheWhiteSpaceBehindThem) {
  Vocabulary v = spm_vocabulary({"a", "b", "▁"});
  v.strips_right.assign(v.tokens.size(), false);
  v.strips_right[2] = true;  // </s>
  const auto t = make_tokenizer(v);
  const EncodeOptions options = {.add_special = false, .parse_special = true};
  const std::vector<Token> without = t->encode("</s>a", options);
  EXPECT_EQ(t->encode("</s> \n\t a", options), without);
  EXPECT_NE(t->encode("<s> a", options), t->encode("<s>a", options));
  EXPECT_EQ(t->encode("a</s>\n", options), t->encode("a</s>", options));
  // The white space may stand in another part, and in more than one.
  const Tokenizer::TextPart parts[] = {{.text = "</s>\n", .parse_special = true},
                                       {.text = " ", .parse_special = false},
                                       {.text = "", .parse_special = false},
                                       {.text = "\n a", .parse_special = false}};
  EXPECT_EQ(t->encode_parts(parts), without);
  const Tokenizer::TextPart text_again[] = {{.text = "</s>a", .parse_special = true},
                                            {.text = " a", .parse_special = false}};
  EXPECT_EQ(t->encode_parts(text_again), t->encode("</s>a a", options));
}

// Phi-3's turns may begin with any white space, as with the spaces of Chinese paragraphs.
TEST(Spm, SpecialTokensTakeWhiteSpaceOfAllScripts) {
  Vocabulary v = spm_vocabulary({"a", "b", "▁"});
  v.strips_right.assign(v.tokens.size(), false);
  v.strips_right[2] = true;  // </s>
  const auto t = make_tokenizer(v);
  const EncodeOptions options = {.add_special = false, .parse_special = true};
  for (const char* const white : {"\u3000", "\u00a0 ", "\u2028", "\u0085\n"}) {
    EXPECT_EQ(t->encode(std::string("</s>") + white + "a", options), t->encode("</s>a", options));
  }
  EXPECT_NE(t->encode("</s>\u200ba", options), t->encode("</s>a", options));  // has no width
}

TEST(Spm, SpecialTokensMayTakeTheWhiteSpaceInFrontOfThem) {
  Vocabulary v = spm_vocabulary({"a", "b", "▁"});
  v.strips_left.assign(v.tokens.size(), false);
  v.strips_left[2] = true;  // </s>
  const auto t = make_tokenizer(v);
  const EncodeOptions options = {.add_special = false, .parse_special = true};
  const std::vector<Token> without = t->encode("a</s>b", options);
  EXPECT_EQ(t->encode("a \n\u3000</s>b", options), without);
  EXPECT_EQ(t->encode(" </s>", options), (std::vector<Token>{2}));
  EXPECT_NE(t->encode("a </s> b", options), without);
  EXPECT_NE(t->encode("a <s>b", options), t->encode("a<s>b", options));
  const Tokenizer::TextPart parts[] = {{.text = "a \n", .parse_special = false},
                                       {.text = " ", .parse_special = false},
                                       {.text = "</s>b", .parse_special = true}};
  EXPECT_EQ(t->encode_parts(parts), without);
  EXPECT_EQ(t->least_tokens(1000), 0u);  // all of them may be white space
}

// Tokenizers of SentencePiece put a space in front of each text between special tokens. Those of
// the library "tokenizers" put none where one is there, and some only at the beginning of all.
TEST(Spm, ASpaceStandsWhereItsRuleSays) {
  Vocabulary v = spm_vocabulary({"▁a", "a", "▁"});
  const EncodeOptions options = {.add_special = false, .parse_special = true};
  const auto pieces_by = [&](SpaceRule rule, const char* text) {
    v.space_rule = rule;
    return pieces(*make_tokenizer(v), text, options);
  };
  for (const SpaceRule rule : {SpaceRule::kUnlessThere, SpaceRule::kFirstOfAll}) {
    EXPECT_EQ(pieces_by(rule, "a</s> a"), (Pieces{" a", "</s>", " a"}));
    EXPECT_EQ(pieces_by(rule, " a"), (Pieces{" a"}));
    EXPECT_EQ(pieces_by(rule, "▁a"), (Pieces{" a"}));
  }
  EXPECT_EQ(pieces_by(SpaceRule::kEachText, "a</s> a"), (Pieces{" a", "</s>", " ", " a"}));
  EXPECT_EQ(pieces_by(SpaceRule::kEachText, "</s>a"), (Pieces{"</s>", " a"}));
  EXPECT_EQ(pieces_by(SpaceRule::kUnlessThere, "</s>a"), (Pieces{"</s>", " a"}));
  EXPECT_EQ(pieces_by(SpaceRule::kFirstOfAll, "</s>a"), (Pieces{"</s>", "a"}));
  v.space_rule = SpaceRule::kFirstOfAll;
  const Tokenizer::TextPart parts[] = {{.text = "a</s>", .parse_special = true},
                                       {.text = "a", .parse_special = false}};
  EXPECT_EQ(make_tokenizer(v)->encode_parts(parts), make_tokenizer(v)->encode("a</s>a", options));
}

TEST(Spm, SpecialTokensInTextAreTextUnlessAskedFor) {
  // "</s" and ">" must not join, although the text of both is that of the control token.
  const auto t = make_tokenizer(spm_vocabulary({"</s", "</", "s", "<", "/", ">", "▁"}));
  EXPECT_EQ(pieces(*t, "</s>"), (Pieces{" ", "</s", ">"}));
  EXPECT_EQ(t->encode("</s>", {.add_special = false, .parse_special = true}),
            (std::vector<Token>{2}));
  EXPECT_EQ(pieces(*t, "s</s>s", {.add_special = true, .parse_special = true}),
            (Pieces{"<s>", " ", "s", "</s>", " ", "s"}));
}

// The tokens do not show where one part ends and the next begins. Parts only decide where special
// tokens are read.
TEST(Spm, PartsAreOneTextBetweenSpecialTokens) {
  const auto t =
      make_tokenizer(spm_vocabulary({"▁a", "ab", "a", "b", "</s", "<", "/", "s", ">", "▁"}));
  using TextParts = std::vector<Tokenizer::TextPart>;
  EXPECT_EQ(t->encode_parts(TextParts{{"</s>a", true}, {"", false}, {"b", false}, {"a</s>", true}}),
            t->encode("</s>aba</s>", {.add_special = false, .parse_special = true}));
  EXPECT_EQ(t->encode_parts(TextParts{{"a", true}, {"</s>", false}}),
            t->encode("a</s>", {.add_special = false}));
  // No special token is read across the border of two parts.
  EXPECT_EQ(t->encode_parts(TextParts{{"a</", true}, {"s>", true}}),
            t->encode("a</s>", {.add_special = false}));
  EXPECT_TRUE(t->encode_parts({}).empty());
}

TEST(Spm, CutsOutUserDefinedTokens) {
  Vocabulary v = spm_vocabulary({"ab", "a", "b", "<x>", "<x>y", "▁"});
  v.types[v.tokens.size() - 3] = v.types[v.tokens.size() - 2] = TokenType::kUserDefined;
  v.add_space_prefix = false;
  const auto t = make_tokenizer(v);
  EXPECT_EQ(pieces(*t, "a<x>b<x>yab"), (Pieces{"a", "<x>", "b", "<x>y", "ab"}));
}

TEST(Spm, UnusedTokensFallApart) {
  Vocabulary v = spm_vocabulary({"ab", "abc", "a", "b", "c", "▁"});
  v.types[3 + 256] = TokenType::kUnused;
  v.add_space_prefix = false;
  const auto t = make_tokenizer(v);
  EXPECT_EQ(pieces(*t, "ab"), (Pieces{"a", "b"}));
  EXPECT_EQ(pieces(*t, "abc"), (Pieces{"abc"}));
}

// Each unused token falls apart into a shorter one and a letter, thousands deep.
TEST(Spm, UnusedTokensFallApartHoweverDeep) {
  constexpr size_t kDeep = 20000;
  std::vector<std::string> tokens = {"a"};
  for (size_t n = 2; n <= kDeep; ++n) tokens.push_back(std::string(n, 'a'));
  Vocabulary v = spm_vocabulary(tokens);
  for (size_t id = 0; id < v.tokens.size(); ++id) {
    const std::string& token = v.tokens[id];
    if (token.size() < 2 || token.find_first_not_of('a') != std::string::npos) continue;
    v.types[id] = TokenType::kUnused;
    v.scores[id] = static_cast<float>(token.size());  // the longest is joined first
  }
  v.add_space_prefix = false;
  EXPECT_EQ(make_tokenizer(v)->encode(std::string(kDeep, 'a'), {.add_special = false}).size(),
            kDeep);
}

TEST(Spm, TokensMayReachOverWords) {
  const auto t = make_tokenizer(spm_vocabulary({"a▁b", "a▁", "a", "b", "▁"}));
  EXPECT_EQ(pieces(*t, "a b"), (Pieces{" ", "a b"}));
}

TEST(Spm, AnyBytesComeBack) {
  const auto t = make_tokenizer(spm_vocabulary({"ab", "a", "b", "▁", "é"}));
  std::string text;
  uint32_t random = 1;
  for (int round = 0; round < 200; ++round) {
    text.clear();
    for (int i = 0; i < 50; ++i) {
      random = random * 1664525 + 1013904223;
      text.push_back(static_cast<char>(random >> 24));
    }
    EXPECT_EQ(t->decode(t->encode(text)), text);
  }
}

TEST(Spm, WithoutBytesTheUnknownTokenStands) {
  Vocabulary v = empty_vocabulary(VocabularyKind::kSpm, "");
  v.tokens = {"<unk>", "<s>", "</s>", "a", "▁"};
  v.types = {TokenType::kUnknown, TokenType::kControl, TokenType::kControl, TokenType::kNormal,
             TokenType::kNormal};
  v.scores = {0, 0, 0, -1, -2};
  const auto t = make_tokenizer(v);
  EXPECT_EQ(t->encode("aéa", {.add_special = false}), (std::vector<Token>{4, 3, 0, 3}));
}

TEST(Spm, NoTextHasFewerTokensThanItsBytesSay) {
  // A text may hold the sign by which the vocabulary writes a space.
  const auto t = make_tokenizer(spm_vocabulary({"▁", "▁▁"}));
  std::string text;
  for (int i = 0; i < 100; ++i) text += "▁▁";
  EXPECT_LE(t->least_tokens(text.size()), t->encode(text, {.add_special = false}).size());
  EXPECT_GE(t->least_tokens(6'000'000), 100'000u);
  // Where bytes are left out, the number of bytes says nothing.
  Vocabulary v = empty_vocabulary(VocabularyKind::kSpm, "");
  v.bos = v.eos = v.unk = kNoToken;
  v.add_bos = v.add_eos = false;
  v.tokens = {"a"};
  v.types = {TokenType::kNormal};
  v.scores = {0};
  EXPECT_EQ(make_tokenizer(v)->least_tokens(1000), 0u);
}

}  // namespace
}  // namespace troika::text
