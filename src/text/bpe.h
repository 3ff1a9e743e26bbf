// Tokenizes by byte-level BPE: text is split into words by a pre-tokenizer, and within a word the
// pair of neighbours with the earliest merge is joined first.
#pragma once

#include <memory>

#include "text/tokenizer.h"

namespace troika::text {

std::unique_ptr<Tokenizer> make_bpe_tokenizer(Vocabulary vocabulary);

}  // namespace troika::text
