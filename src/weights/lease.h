// The right to read a weight, wherever it is, until the lease is given back.
#pragma once

#include <atomic>
#include <cstddef>
#include <utility>

#include "kernels/panels.h"

namespace troika::weights {

// While a lease lives, what it points to stays where it is. To acquire one never blocks: where the
// weight is not in memory, the lease is not ready.
class Lease {
 public:
  Lease() = default;
  // `holders` counts the leases of the weight.
  Lease(const std::byte* rows, const kernels::Int8Panels* panels, std::atomic<int>* holders)
      : rows_(rows), panels_(panels), holders_(holders) {
    holders_->fetch_add(1, std::memory_order_relaxed);
  }
  Lease(Lease&& other) noexcept { *this = std::move(other); }
  Lease& operator=(Lease&& other) noexcept {
    if (this == &other) return *this;
    give_back();
    rows_ = std::exchange(other.rows_, nullptr);
    panels_ = std::exchange(other.panels_, nullptr);
    holders_ = std::exchange(other.holders_, nullptr);
    return *this;
  }
  ~Lease() { give_back(); }

  bool is_ready() const { return rows_ != nullptr || panels_ != nullptr; }
  // Returns the first row; null where the weight is in memory in another form.
  const std::byte* rows() const { return rows_; }
  // Returns the panels; null where there are none.
  const kernels::Int8Panels* panels() const { return panels_; }

 private:
  void give_back() noexcept {
    if (holders_ != nullptr) holders_->fetch_sub(1, std::memory_order_release);
    holders_ = nullptr;
  }

  const std::byte* rows_ = nullptr;
  const kernels::Int8Panels* panels_ = nullptr;
  std::atomic<int>* holders_ = nullptr;
};

}  // namespace troika::weights
