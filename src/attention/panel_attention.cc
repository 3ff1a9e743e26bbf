#include "attention/panel_attention.h"

#include <algorithm>
#include <cstring>

#include "attention/areas.h"
#include "base/error.h"

namespace troika::attention {
namespace {

using kernels::kPromptBlock;
using kernels::kStripRows;

// Counts the queries that are computed side by side: they share what is unpacked of keys and
// values, and their scores and weights fit a second-level cache together with all other buffers.
constexpr size_t kQueriesTogether = 320;
constexpr size_t kKeyBytes = kernels::kMaxHeadSize * sizeof(float);  // the most that one head needs
constexpr size_t kWeightBytes = kernels::bf16_token_bytes(kPromptBlock);

struct PanelAreas {
  std::byte* queries;  // (n_queries, query_bytes), scaled
  float* scores;       // (queries together, kPromptBlock)
  std::byte* weights;  // (queries together, kWeightBytes)
  float* sums;         // (n_queries, head_size)
  float* scaled;       // (head_size)
  kernels::OnlineSoftmax* softmax;
  uint16_t* keys;                // strips of 16 positions
  uint16_t* values;              // strips of 16 elements
  std::byte* rows;               // (16, kKeyBytes): keys side by side
  const std::byte** value_rows;  // (kPromptBlock)
  size_t bytes;

  PanelAreas(const PanelRoom& room, std::byte* begin) {
    Areas areas(begin);
    const size_t n = room.n_tokens * room.n_group, n_together = room.n_together * room.n_group;
    queries = areas.take<std::byte>(n * kernels::bf16_token_bytes(room.head_size));
    scores = areas.take<float>(n_together * kPromptBlock);
    weights = areas.take<std::byte>(n_together * kWeightBytes);
    sums = areas.take<float>(n * room.head_size);
    scaled = areas.take<float>(room.head_size);
    softmax = areas.take<kernels::OnlineSoftmax>(n);
    keys = areas.take<uint16_t>(kPromptBlock * kernels::bf16_depth(room.head_size));
    values = areas.take<uint16_t>(kernels::n_strips(room.head_size) * kStripRows * kPromptBlock);
    rows = areas.take<std::byte>(kStripRows * kKeyBytes);
    value_rows = areas.take<const std::byte*>(kPromptBlock);
    bytes = areas.bytes();
  }
};

// Names tokens first .. last.
struct Tokens {
  size_t first, last;
};

class PanelAttention {
 public:
  PanelAttention(const kernels::Table& table, const Positions& positions, const Queries& queries,
                 std::span<const kernels::SeenPositions> seen, const PanelRoom& room,
                 std::byte* workspace)
      : table_(table),
        positions_(positions),
        queries_(queries),
        seen_(seen),
        n_together_(room.n_together),
        query_bytes_(kernels::bf16_token_bytes(queries.head_size)),
        unpack_keys_(kernels::find(table.unpack_bf16, positions.k.type)),
        buffers_(room, workspace) {
    TROIKA_ASSERT(seen.size() <= room.n_tokens && room.n_group == queries.n_group &&
                  room.head_size == queries.head_size);
  }

  void attend() {
    prepare_queries();
    const size_t n_positions = seen_.back().last;
    const size_t begin = seen_.front().first / kPromptBlock * kPromptBlock;
    for (size_t first = begin; first < n_positions; first += kPromptBlock) {
      // Tokens that see nothing of this block are left out.
      Tokens seeing = {0, seen_.size()};
      while (seen_[seeing.first].last <= first) ++seeing.first;
      while (seen_[seeing.last - 1].first >= first + kPromptBlock) --seeing.last;
      block_ = {first, std::min(kPromptBlock, n_positions - first)};
      pack();
      while (seeing.first < seeing.last) {
        const Tokens part = {seeing.first, std::min(seeing.first + n_together_, seeing.last)};
        score(part);
        weigh(part);
        add_values(part);
        seeing.first = part.last;
      }
    }
    write();
  }

 private:
  size_t n_queries(Tokens tokens) const { return (tokens.last - tokens.first) * queries_.n_group; }
  // Returns how many positions at the beginning of the block a token no longer sees.
  size_t n_hidden(size_t token) const {
    const size_t first = seen_[token].first;
    return first > block_.first ? first - block_.first : 0;
  }

