// Reads the tokenizer.json of the library tokenizers: byte-level BPE, and BPE that was made out of
// SentencePiece.
#pragma once

#include <string>

#include "convert/config.h"
#include "text/vocabulary.h"

namespace troika::convert {

enum class JsonTokenizer { kByteLevel, kSentencePiece };

// A file that names tokens.
struct TokenFile {
  std::string path;
  uint64_t n_vocab;  // counts the tokens that the model knows

  // Limits the numbers of tokens: models know fewer tokens than their tokenizers, but not by far.
  uint64_t most_tokens() const { return n_vocab + (uint64_t{1} << 16); }
};

// Returns the kind of tokenizer. Throws Error for any other kind.
JsonTokenizer kind_of(const Json& json, const std::string& path);

// Throws the UsageError for a pre-tokenizer that is named where the tokenizer in `path` has none.
[[noreturn]] void refuse_pre(const std::string& path);

// Returns the tokens with their types, scores or merges, and the begin and end tokens that the
// file's template adds; for byte-level BPE also the name of the pre-tokenizer: `pre` where it is
// given, else what is found in the file. Throws Error where that is not known.
text::Vocabulary read_tokenizer_json(const Json& json, const TokenFile& file,
                                     const std::string& pre);

// Says whether the file has a template of one text.
bool has_template(const Json& json);

// Puts the "added_tokens" of the file in their places.
void add_tokens(const Json& json, const TokenFile& file, text::Vocabulary* vocabulary);
// Adds one token; a token that `is_special` becomes a control token. Throws Error for a number or a
// text that no tokenizer has.
void add_token(uint64_t id, std::string content, bool is_special, const TokenFile& file,
               text::Vocabulary* vocabulary);
// Lets a token that was added take the white space in front of it ("lstrip") or behind it
// ("rstrip"), if its entry says so.
void read_strips(const Json& token, uint64_t id, text::Vocabulary* vocabulary);

}  // namespace troika::convert
