// Finds which pre-tokenizer of this program does what that of a tokenizer.json does.
#pragma once

#include <string>

#include "convert/config.h"

namespace troika::convert {

// Returns a name of text::splitter_names(). For an unknown pre-tokenizer, throws an Error that
// shows the pattern and says that ‹pre› chooses one.
std::string pre_tokenizer_name(const Json& json, const std::string& path);

}  // namespace troika::convert
