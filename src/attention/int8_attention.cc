#include "attention/int8_attention.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "attention/areas.h"
#include "attention/choose/estimate.h"
#include "attention/choose/key_levels.h"
#include "base/error.h"

namespace troika::attention {
namespace {

using kernels::kPromptBlock;
using kernels::kStripRows;

struct Strips {
  int8_t* levels;
  float* scales;
  int32_t* starts;

  Strips(Areas& areas, size_t n_rows, size_t k) {
    const size_t n = kernels::n_strips(n_rows);
    levels = areas.take<int8_t>(n * kernels::int8_strip_bytes(k));
    scales = areas.take<float>(n * kStripRows);
    starts = areas.take<int32_t>(n * kStripRows);
  }
};

struct Int8Areas {
  Strips keys, values;  // (kPromptBlock, head_size), (head_size, kPromptBlock)
  std::byte* queries;   // (n_queries, levels)
  std::byte* weights;   // (n_queries, levels of kPromptBlock)
  float* rows;          // (kPromptBlock, head_size): keys, or values on their side
  float* row;           // (head_size)
  float* scores;        // (n_queries, kPromptBlock)
  float* sums;          // (n_queries, head_size)
  float* part;          // (n_queries, head_size): the sums of one block
  kernels::OnlineSoftmax* softmax;

  Int8Areas(const Int8Room& room, Areas& areas)
      : keys(areas, kPromptBlock, room.head_size), values(areas, room.head_size, kPromptBlock) {
    const size_t n = kTileTokens * room.n_group, d = room.head_size;
    queries = areas.take<std::byte>(n * kernels::int8_token_bytes(d));
    weights = areas.take<std::byte>(n * kernels::int8_token_bytes(kPromptBlock));
    rows = areas.take<float>(kPromptBlock * kernels::n_strips(d) * kStripRows);
    row = areas.take<float>(std::max(d, kPromptBlock));
    scores = areas.take<float>(n * kPromptBlock);
    sums = areas.take<float>(n * d);
    part = areas.take<float>(n * d);
    softmax = areas.take<kernels::OnlineSoftmax>(n);
  }
};

class Int8Attention {
 public:
  Int8Attention(const kernels::Table& table, const Positions& positions, const Queries& queries,
                size_t begin, const Int8Room& room, std::byte* workspace)
      : table_(table),
        positions_(positions),
        queries_(queries),
        begin_(begin),
        n_(kTileTokens * room.n_group),
        areas_(workspace),
        buffers_(room, areas_) {
    TROIKA_ASSERT(begin >= kMeanEnd && begin + kTileTokens == positions.size());
  }

  void run() {
    const size_t d = queries_.head_size;
    largest_key_ = largest_of([&](size_t p) { return positions_.key(p); }, positions_.k.type);
    largest_value_ = largest_of([&](size_t p) { return positions_.value(p); }, positions_.v.type);
    pack_queries();
    std::fill_n(buffers_.sums, n_ * d, 0.0f);
    std::fill_n(buffers_.softmax, n_, kernels::OnlineSoftmax());
    for (size_t first = 0; first < positions_.size(); first += kPromptBlock) {
      const size_t n = std::min(kPromptBlock, positions_.size() - first);
      pack_keys(first, n);
      multiply(buffers_.keys, n, d, buffers_.queries, buffers_.scores, kPromptBlock);
      weigh(first, n);
      pack_values(first, n);
      multiply(buffers_.values, d, kPromptBlock, buffers_.weights, buffers_.part, d);
      table_.add(buffers_.sums, buffers_.part, buffers_.sums, n_ * d);
    }
    for (size_t i = 0; i < n_; ++i) {
      table_.scale(buffers_.sums + i * d, 1.0f / buffers_.softmax[i].total,
                   queries_.out + i / queries_.n_group * queries_.stride + i % queries_.n_group * d,
                   d);
    }
  }

 private:
  template <typename RowOf>
  float largest_of(const RowOf& row_of, tensor::Type type) {
    float largest = 0;
    for (size_t p = 0; p < kMeanEnd; ++p) {
      table_.load_kv(type, row_of(p), buffers_.row, queries_.head_size);
      for (size_t i = 0; i < queries_.head_size; ++i) {
        largest = std::max(largest, std::abs(buffers_.row[i]));
      }
    }
    return largest;
  }

  // Packs the queries of a tile; queries of one head share a scale.
  void pack_queries() {
    const size_t d = queries_.head_size;
    for (size_t h = 0; h < queries_.n_group; ++h) {
      float largest = 0;
      for (size_t t = 0; t < kTileTokens; ++t) {
        const float* const q = queries_.q + t * queries_.stride + h * d;
        for (size_t i = 0; i < d; ++i) largest = std::max(largest, std::abs(q[i]));
      }
      for (size_t t = 0; t < kTileTokens; ++t) {
        // The levels of a token are multiples of the tile's scale, whatever the token's own largest
        // value is.
        const float* const q = queries_.q + t * queries_.stride + h * d;
        round_to(largest, q, buffers_.row, d);
        table_.scale(buffers_.row, queries_.scale, buffers_.row, d);
        table_.quantize_int8(
            buffers_.row,
            buffers_.queries + (t * queries_.n_group + h) * kernels::int8_token_bytes(d), d);
      }
    }
  }
  // Rounds n values to multiples of largest / 127.
  static void round_to(float largest, const float* x, float* y, size_t n) {
    const float scale = largest > 0 ? largest / 127.0f : 1.0f;
    for (size_t i = 0; i < n; ++i) {
      y[i] = scale * std::clamp(std::round(x[i] / scale), -127.0f, 127.0f);
    }
  }

