// Reads a tokenizer.model of SentencePiece (a protocol buffer), as far as a vocabulary needs it.
// Its bytes are untrusted: every length is checked.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "text/vocabulary.h"

namespace troika::convert {

// No tokenizer has a longer token.
inline constexpr size_t kMostTokenBytes = 4096;

struct SentencePiece {
  text::Vocabulary vocabulary;   // tokens, scores, types, the ids of special tokens
  bool has_space_prefix = true;  // the text begins as if after a space
  // The next two happen to a text first, and this program does not do them.
  bool removes_spaces = true;    // spaces at the ends go, and all but one of those in a row
  bool maps_characters = false;  // some characters become others
};

// Throws Error, with `name` in its message, for bytes that are no such model and for models that
// are no BPE.
SentencePiece read_sentencepiece(std::span<const std::byte> bytes, const std::string& name);

}  // namespace troika::convert
