// Takes parts of a text: the beginning that is run, and the halves, of which one calibrates and the
// other judges.
#pragma once

#include <string>
#include <utility>

#include "text/tokenizer.h"

namespace troika::tune {

// Throws Error where a text of so many tokens is too short to calibrate with.
void check_length(size_t n_tokens);

// Returns the beginning of a text, about n_tokens tokens. It ends at a space where one is near, and
// between two characters elsewhere. Throws Error for a text that is too short.
std::string beginning_of_text(const text::Tokenizer& tokenizer, const std::string& text,
                              size_t n_tokens);

// Returns both halves of a text, cut in the same way.
std::pair<std::string, std::string> halves(const std::string& text);

}  // namespace troika::tune
