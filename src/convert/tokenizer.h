// Reads the tokenizer of a Hugging Face folder, for the metadata of a GGUF file.
#pragma once

#include <string>
#include <vector>

#include "convert/config.h"
#include "gguf/writer.h"
#include "text/vocabulary.h"

namespace troika::convert {

struct TokenizerSource {
  std::string folder;
  std::string pre;       // the pre-tokenizer of byte-level BPE; empty: it is found in the file
  uint32_t n_vocab = 0;  // counts rows of the embedding: more tokens are refused, fewer are padded
  bool has_space_prefix_default = true;  // used where a SentencePiece tokenizer does not say it
};

// Reads tokenizer.json, tokenizer.model, tokenizer_config.json, added_tokens.json,
// generation_config.json and the templates of chats, whichever are there, and config.json. Throws
// Error where they make no tokenizer that this program knows. Appends a sentence to `notes` where
// they make one that this program knows in part.
text::Vocabulary read_folder_tokenizer(const TokenizerSource& source, const Json& config,
                                       std::vector<std::string>* notes);

void write_tokenizer(const text::Vocabulary& vocabulary, gguf::Writer& writer);

}  // namespace troika::convert
