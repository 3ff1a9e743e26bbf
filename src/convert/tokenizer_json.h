// The tokenizer.json of the library tokenizers: byte-level BPE, and BPE that was made out of
// SentencePiece.
#pragma once

#include <string>

#include "convert/config.h"
#include "text/vocabulary.h"

namespace troika::convert {

enum class JsonTokenizer { kByteLevel, kSentencePiece };

// Throws Error for a tokenizer of another kind.
JsonTokenizer kind_of(const Json& json, const std::string& path);

// The tokens with their types, scores or merges, the begin and end tokens that its template adds,
// and for byte-level BPE the name of the pre-tokenizer: `pre` where it is given, else what is found
// in the file. Throws Error where that is not known.
text::Vocabulary read_tokenizer_json(const Json& json, const std::string& path,
                                     const std::string& pre);

// Puts the "added_tokens" of the file in their places.
void add_tokens(const Json& json, const std::string& path, text::Vocabulary* vocabulary);
// One of them; `is_special` tokens become control tokens.
void add_token(uint64_t id, std::string content, bool is_special, const std::string& path,
               text::Vocabulary* vocabulary);

}  // namespace troika::convert
