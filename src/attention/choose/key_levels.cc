#include "attention/choose/key_levels.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.h"

namespace troika::attention {

using kernels::kStripRows;

namespace {

float largest_of_floats(const kernels::Table& table, const float* values, size_t n) {
  return kernels::find(table.largest_of_row, tensor::Type::kF32)(
      reinterpret_cast<const std::byte*>(values), n);
}

void scale_query(const kernels::Table& table, const Queries& queries, size_t token, size_t head,
                 float* scaled) {
  const float* const q = queries.q + token * queries.stride + head * queries.head_size;
  table.scale(q, queries.scale, scaled, queries.head_size);
}

}  // namespace

KeyLevels::KeyLevels(Areas& areas, size_t head_size, size_t n_positions) : head_size_(head_size) {
  const size_t n_strips = kernels::n_strips(n_positions);
  levels_ = areas.take<int8_t>(n_strips * kernels::int8_strip_bytes(head_size));
  scales_ = areas.take<float>(n_strips * kStripRows);
  starts_ = areas.take<int32_t>(n_strips * kStripRows);
  rows_ = areas.take<float>(kStripRows * head_size);
  largest_ = areas.take<float>(kStripRows);
  minus_mean_ = areas.take<float>(head_size);
}

void KeyLevels::set_mean(const kernels::Table& table, const Positions& positions) {
  TROIKA_ASSERT(positions.size() >= kMeanEnd);
  std::fill_n(minus_mean_, head_size_, 0.0f);
  for (size_t p = kMeanStride; p < kMeanEnd; p += kMeanStride) {
    table.load_kv(positions.k.type, positions.key(p), rows_, head_size_);
    table.add(minus_mean_, rows_, minus_mean_, head_size_);
  }
  constexpr auto kSummands = static_cast<float>(kMeanEnd / kMeanStride - 1);
  table.scale(minus_mean_, -1.0f / kSummands, minus_mean_, head_size_);
  if (!std::isfinite(largest_of_floats(table, minus_mean_, head_size_))) clear_mean();
}

float KeyLevels::of_mean(const float* scaled) const {
  float sum = 0.0f;
  for (size_t i = 0; i < head_size_; ++i) sum -= scaled[i] * minus_mean_[i];
  return sum;
}

void KeyLevels::clear_mean() { std::fill_n(minus_mean_, head_size_, 0.0f); }

float KeyLevels::load(const kernels::Table& table, const Positions& positions, size_t position,
                      size_t row) {
  float* const key = rows_ + row * head_size_;
  table.load_kv(positions.k.type, positions.key(position), key, head_size_);
  table.add(key, minus_mean_, key, head_size_);
  const float largest = largest_of_floats(table, key, head_size_);
  if (limit_ > 0.0f && std::isfinite(largest)) {
    for (size_t i = 0; i < head_size_; ++i) key[i] = std::clamp(key[i], -limit_, limit_);
  }
  return largest;
}

float KeyLevels::largest_of(const kernels::Table& table, const Positions& positions, size_t first,
                            size_t last) {
  const float limit = std::exchange(limit_, 0.0f);
  float largest = 0.0f;
  for (size_t p = first; p < last; ++p) {
    largest = std::max(largest, load(table, positions, p, 0));
  }
  limit_ = limit;
  return largest;
}

size_t KeyLevels::pack_strip(const kernels::Table& table, size_t strip, size_t n_rows) {
  const auto* const data = reinterpret_cast<const std::byte*>(rows_);
  const size_t row_bytes = head_size_ * sizeof(float);
  size_t first_odd = n_rows;
  for (size_t i = n_rows; i-- > 0;) {
    if (!std::isfinite(largest_[i])) {
      first_odd = i;
    } else if (limit_ > 0.0f) {
      largest_[i] = limit_;
    }
  }
  kernels::find(table.unpack_int8, tensor::Type::kF32)(
      {data, row_bytes, head_size_, 0, n_rows}, largest_,
      {levels_ + strip * kernels::int8_strip_bytes(head_size_), scales_ + strip * kStripRows,
       starts_ + strip * kStripRows});
  return first_odd;
}

void pack_query(const kernels::Table& table, const Queries& queries, size_t token, size_t head,
                float* scaled, std::byte* levels, float limit) {
  scale_query(table, queries, token, head, scaled);
  if (limit > 0.0f) {
    table.quantize_int8_within(scaled, {.limit = limit, .is_static = true}, levels, nullptr,
                               queries.head_size);
  } else {
    table.quantize_int8(scaled, levels, queries.head_size);
  }
}

float largest_of_query(const kernels::Table& table, const Queries& queries, size_t token,
                       size_t head, float* scaled) {
  scale_query(table, queries, token, head, scaled);
  return largest_of_floats(table, scaled, queries.head_size);
}

}  // namespace troika::attention
