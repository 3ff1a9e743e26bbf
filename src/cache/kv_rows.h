// Copies the keys and values of a stretch of a sequence to one piece of memory, and back, in order
// to keep them elsewhere than in the cache. A copy has the bits of the original.
#pragma once

#include <cstddef>
#include <span>

#include "cache/kv_cache.h"

namespace troika::cache {

// Returns the bytes of the keys and values of n_tokens tokens.
size_t rows_bytes(const KvShape& shape, int n_tokens);

// Copies the rows of n_tokens tokens to `rows`. REQUIRES: the sequence has these tokens, and `rows`
// has room for exactly these rows.
void copy_rows(KvCache& kv, SequenceId sequence, int first, int n_tokens,
               std::span<std::byte> rows);

// Appends tokens whose keys and values are known to the sequence. Throws Error where there is no
// room; then nothing is taken. REQUIRES: there is a tag for each token, and `rows` has exactly the
// bytes of these tokens.
void append_rows(KvCache& kv, SequenceId sequence, std::span<const Token> tokens,
                 std::span<const Tag> tags, std::span<const std::byte> rows);

}  // namespace troika::cache
