// Keys and queries in the form in which their scores are estimated (S1): int8, symmetric, with a
// scale for each position and each query. The mean of a head's keys is subtracted first, for large
// biases of keys would leave few levels for the differences between keys. The mean adds the same
// number to all scores of a query, which changes neither their order nor a softmax; a soft cap
// needs that number back before it (of_mean).
#pragma once

#include <algorithm>
#include <cstdint>

#include "attention/areas.h"
#include "attention/positions.h"
#include "kernels/kernels.h"

namespace troika::attention {

// The mean is taken over positions kMeanStride, 2 kMeanStride, ... below kMeanEnd. Every estimate
// has that many positions before it, so the mean does not depend on who asks.
inline constexpr size_t kMeanStride = 8, kMeanEnd = 512;

inline constexpr size_t kNoPosition = SIZE_MAX;

// Has room for n_positions keys in strips, and for one strip that is being made.
class KeyLevels {
 public:
  KeyLevels(Areas& areas, size_t head_size, size_t n_positions);

  // Where one of the keys is infinite or no number, nothing is subtracted: a mean of them would
  // make all keys such. REQUIRES: there are at least kMeanEnd positions.
  void set_mean(const kernels::Table& table, const Positions& positions);
  // Returns what the mean adds to the scores of a query, which is scaled.
  float of_mean(const float* scaled) const;
  // Returns what is added to each key: (head_size).
  const float* minus_mean() const { return minus_mean_; }
  // Lets keys be taken as they are, without subtracting a mean.
  void clear_mean();
  // Gives all later keys the scale by which `limit` becomes 127; larger values are clipped (S4). 0:
  // each key has its own scale.
  void set_limit(float limit) { limit_ = limit; }
  // Returns the largest magnitude of the keys of positions first .. last, less their mean.
  // REQUIRES: the mean is set.
  float largest_of(const kernels::Table& table, const Positions& positions, size_t first,
                   size_t last);
  // Packs the keys of n positions, which position_of(i) names. They stand from row `row` on, a
  // multiple of 16. A key that is infinite or no number has a scale that is no number, and so have
  // its scores.
  template <typename PositionOf>
  void pack(const kernels::Table& table, const Positions& positions, size_t row, size_t n,
            const PositionOf& position_of) {
    for (size_t i = 0; i < n; i += kernels::kStripRows) {
      const size_t n_rows = n - i < kernels::kStripRows ? n - i : kernels::kStripRows;
      for (size_t j = 0; j < n_rows; ++j) {
        largest_[j] = load(table, positions, position_of(i + j), j);
      }
      const size_t odd = pack_strip(table, (row + i) / kernels::kStripRows, n_rows);
      if (odd < n_rows) first_odd_ = std::min(first_odd_, position_of(i + odd));
    }
  }
  // Returns the first of all positions packed so far whose key is infinite or no number, or
  // kNoPosition.
  size_t first_odd() const { return first_odd_; }
  // Returns the first n_rows keys.
  kernels::Int8Panels panels(size_t n_rows) const {
    return {levels_, scales_, starts_, n_rows, head_size_, 0};
  }

 private:
  // Returns the largest magnitude of the key: no number where the key is none.
  float load(const kernels::Table& table, const Positions& positions, size_t position, size_t row);
  // Returns the first row whose key is infinite or no number, or n_rows.
  size_t pack_strip(const kernels::Table& table, size_t strip, size_t n_rows);

  size_t head_size_;
  int8_t* levels_;
  float* scales_;
  int32_t* starts_;
  float* rows_;        // (16, head_size): the strip that is being made
  float* largest_;     // (16): the largest magnitudes of its keys
  float* minus_mean_;  // (head_size)
  float limit_ = 0.0f;
  size_t first_odd_ = kNoPosition;
};

// Returns the bytes of a query in this form.
inline size_t query_level_bytes(size_t head_size) { return kernels::int8_token_bytes(head_size); }
// Packs the query of a head of a token, times the scale of scores. `scaled` has room for one query.
// With a limit the query's scale is the one by which the limit becomes 127.
void pack_query(const kernels::Table& table, const Queries& queries, size_t token, size_t head,
                float* scaled, std::byte* levels, float limit = 0.0f);
// Returns the query's largest magnitude, times the scale of scores.
float largest_of_query(const kernels::Table& table, const Queries& queries, size_t token,
                       size_t head, float* scaled);

}  // namespace troika::attention
