// Writes what llama.cpp's clients are told of their own requests.
#pragma once

#include <string>
#include <vector>

#include "server/reading/wanted.h"

namespace troika::server {

// Returns the settings that count for a request, with defaults.
Json settings_json(const Wanted& wanted);
// Returns the text of tokens, with the names of control tokens.
std::string text_of(const std::vector<engine::Token>& tokens, const text::Tokenizer& tokenizer);
// Returns the prompt as it was computed, and the settings. It stands as "__verbose" beside the
// answer to a chat.
Json verbose_json(const Wanted& wanted, const text::Tokenizer& tokenizer);

}  // namespace troika::server
