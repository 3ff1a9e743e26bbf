#include "text/bpe.h"

#include <gtest/gtest.h>

#include <map>

#include "base/error.h"
#include "tests/support/vocabularies.h"
#include "text/tokenizer.h"

namespace troika::text {
namespace {

using test::bpe_vocabulary;
using Pieces = std::vector<std::string>;

Pieces pieces(const Tokenizer& tokenizer, std::string_view text, bool parse_special = false) {
  Pieces out;
  for (Token token :
       tokenizer.encode(text, {.add_special = false, .parse_special = parse_special})) {
    out.emplace_back(tokenizer.piece(token, true));
  }
  return out;
}

// Merges as BPE is defined, one merge at a time over strings: of all neighbours it takes the pair
// with the lowest rank, and the leftmost such pair.
Pieces merge_plainly(const std::vector<std::string>& merges, std::string_view word) {
  std::map<std::pair<std::string, std::string>, size_t> ranks;
  for (size_t i = 0; i < merges.size(); ++i) {
    const size_t space = merges[i].find(' ');
    ranks.emplace(std::pair(merges[i].substr(0, space), merges[i].substr(space + 1)), i);
  }
  Pieces parts;
  for (char c : word) parts.emplace_back(1, c);
  while (true) {
    size_t best = parts.size();
    size_t best_rank = merges.size();
    for (size_t i = 0; i + 1 < parts.size(); ++i) {
      const auto it = ranks.find({parts[i], parts[i + 1]});
      if (it != ranks.end() && it->second < best_rank) {
        best = i;
        best_rank = it->second;
      }
    }
    if (best == parts.size()) return parts;
    parts[best] += parts[best + 1];
    parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(best) + 1);
  }
}

TEST(Bpe, MergesAsTheDefinitionSays) {
  uint32_t random = 7;
  const auto next = [&](uint32_t n) {
    random = random * 1664525 + 1013904223;
    return (random >> 8) % n;
  };
  for (int round = 0; round < 30; ++round) {
    // The merges are random pairs of what exists already, in an order that training would not give.
    std::vector<std::string> parts = {"a", "b", "c", "d"};
    std::vector<std::string> merges;
    for (int i = 0; i < 20; ++i) {
      const std::string left = parts[next(static_cast<uint32_t>(parts.size()))];
      const std::string right = parts[next(static_cast<uint32_t>(parts.size()))];
      if (std::find(parts.begin(), parts.end(), left + right) != parts.end()) continue;
      parts.push_back(left + right);
      merges.insert(merges.begin() + next(static_cast<uint32_t>(merges.size()) + 1),
                    left + " " + right);
    }
    const auto tokenizer = make_tokenizer(bpe_vocabulary(merges, "gpt-2"));
    for (int word = 0; word < 50; ++word) {
      std::string text;
      for (uint32_t i = next(30) + 1; i > 0; --i) text += static_cast<char>('a' + next(4));
      ASSERT_EQ(pieces(*tokenizer, text), merge_plainly(merges, text)) << text;
    }
  }
}

TEST(Bpe, NothingMergesOverWords) {
  const auto t = make_tokenizer(bpe_vocabulary({"Ġ a", "a Ġ", "Ġ Ġ"}, "gpt-2"));
  EXPECT_EQ(pieces(*t, "a a  a"), (Pieces{"a", " a", " ", " a"}));
}

TEST(Bpe, WholeWordsNeedNoMergesWhereTheModelSaysSo) {
  Vocabulary v = bpe_vocabulary({"a b"}, "llama-bpe");
  v.tokens.push_back("abc");
  v.types.push_back(TokenType::kNormal);
  EXPECT_EQ(pieces(*make_tokenizer(v), "abc"), (Pieces{"abc"}));
  EXPECT_EQ(pieces(*make_tokenizer(v, {.pre = "qwen2"}), "abc"), (Pieces{"ab", "c"}));
}

TEST(Bpe, NoTextHasFewerTokensThanItsBytesSay) {
  Vocabulary v = bpe_vocabulary({"a a", "aa aa", "aaaa aaaa"}, "gpt-2");
  const auto t = make_tokenizer(v);
  EXPECT_EQ(t->least_tokens(0), 0u);
  EXPECT_EQ(t->least_tokens(8'000'001), 1'000'001u);
  const std::string text(800, 'a');
  EXPECT_EQ(t->encode(text, {.add_special = false}).size(), t->least_tokens(text.size()));
  // A special token may be longer than all others.
  v.tokens.push_back("<|a very long name|>");
  v.types.push_back(TokenType::kControl);
  EXPECT_EQ(make_tokenizer(v)->least_tokens(40), 2u);
}

TEST(Bpe, SpecialTokensInTextAreTextUnlessAskedFor) {
  const auto t = make_tokenizer(bpe_vocabulary({"e n"}, "gpt-2"));
  EXPECT_EQ(pieces(*t, "a<|end|>"), (Pieces{"a", "<", "|", "en", "d", "|", ">"}));
  EXPECT_EQ(pieces(*t, "a<|end|>b", true), (Pieces{"a", "<|end|>", "b"}));
  const Token end = t->find("<|end|>");
  EXPECT_TRUE(t->is_end(end));
  EXPECT_TRUE(t->is_control(end));
  EXPECT_EQ(t->piece(end), "");
  EXPECT_EQ(t->piece(end, true), "<|end|>");
}

TEST(Bpe, AddedTokensArePlainTextAndFoundFirst) {
  // Byte-level BPE also writes the byte 0xf8 as "ø". An added token of that name does not stand for
  // the byte.
  Vocabulary v = bpe_vocabulary({"a b"}, "gpt-2");
  v.tokens[0xf8] = "unused";
  v.tokens.push_back("ø");
  v.types.push_back(TokenType::kUserDefined);
  const auto t = make_tokenizer(v);
  EXPECT_EQ(pieces(*t, "abøab"), (Pieces{"ab", "ø", "ab"}));
  // The byte has no token, so it becomes U+FFFD.
  EXPECT_EQ(t->decode(t->encode("a\xf8")), "a\xef\xbf\xbd");
  EXPECT_EQ(t->decode(t->encode("abøab")), "abøab");
}

TEST(Bpe, MergesMayPassThroughWhatIsNoToken) {
  Vocabulary v = bpe_vocabulary({"a b", "ab c"}, "gpt-2");
  v.tokens[256] = "something else";  // the token of "ab" is taken away
  const auto t = make_tokenizer(v);
  EXPECT_EQ(pieces(*t, "abc"), (Pieces{"abc"}));
  EXPECT_EQ(pieces(*t, "abd"), (Pieces{"a", "b", "d"}));
}

TEST(Bpe, AnyBytesComeBack) {
  uint32_t random = 1;
  for (const char* pre : {"gpt-2", "llama-bpe", "deepseek-llm", "gpt-4o"}) {
    const auto t = make_tokenizer(bpe_vocabulary({"a b", "Ġ Ġ", "Ã ©"}, pre));
    for (int round = 0; round < 100; ++round) {
      std::string text;
      for (int i = 0; i < 60; ++i) {
        random = random * 1664525 + 1013904223;
        text.push_back(static_cast<char>(random >> 24));
      }
      EXPECT_EQ(t->decode(t->encode(text)), text) << pre;
    }
  }
}

TEST(Bpe, AddsBeginAndEndWhereTheModelWantsThem) {
  Vocabulary v = bpe_vocabulary({"a b"}, "gpt-2");
  v.bos = v.eos;
  v.add_bos = v.add_eos = true;
  const auto t = make_tokenizer(v);
  EXPECT_EQ(t->encode(""), (std::vector<Token>{v.bos, v.eos}));
  EXPECT_EQ(t->encode("a"), (std::vector<Token>{v.bos, 'a', v.eos}));
  EXPECT_EQ(t->encode("a", {.add_special = false}), (std::vector<Token>{'a'}));
}

TEST(Bpe, ABrokenMergeIsAnError) {
  Vocabulary v = bpe_vocabulary({"a b"}, "gpt-2");
  v.merges.push_back("ab");
  EXPECT_THROW(make_tokenizer(v), Error);
  v.merges.back() = "ab ";
  EXPECT_THROW(make_tokenizer(v), Error);
  v.merges.back() = "a  b";  // has two parts, the second of which begins with a space
  EXPECT_NO_THROW(make_tokenizer(v));
}

}  // namespace
}  // namespace troika::text
