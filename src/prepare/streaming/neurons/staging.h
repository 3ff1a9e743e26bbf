// Lends reads memory of a ring until what they bring is put in its place. Loans may be given back
// in any order.
#pragma once

#include <cstddef>
#include <vector>

#include "base/huge_pages.h"

namespace troika::prepare {

class Staging {
 public:
  struct Loan {
    std::byte* memory = nullptr;
    size_t bytes = 0;
  };

  Staging() = default;
  // At most `n_loans` may be taken at once. Throws std::bad_alloc.
  Staging(size_t bytes, size_t n_loans) : memory_(bytes) { loans_.reserve(n_loans); }

  // Returns a loan, whose memory is null if there is no room now. If no loan is taken, there is
  // room for all of size().
  Loan take(size_t bytes) {
    if (loans_.empty()) free_from_ = 0;
    const size_t end = loans_.empty() ? memory_.size() : loans_.front().begin;
    const bool is_wrapped = !loans_.empty() && free_from_ <= end;
    const size_t behind = is_wrapped ? end - free_from_ : memory_.size() - free_from_;
    size_t begin = free_from_;
    if (behind < bytes) {
      if (is_wrapped || loans_.empty() || end < bytes) return {};
      begin = 0;
    }
    loans_.push_back({begin, true});
    free_from_ = begin + bytes;
    return {memory_.get() + begin, bytes};
  }
  void give_back(const Loan& loan) {
    const auto begin = static_cast<size_t>(loan.memory - memory_.get());
    for (Out& out : loans_) {
      if (out.begin == begin && out.is_out) {
        out.is_out = false;
        break;
      }
    }
    while (!loans_.empty() && !loans_.front().is_out) loans_.erase(loans_.begin());
  }
  size_t size() const { return memory_.size(); }

 private:
  struct Out {
    size_t begin = 0;
    bool is_out = false;
  };
  PageBuffer memory_;
  size_t free_from_ = 0;
  std::vector<Out> loans_;  // in the order in which they were taken
};

}  // namespace troika::prepare