  void prepare_queries() {
    const size_t n = seen_.size() * queries_.n_group;
    std::fill_n(buffers_.sums, n * queries_.head_size, 0.0f);
    std::fill_n(buffers_.softmax, n, kernels::OnlineSoftmax());
    std::byte* query = buffers_.queries;
    for (size_t token = 0; token < seen_.size(); ++token) {
      const float* q = queries_.q + token * queries_.stride;
      for (size_t h = 0; h < queries_.n_group; ++h, q += queries_.head_size) {
        table_.scale(q, queries_.scale, buffers_.scaled, queries_.head_size);
        table_.narrow_bf16(buffers_.scaled, query, queries_.head_size);
        query += query_bytes_;
      }
    }
  }

  // Brings keys and values of the block into panels.
  void pack() {
    const size_t head_bytes = positions_.key_bytes(queries_.head_size);
    const size_t depth = kernels::bf16_depth(queries_.head_size);
    for (size_t p = 0; p < block_.n; p += kStripRows) {
      const size_t n_rows = std::min(kStripRows, block_.n - p);
      for (size_t i = 0; i < n_rows; ++i) {
        const uint32_t slot = positions_.slot(block_.first + p + i);
        std::memcpy(buffers_.rows + i * head_bytes, kernels::kv_row(positions_.k, slot),
                    head_bytes);
        buffers_.value_rows[p + i] = kernels::kv_row(positions_.v, slot);
      }
      unpack_keys_({buffers_.rows, head_bytes, queries_.head_size, 0, n_rows}, 0, depth,
                   buffers_.keys + p * depth);
    }
    pack_values();
  }
  void pack_values() {
    table_.pack_values(positions_.v.type, buffers_.value_rows, block_.n, queries_.head_size,
                       buffers_.values);
    is_hidden_ = false;
  }

  // Multiplies the queries with the keys of the block.
  void score(Tokens tokens) {
    kernels::PanelProduct product;
    product.last_strip = kernels::n_strips(block_.n);
    product.n_tokens = n_queries(tokens);
    product.x = buffers_.queries + tokens.first * queries_.n_group * query_bytes_;
    product.x_stride_bytes = query_bytes_;
    product.y = buffers_.scores;
    product.y_stride = kPromptBlock;
    table_.matmul_bf16({.panel = buffers_.keys,
                        .n_rows = block_.n,
                        .n_k = kernels::bf16_depth(queries_.head_size),
                        .is_first = true,
                        .is_last = true},
                       product);
  }

  // Turns the scores of positions hidden .. n of the block into weights, for one query. `index`
  // counts the queries of a part, `query` all of them.
  float weigh_query(size_t index, size_t query, size_t hidden, size_t n) {
    float* scores = buffers_.scores + index * kPromptBlock;
    if (queries_.soft_cap > 0.0f) {
      table_.soft_cap(scores + hidden, queries_.soft_cap, scores + hidden, n - hidden);
    }
    auto* weights = reinterpret_cast<uint16_t*>(buffers_.weights + index * kWeightBytes);
    if (hidden == 0) return table_.weigh_scores(scores, n, &buffers_.softmax[query], weights);
    alignas(64) uint16_t seen[kPromptBlock];
    const float factor =
        table_.weigh_scores(scores + hidden, n - hidden, &buffers_.softmax[query], seen);
    std::fill_n(weights, hidden, uint16_t{0});
    std::copy_n(seen, kPromptBlock - hidden, weights + hidden);
    return factor;
  }

  void weigh(Tokens tokens) {
    size_t index = 0, query = tokens.first * queries_.n_group;
    for (size_t token = tokens.first; token < tokens.last; ++token) {
      const size_t n = std::min(kPromptBlock, seen_[token].last - block_.first);
      const size_t hidden = n_hidden(token);
      for (size_t h = 0; h < queries_.n_group; ++h, ++index, ++query) {
        const float factor = weigh_query(index, query, hidden, n);
        if (factor == 1.0f) continue;
        float* sums = buffers_.sums + query * queries_.head_size;
        table_.scale(sums, factor, sums, queries_.head_size);
      }
    }
  }

