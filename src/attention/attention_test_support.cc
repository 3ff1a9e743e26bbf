#include "attention/attention_test_support.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>

#include "attention/choose/scale_buckets.h"
#include "tensor/codec.h"

namespace troika::attention {

TestHead::TestHead(size_t n_positions, size_t tokens, size_t size, size_t group, uint32_t seed,
                   tensor::Type kv_type, float key_bias)
    : n(n_positions), n_tokens(tokens), head_size(size), n_group(group), type(kv_type) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  const auto fill = [&](std::vector<float>& x, size_t length, float spread) {
    x.resize(length);
    for (float& value : x) value = spread * normal(random);
  };
  fill(keys, n * head_size, 1.0f);
  fill(values, n * head_size, 1.0f);
  fill(q, n_tokens * n_group * head_size, 1.0f);
  out.assign(q.size(), -7.0f);
  // All queries look in one direction, and every 29th key lies in it.
  std::vector<float> where(head_size);
  for (float& value : where) value = normal(random);
  for (size_t i = 0; i < q.size(); ++i) q[i] += where[i % head_size];
  for (size_t p = 3; p < n; p += 29) {
    for (size_t i = 0; i < head_size; ++i) keys[p * head_size + i] += 0.7f * where[i];
  }
  for (size_t p = 0; p < n; ++p) keys[p * head_size + head_size / 2] += key_bias;
  slots.resize(n);
  std::iota(slots.begin(), slots.end(), 0u);
  std::shuffle(slots.begin(), slots.end(), random);
  const size_t row = tensor::row_bytes(type, head_size);
  key_page.resize(n * row);
  value_page.resize(n * row);
  for (size_t p = 0; p < n; ++p) {
    const kernels::Table& table = table_here();
    table.store_kv(type, keys.data() + p * head_size, key_page.data() + slots[p] * row, head_size);
    table.store_kv(type, values.data() + p * head_size, value_page.data() + slots[p] * row,
                   head_size);
    // Later sums use the rounded values.
    tensor::dequantize_row(type, key_page.data() + slots[p] * row, keys.data() + p * head_size,
                           head_size);
    tensor::dequantize_row(type, value_page.data() + slots[p] * row, values.data() + p * head_size,
                           head_size);
  }
  pages[0] = key_page.data();
  pages[1] = value_page.data();
}

Positions TestHead::positions_of(size_t n_first) const {
  Positions positions;
  positions.k = {&pages[0], 20, tensor::row_bytes(type, head_size), 0, type};
  positions.v = positions.k;
  positions.v.pages = &pages[1];
  const size_t n_past = n_first / 3;  // makes two lists, as in a cache
  positions.past = std::span(slots).first(n_past);
  positions.own = std::span(slots).subspan(n_past, n_first - n_past);
  return positions;
}

Queries TestHead::queries() {
  return {q.data(), out.data(), n_group * head_size, head_size, n_group, scale, soft_cap};
}

double TestHead::score(size_t token, size_t head, size_t position) const {
  double sum = 0;
  for (size_t i = 0; i < head_size; ++i) {
    sum += double{query(token, head)[i]} * keys[position * head_size + i];
  }
  sum *= scale;
  return soft_cap > 0 ? soft_cap * std::tanh(sum / soft_cap) : sum;
}

std::vector<double> TestHead::plain(size_t token, size_t head,
                                    const std::vector<uint32_t>& seen) const {
  std::vector<double> scores, result(head_size);
  for (const uint32_t p : seen) scores.push_back(score(token, head, p));
  const double largest = *std::max_element(scores.begin(), scores.end());
  double total = 0;
  for (size_t i = 0; i < seen.size(); ++i) {
    const double weight = std::exp(scores[i] - largest);
    total += weight;
    for (size_t j = 0; j < head_size; ++j) result[j] += weight * values[seen[i] * head_size + j];
  }
  for (double& value : result) value /= total;
  return result;
}

size_t quantize_by(std::span<const float> values, float scale, int8_t* levels) {
  size_t n_clipped = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    const float level = std::round(values[i] / scale);
    n_clipped += std::abs(level) > kMostLevel ? 1 : 0;
    levels[i] = static_cast<int8_t>(std::clamp(level, -kMostLevel, kMostLevel));
  }
  return n_clipped;
}

const kernels::Table& table_here() {
  static const kernels::Kernels kernels = kernels::choose(detect_cpu_features());
  return kernels.table;
}

double largest_difference(const std::vector<float>& a, size_t offset,
                          const std::vector<double>& b) {
  double most = 0;
  for (size_t i = 0; i < b.size(); ++i) {
    const double apart = std::abs(a[offset + i] - b[i]);
    most = std::max(most, std::isnan(apart) ? std::numeric_limits<double>::infinity() : apart);
  }
  return most;
}

}  // namespace troika::attention
