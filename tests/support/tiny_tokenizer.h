// Adds small but real tokenizers to the tiny models, so that any text can be encoded and decoded.
#pragma once

#include <cstddef>
#include <string>

#include "tests/support/gguf_bytes.h"

namespace troika::test_support {

// Adds a tokenizer in the style of SentencePiece: <unk>, <s>, </s>, 256 bytes, single characters,
// then common pieces with falling scores. n_tokens is at least 331.
void add_spm_tokenizer(GgufBytes& file, size_t n_tokens);

// Adds byte-level BPE with the named pre-tokenizer: 256 bytes, merges, and at the end
// <|endoftext|>, <|im_start|> and <|im_end|>. n_tokens is at least 259.
void add_bpe_tokenizer(GgufBytes& file, size_t n_tokens, const std::string& pre, bool add_bos);

}  // namespace troika::test_support
