// Gives tests of grammars a small vocabulary of awkward tokens, and masks by brute force.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "grammar/grammar.h"

namespace troika::grammar {

// Returns a vocabulary of all bytes, pieces of JSON, parts of characters, two tokens with the same
// bytes, and an end token.
std::shared_ptr<const TokenTrie> test_tokens();

// Returns the mask as it is defined: it tries every token byte by byte.
TokenSet mask_by_force(Matcher* matcher);

// Says whether the grammar accepts the text. Checks the mask at every byte on the way, and that the
// matcher can go back to its beginning.
bool accepts(const std::shared_ptr<Grammar>& grammar, std::string_view text);

// Says whether the grammar accepts the text, without a look at masks: for very many texts.
bool reads(const std::shared_ptr<Grammar>& grammar, std::string_view text);

// Returns a text that the grammar accepts, made of tokens chosen at random. The text is empty if it
// did not end within `most_tokens`.
std::string random_text(const std::shared_ptr<Grammar>& grammar, uint32_t* random, int most_tokens);

uint32_t next_random(uint32_t* random, uint32_t below);

// Returns what compiling says is wrong with the text, or "".
std::string error_of(std::string_view text, Format format);

std::shared_ptr<Grammar> compiled(std::string_view text, Format format,
                                  const CompileOptions& options = {});

}  // namespace troika::grammar
