// Which pre-tokenizer of ours does what the one of a tokenizer.json does.
#pragma once

#include <string>

#include "convert/config.h"

namespace troika::convert {

// A name of text::splitter_names(). Throws Error for a pre-tokenizer that is not known, with the
// pattern, and says that --pre chooses one.
std::string pre_tokenizer_name(const Json& json, const std::string& path);

}  // namespace troika::convert