  // Multiplies some tokens' weights with the values of the block. `index` is the place of the first
  // token in its part.
  void multiply(Tokens tokens, size_t index) {
    kernels::PanelProduct product;
    product.last_strip = kernels::n_strips(queries_.head_size);
    product.n_tokens = n_queries(tokens);
    product.x = buffers_.weights + index * queries_.n_group * kWeightBytes;
    product.x_stride_bytes = kWeightBytes;
    product.y = buffers_.sums + tokens.first * queries_.n_group * queries_.head_size;
    product.y_stride = queries_.head_size;
    table_.matmul_bf16({.panel = buffers_.values,
                        .n_rows = queries_.head_size,
                        .n_k = kernels::bf16_depth(block_.n),
                        .is_first = false,
                        .is_last = true},
                       product);
  }

  void add_values(Tokens tokens) {
    if (is_hidden_) pack_values();
    const size_t n_values =
        kernels::n_strips(queries_.head_size) * kStripRows * kernels::bf16_depth(block_.n);
    const bool all_see_all =
        seen_[tokens.first].last >= block_.first + block_.n && n_hidden(tokens.last - 1) == 0;
    // Weight 0 hides a value that a token does not see, unless the value is no number.
    if (all_see_all || are_numbers(buffers_.values, n_values)) {
      multiply(tokens, 0);
      return;
    }
    for (size_t token = tokens.last; token-- > tokens.first;) {
      // Tokens differ in how much of the beginning a window hides.
      if (is_hidden_ && n_hidden(tokens.last - 1) > 0) pack_values();
      hide_values(0, n_hidden(token));
      hide_values(seen_[token].last - block_.first, kernels::bf16_depth(block_.n));
      multiply({token, token + 1}, token - tokens.first);
    }
  }
  static bool are_numbers(const uint16_t* values, size_t n) {
    constexpr int16_t kExponent = 0x7f80;
    // The largest exponent; the loop always goes to the end, so that it looks at many at once.
    int16_t most = 0;
    for (size_t i = 0; i < n; ++i) {
      const auto exponent = static_cast<int16_t>(values[i] & kExponent);
      most = most > exponent ? most : exponent;
    }
    return most != kExponent;
  }
  // Makes the values of positions first .. last of the block zeros.
  void hide_values(size_t first, size_t last) {
    is_hidden_ = true;
    const size_t depth = kernels::bf16_depth(block_.n);
    for (size_t strip = 0; strip < kernels::n_strips(queries_.head_size); ++strip) {
      uint16_t* lines = buffers_.values + strip * kStripRows * depth;
      for (size_t p = first; p < last; ++p) {
        for (size_t i = 0; i < kStripRows; ++i) {
          lines[p / 2 * 2 * kStripRows + 2 * i + p % 2] = 0;
        }
      }
    }
  }

  void write() {
    size_t query = 0;
    for (size_t token = 0; token < seen_.size(); ++token) {
      float* out = queries_.out + token * queries_.stride;
      for (size_t h = 0; h < queries_.n_group; ++h, ++query, out += queries_.head_size) {
        const float total = buffers_.softmax[query].total;
        table_.scale(buffers_.sums + query * queries_.head_size,
                     seen_[token].last > 0 ? 1.0f / total : 0.0f, out, queries_.head_size);
      }
    }
  }

  struct Block {
    size_t first = 0;
    size_t n = 0;
  };

  const kernels::Table& table_;
  const Positions& positions_;
  const Queries& queries_;
  std::span<const kernels::SeenPositions> seen_;
  size_t n_together_;
  size_t query_bytes_;
  kernels::UnpackBf16* unpack_keys_;
  PanelAreas buffers_;
  Block block_;
  bool is_hidden_ = false;  // says whether some of the block's values were made zeros
};

}  // namespace

size_t PanelRoom::bytes() const { return PanelAreas(*this, nullptr).bytes; }

size_t tokens_together(size_t n_group) { return std::max<size_t>(1, kQueriesTogether / n_group); }

void attend_in_panels(const kernels::Table& table, const Positions& positions,
                      const Queries& queries, std::span<const kernels::SeenPositions> seen,
                      const PanelRoom& room, std::byte* workspace) {
  if (!seen.empty()) PanelAttention(table, positions, queries, seen, room, workspace).attend();
}

}  // namespace troika::attention
