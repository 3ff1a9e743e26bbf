// Tokenizes by SentencePiece-style BPE: the pair whose joined text has the highest score is joined
// first; what has no token is spelled in bytes.
#pragma once

#include <memory>

#include "text/tokenizer.h"

namespace troika::text {

std::unique_ptr<Tokenizer> make_spm_tokenizer(Vocabulary vocabulary);

}  // namespace troika::text