  // Packs rows by one scale for all. A row that is no number gets no scale, so that what comes of
  // it is none either.
  void pack(const Strips& strips, size_t n_rows, size_t k, float largest) {
    const auto* const data = reinterpret_cast<const std::byte*>(buffers_.rows);
    for (size_t row = 0; row < n_rows; row += kStripRows) {
      const size_t strip = row / kStripRows, end = std::min(row + kStripRows, n_rows);
      float all[kStripRows];
      for (size_t i = row; i < end; ++i) {
        const float of_row = kernels::find(table_.largest_of_row, tensor::Type::kF32)(
            data + i * k * sizeof(float), k);
        all[i - row] = std::isfinite(of_row) ? largest : of_row;
      }
      kernels::find(table_.unpack_int8, tensor::Type::kF32)(
          {data, k * sizeof(float), k, row, end}, all,
          {strips.levels + strip * kernels::int8_strip_bytes(k), strips.scales + strip * kStripRows,
           strips.starts + strip * kStripRows});
    }
  }
  // Clips a key, but leaves infinity, which counts as no number.
  void clip(float* row, float largest) const {
    for (size_t i = 0; i < queries_.head_size; ++i) {
      if (std::isfinite(row[i])) row[i] = std::clamp(row[i], -largest, largest);
    }
  }
  void pack_keys(size_t first, size_t n) {
    const size_t d = queries_.head_size;
    for (size_t p = 0; p < n; ++p) {
      float* const row = buffers_.rows + p * d;
      table_.load_kv(positions_.k.type, positions_.key(first + p), row, d);
      clip(row, largest_key_);
    }
    pack(buffers_.keys, n, d, largest_key_);
  }
  void pack_values(size_t first, size_t n) {
    const size_t d = queries_.head_size;
    std::fill_n(buffers_.rows, d * kPromptBlock, 0.0f);
    for (size_t p = 0; p < n; ++p) {
      table_.load_kv(positions_.v.type, positions_.value(first + p), buffers_.row, d);
      for (size_t i = 0; i < d; ++i) {
        const float value = buffers_.row[i];
        if (std::isfinite(value)) {
          buffers_.rows[i * kPromptBlock + p] = std::clamp(value, -largest_value_, largest_value_);
        } else {
          spoil(first + p, i);
        }
      }
    }
    pack(buffers_.values, d, kPromptBlock, largest_value_);
  }
  // Makes an element of the sums no number for the queries that see a position. In a row of levels
  // its value would spoil those too that do not.
  void spoil(size_t position, size_t element) {
    for (size_t i = 0; i < n_; ++i) {
      if (begin_ + i / queries_.n_group < position) continue;
      buffers_.sums[i * queries_.head_size + element] = std::numeric_limits<float>::quiet_NaN();
    }
  }

  void multiply(const Strips& strips, size_t n_rows, size_t k, const std::byte* x, float* y,
                size_t y_stride) {
    kernels::PanelProduct product;
    product.last_strip = kernels::n_strips(n_rows);
    product.n_tokens = n_;
    product.x = x;
    product.x_stride_bytes = kernels::int8_token_bytes(k);
    product.y = y;
    product.y_stride = y_stride;
    table_.matmul_int8({strips.levels, strips.scales, strips.starts, n_rows, k, 0}, product);
  }

  // Turns scores into weights in levels of 1 / 127. Earlier sums shrink where the largest score
  // grows.
  void weigh(size_t first, size_t n) {
    uint16_t weights[kPromptBlock];
    for (size_t i = 0; i < n_; ++i) {
      const size_t position = begin_ + i / queries_.n_group;
      const size_t n_seen = std::min(n, position + 1 - std::min(first, position + 1));
      std::fill_n(buffers_.row, kPromptBlock, 0.0f);
      if (n_seen > 0) {
        float* const scores = buffers_.scores + i * kPromptBlock;
        if (queries_.soft_cap > 0.0f) table_.soft_cap(scores, queries_.soft_cap, scores, n_seen);
        const float factor = table_.weigh_scores(scores, n_seen, &buffers_.softmax[i], weights);
        float* const sums = buffers_.sums + i * queries_.head_size;
        if (factor != 1.0f) table_.scale(sums, factor, sums, queries_.head_size);
        for (size_t p = 0; p < n_seen; ++p) {
          buffers_.row[p] = std::bit_cast<float>(uint32_t{weights[p]} << 16);
        }
        round_to(1.0f, buffers_.row, buffers_.row, n_seen);
      }
      table_.quantize_int8(buffers_.row,
                           buffers_.weights + i * kernels::int8_token_bytes(kPromptBlock),
                           kPromptBlock);
    }
  }

  const kernels::Table& table_;
  const Positions& positions_;
  const Queries& queries_;
  size_t begin_;
  size_t n_;  // counts queries
  Areas areas_;
  Int8Areas buffers_;
  float largest_key_ = 0, largest_value_ = 0;
};

}  // namespace

size_t Int8Room::bytes() const {
  Areas areas(nullptr);
  const Int8Areas counted(*this, areas);
  return areas.bytes();
}

void attend_in_int8(const kernels::Table& table, const Positions& positions, const Queries& queries,
                    size_t begin, const Int8Room& room, std::byte* workspace) {
  Int8Attention(table, positions, queries, begin, room, workspace).run();
}

}  // namespace troika::attention
