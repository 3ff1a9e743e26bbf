#include "text/stream.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "tests/support/vocabularies.h"
#include "text/utf8.h"

namespace troika::text {
namespace {

const std::string kBad = "\xef\xbf\xbd";  // U+FFFD

// Returns a number below `end`.
size_t next_random(uint32_t* random, size_t end) {
  *random = *random * 1664525 + 1013904223;
  return (*random >> 8) % end;
}

TEST(Utf8Stream, HoldsCharactersBackUntilTheyAreComplete) {
  Utf8Stream stream;
  EXPECT_EQ(stream.push("a\xf0"), "a");
  EXPECT_EQ(stream.push("\x9f"), "");
  EXPECT_EQ(stream.push("\x99"), "");
  EXPECT_EQ(stream.push("\x82"), "🙂");
  EXPECT_EQ(stream.finish(), "");
}

TEST(Utf8Stream, ReplacesInvalidBytesAsSoonAsTheyAreCertain) {
  Utf8Stream stream;
  EXPECT_EQ(stream.push("\x80x"), kBad + "x");
  EXPECT_EQ(stream.push("\xe2\x82"), "");
  EXPECT_EQ(stream.push("x"), kBad + "x");
  EXPECT_EQ(stream.push("\xed\xa0\x80"), kBad + kBad + kBad);  // is a surrogate
  EXPECT_EQ(stream.push("\xc3"), "");
  EXPECT_EQ(stream.finish(), kBad);
  EXPECT_EQ(stream.finish(), "");
}

TEST(Utf8Stream, PiecesGiveWhatTheWholeGives) {
  uint32_t random = 1;
  // First bytes, continuation bytes and ASCII are mixed, so that valid characters occur.
  const auto random_byte = [&]() -> size_t {
    const size_t kind = next_random(&random, 8);
    if (kind == 0) return 'a';
    return kind < 4 ? 0xc0 + next_random(&random, 64) : 0x80 + next_random(&random, 64);
  };
  std::set<unsigned char> firsts;  // the first bytes of valid characters
  for (int round = 0; round < 2000; ++round) {
    std::string bytes;
    for (int i = 0; i < 12; ++i) bytes.push_back(static_cast<char>(random_byte()));
    Utf8Stream stream;
    std::string out;
    for (char c : bytes) {
      out += stream.push({&c, 1});
      ASSERT_EQ(out, replace_invalid_utf8(out)) << "half a character came out";
    }
    out += stream.finish();
    EXPECT_EQ(out, replace_invalid_utf8(bytes));
    for (size_t i = 0; i < out.size(); ++i) {
      const auto byte = static_cast<unsigned char>(out[i]);
      if (byte >= 0xc0 && out.compare(i, kBad.size(), kBad) != 0) firsts.insert(byte);
    }
  }
  EXPECT_EQ(firsts.size(), 0xf4 - 0xc2 + 1) << "each first byte begins a valid character once";
}

TEST(TextStream, RendersTokens) {
  Vocabulary v = test::spm_vocabulary({"▁a", "▁b", "a", "▁"});
  const auto tokenizer = make_tokenizer(v);
  const Token a = tokenizer->find("▁a");
  const Token b = tokenizer->find("▁b");
  TextStream beginning(*tokenizer, {.stops = {}, .render_special = false, .at_beginning = true});
  EXPECT_EQ(beginning.push(1), "");
  EXPECT_EQ(beginning.push(a), "a");
  EXPECT_EQ(beginning.push(b), " b");
  EXPECT_EQ(beginning.push(3 + 0xc3), "");
  EXPECT_EQ(beginning.push(3 + 0xa9), "é");
  EXPECT_EQ(beginning.push(3 + 0xc3), "");
  EXPECT_EQ(beginning.finish(), kBad);
  TextStream middle(*tokenizer, {.stops = {" b"}, .render_special = true});
  EXPECT_EQ(middle.push(a), " a");
  EXPECT_EQ(middle.push(2), "</s>");
  EXPECT_EQ(middle.push(b), "");
  EXPECT_TRUE(middle.stopped());
}

// A user-defined token may begin with a space of its own, which is not the tokenizer's.
TEST(TextStream, GivesTheTextOfDecode) {
  Vocabulary v = test::spm_vocabulary({"▁a", "a", "▁", " x"});
  v.add_space_prefix = true;
  v.types.back() = TokenType::kUserDefined;
  const auto tokenizer = make_tokenizer(v);
  for (const char* const text : {" xa", "a xa", "a", " a", " x x", "<s> xa", ""}) {
    const std::vector<Token> tokens = tokenizer->encode(text, {.parse_special = true});
    TextStream stream(*tokenizer, {.stops = {}, .at_beginning = true});
    std::string streamed;
    for (const Token token : tokens) streamed += stream.push(token);
    streamed += stream.finish();
    EXPECT_EQ(streamed, tokenizer->decode(tokens)) << text;
  }
}

TEST(TextStream, CountsTheTokensOfTheTextThatHasComeOut) {
  const auto tokenizer = make_tokenizer(test::spm_vocabulary({"a", "b", "ab", "▁"}));
  const Token a = tokenizer->find("a");
  TextStream stream(*tokenizer, {.stops = {"aab"}});
  EXPECT_EQ(stream.push(3 + 0xc3), "");
  EXPECT_EQ(stream.n_shown(), 0);
  EXPECT_EQ(stream.push(3 + 0xa9), "é");
  EXPECT_EQ(stream.n_shown(), 2) << "both are halves of the character";
  EXPECT_EQ(stream.push(a), "");
  EXPECT_EQ(stream.push(a), "");
  EXPECT_EQ(stream.n_shown(), 2);
  EXPECT_EQ(stream.push(a), "a");
  EXPECT_EQ(stream.n_shown(), 3) << "two may begin the stop string";
  EXPECT_EQ(stream.push(tokenizer->find("b")), "");
  EXPECT_TRUE(stream.stopped());
  EXPECT_EQ(stream.n_shown(), 3);

  TextStream whole(*tokenizer, {.stops = {"b"}});
  EXPECT_EQ(whole.push(1), "") << "a control token has no text";
  EXPECT_EQ(whole.n_shown(), 0);
  EXPECT_EQ(whole.push(tokenizer->find("ab")), "a");
  EXPECT_EQ(whole.n_shown(), 2) << "a part of its text came";

  TextStream held(*tokenizer, {.stops = {"aab"}});
  EXPECT_EQ(held.push(a), "");
  EXPECT_EQ(held.finish(), "a");
  EXPECT_EQ(held.n_shown(), 1);

  TextStream many(*tokenizer, {.stops = {std::string(100, 'a') + "b"}});
  for (int n = 1; n <= 1000; ++n) {
    many.push(a);
    ASSERT_EQ(many.n_shown(), std::max(n - 100, 0));
  }
  EXPECT_EQ(many.push(tokenizer->find("▁")), std::string(100, 'a') + " ");
  EXPECT_EQ(many.n_shown(), 1001);
}

}  // namespace
}  // namespace troika::text
