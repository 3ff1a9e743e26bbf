// What llama.cpp's clients are told of their own requests.
#pragma once

#include <string>
#include <vector>

#include "server/wanted.h"

namespace troika::server {

// What of the request counts, defaults included.
Json settings_json(const Wanted& wanted);
// With the names of control tokens.
std::string text_of(const std::vector<engine::Token>& tokens, const text::Tokenizer& tokenizer);
// The prompt as it was computed, and the settings: "__verbose" beside the answer to a chat.
Json verbose_json(const Wanted& wanted, const text::Tokenizer& tokenizer);

}  // namespace troika::server
