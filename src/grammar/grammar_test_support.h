// What tests of grammars share: a small vocabulary of awkward tokens, and masks by brute force.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "grammar/grammar.h"

namespace troika::grammar {

// All bytes, pieces of JSON, parts of characters, two tokens with the same bytes, an end token.
std::shared_ptr<const TokenTrie> test_tokens();

// The mask as it is defined: every token is tried byte by byte.
TokenSet mask_by_force(Matcher* matcher);

// Whether the grammar accepts the text. Checks the mask at every byte on the way, and that the
// matcher comes back to where it was.
bool accepts(const std::shared_ptr<Grammar>& grammar, std::string_view text);

// A text that the grammar accepts, by tokens that are chosen at random; empty where it did not end
// within so many.
std::string random_text(const std::shared_ptr<Grammar>& grammar, uint32_t* random, int most_tokens);

uint32_t next_random(uint32_t* random, uint32_t below);

// What compiling says is wrong, or "".
std::string error_of(std::string_view text, Format format);

std::shared_ptr<Grammar> compiled(std::string_view text, Format format,
                                  const CompileOptions& options = {});

}  // namespace troika::grammar
