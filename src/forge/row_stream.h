// Makes the rows of a tensor on all threads and writes them in order, in bounded memory.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/threads/team.h"
#include "gguf/writer.h"

namespace troika::forge {

// Calls make(worker, first_row, n_rows, out) for parts of the rows, several at a time, and writes
// what it left at `out` (n_rows * row_bytes bytes). `after(n_rows)` is called when that many more
// rows are written. Throws what one of the two throws.
template <typename Make, typename After>
void stream_rows(gguf::Writer& writer, Team& team, uint64_t n_rows, uint64_t row_bytes, Make make,
                 After after) {
  constexpr uint64_t kChunkBytes = uint64_t{4} << 20;
  const uint64_t rows_per_chunk =
      std::clamp<uint64_t>(kChunkBytes / std::max<uint64_t>(row_bytes, 1), 1, n_rows);
  std::vector<std::byte> chunk(rows_per_chunk * row_bytes);
  for (uint64_t first = 0; first < n_rows; first += rows_per_chunk) {
    const uint64_t n = std::min(rows_per_chunk, n_rows - first);
    team.run([&](int worker) {
      const Share share = share_of(static_cast<int64_t>(n), worker, team.size());
      if (share.begin == share.end) return;
      const auto begin = static_cast<uint64_t>(share.begin);
      make(worker, first + begin, static_cast<uint64_t>(share.end) - begin,
           chunk.data() + begin * row_bytes);
    });
    writer.write(std::span(chunk).first(n * row_bytes));
    after(n);
  }
}

// Writes n_rows rows that are made one by one: calls make(row, out) for each row, and report(bytes)
// when that many more bytes are written.
template <typename Make, typename Report>
void stream_single_rows(gguf::Writer& writer, Team& team, uint64_t n_rows, uint64_t row_bytes,
                        const Make& make, const Report& report) {
  stream_rows(
      writer, team, n_rows, row_bytes,
      [&](int /*worker*/, uint64_t first, uint64_t n, std::byte* out) {
        for (uint64_t i = 0; i < n; ++i) make(first + i, out + i * row_bytes);
      },
      [&](uint64_t n) { report(n * row_bytes); });
}

}  // namespace troika::forge
