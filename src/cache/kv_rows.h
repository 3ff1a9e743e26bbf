// Keys and values of a stretch of a sequence as one piece of memory, and back: to keep them
// elsewhere than in the cache. A copy has the bits of what was copied.
#pragma once

#include <cstddef>
#include <span>

#include "cache/kv_cache.h"

namespace troika::cache {

// Returns the bytes of the keys and values of so many tokens.
size_t rows_bytes(const KvShape& shape, int n_tokens);

// REQUIRES: the sequence has these tokens, and `rows` has room for exactly them.
void copy_rows(KvCache& kv, SequenceId sequence, int first, int n_tokens,
               std::span<std::byte> rows);

// The sequence goes on with tokens whose keys and values are known. Throws Error where there is no
// room; then nothing is taken. REQUIRES: a tag for each token, and the bytes of that many.
void append_rows(KvCache& kv, SequenceId sequence, std::span<const Token> tokens,
                 std::span<const Tag> tags, std::span<const std::byte> rows);

}  // namespace troika::cache
