// The right to read rows of a weight, wherever they are, until the lease is given back.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "kernels/panels.h"

namespace troika::weights {

// Says which rows of a weight are wanted: a stretch, or a list in ascending order, which must
// outlive its lease.
struct RowChoice {
  static constexpr int kAll = -1;

  int first = 0;
  int count = kAll;                // kAll: all rows from the first one on
  std::span<const int> list = {};  // takes the place of the stretch where it is not empty
};

// While a lease lives, the rows that it points to stay where they are. To acquire one never blocks:
// where the rows are not in memory, the lease is not ready.
class Lease {
 public:
  Lease() = default;
  // `holders` counts the leases of rows that may be moved or dropped; null for rows that stay.
  Lease(const std::byte* rows, const kernels::Int8Panels* panels, const float* row_largest,
        std::atomic<int>* holders)
      : rows_(rows), panels_(panels), row_largest_(row_largest), holders_(holders) {
    if (holders_ != nullptr) holders_->fetch_add(1, std::memory_order_relaxed);
  }
  Lease(Lease&& other) noexcept { *this = std::move(other); }
  Lease& operator=(Lease&& other) noexcept {
    if (this == &other) return *this;
    give_back();
    rows_ = std::exchange(other.rows_, nullptr);
    panels_ = std::exchange(other.panels_, nullptr);
    row_largest_ = std::exchange(other.row_largest_, nullptr);
    holders_ = std::exchange(other.holders_, nullptr);
    return *this;
  }
  ~Lease() { give_back(); }

  bool is_ready() const { return rows_ != nullptr || panels_ != nullptr; }
  // Returns the first row of a stretch, or for a list the weight's first row: row i lies i *
  // row_bytes behind it. Null where the weight is in memory in another form.
  const std::byte* rows() const { return rows_; }
  // Returns the panels of the whole weight; null where there are none.
  const kernels::Int8Panels* panels() const { return panels_; }
  // Returns (rows) magnitudes, from the same row on as `rows`; null where they were not measured.
  const float* row_largest() const { return row_largest_; }

 private:
  void give_back() noexcept {
    if (holders_ != nullptr) holders_->fetch_sub(1, std::memory_order_release);
    holders_ = nullptr;
  }

  const std::byte* rows_ = nullptr;
  const kernels::Int8Panels* panels_ = nullptr;
  const float* row_largest_ = nullptr;
  std::atomic<int>* holders_ = nullptr;
};

}  // namespace troika::weights
