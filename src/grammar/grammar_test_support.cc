#include "grammar/grammar_test_support.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "grammar/made_up_vocabulary_test_support.h"

namespace troika::grammar {

std::shared_ptr<const TokenTrie> test_tokens() {
  static const auto tokens = made_up_tokens({"{\"",      "\"}",
                                             "\":",      "\",\"",
                                             "\":\"",    "\"]",
                                             "[]",       "{}",
                                             "ab",       "abc",
                                             "aab",      "aaaa",
                                             "ba",       "bb",
                                             "\xe4\xb8", "\xb8\xad",
                                             "\xc3\xa9", "e\xcc\x81",
                                             "true",     "false",
                                             "null",     "tr",
                                             "ue",       "\\\"",
                                             "\\u",      "12",
                                             "123",      "0.",
                                             "00",       "\":1",
                                             ",\"",      "name",
                                             "na",       "me\":",
                                             "▁a",       "▁▁",
                                             "▁\"",      "ab\"",
                                             "b\",\"",   "abababababababababab",
                                             "e",        "\xf0\x9f\x98\x80",
                                             "\xf0\x9f", "\n",
                                             "a\nb",     "xyz",
                                             "xy",       "z"});
  return tokens;
}

TokenSet mask_by_force(Matcher* matcher) {
  TokenSet set(matcher->grammar().tokens().n_tokens());
  for (Token token = 0; token < set.n_tokens(); ++token) {
    if (matcher->is_allowed(token)) set.add(token);
  }
  return set;
}

namespace {

void check_mask(Matcher* matcher) {
  TokenSet allowed;
  matcher->allowed(&allowed);
  const TokenSet forced = mask_by_force(matcher);
  ASSERT_EQ(allowed.size(), forced.size());
  ASSERT_TRUE(allowed == forced);
  EXPECT_EQ(allowed.has(kMadeUpEnd), matcher->may_end());
  // Every state can be completed, so some token is always allowed.
  EXPECT_GT(allowed.size(), 0);
}

}  // namespace

bool accepts(const std::shared_ptr<Grammar>& grammar, std::string_view text) {
  Matcher matcher(grammar);
  std::vector<TokenSet> masks;
  bool is_alive = true;
  for (const char c : text) {
    check_mask(&matcher);
    masks.emplace_back();
    matcher.allowed(&masks.back());
    is_alive = matcher.advance(made_up_byte(static_cast<uint8_t>(c)));
    if (!is_alive) break;
  }
  const bool is_accepted = is_alive && matcher.may_end();
  if (is_alive) check_mask(&matcher);
  const std::string forced = is_alive ? matcher.forced(64) : "";
  if (!forced.empty()) {
    EXPECT_FALSE(matcher.may_end());
  }
  while (matcher.n_tokens() > 0) {
    matcher.back(1);
    TokenSet again;
    matcher.allowed(&again);
    EXPECT_TRUE(again == masks[static_cast<size_t>(matcher.n_tokens())]);
  }
  return is_accepted;
}

bool reads(const std::shared_ptr<Grammar>& grammar, std::string_view text) {
  Matcher matcher(grammar);
  for (const char c : text) {
    if (!matcher.advance(made_up_byte(static_cast<uint8_t>(c)))) return false;
  }
  return matcher.may_end();
}

uint32_t next_random(uint32_t* random, uint32_t below) {
  *random = *random * 1664525 + 1013904223;
  return static_cast<uint32_t>((uint64_t{*random >> 8} * below) >> 24);
}

std::string random_text(const std::shared_ptr<Grammar>& grammar, uint32_t* random,
                        int most_tokens) {
  Matcher matcher(grammar);
  std::string text;
  for (int i = 0; i < most_tokens; ++i) {
    TokenSet set;
    matcher.allowed(&set);
    std::vector<Token> tokens;
    for (Token token = 0; token < set.n_tokens(); ++token) {
      if (set.has(token)) tokens.push_back(token);
    }
    EXPECT_FALSE(tokens.empty());
    if (tokens.empty()) return "";
    // A text ends early where it may.
    const bool ends = matcher.may_end() && next_random(random, 3) == 0;
    const Token token =
        ends ? kMadeUpEnd : tokens[next_random(random, static_cast<uint32_t>(tokens.size()))];
    EXPECT_TRUE(matcher.advance(token));
    if (token == kMadeUpEnd) return text;
    text += grammar->tokens().bytes(token);
  }
  return "";
}

std::shared_ptr<Grammar> compiled(std::string_view text, Format format,
                                  const CompileOptions& options) {
  return compile(text, format, test_tokens(), options);
}

std::string error_of(std::string_view text, Format format) {
  try {
    compiled(text, format);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace troika::grammar
