// Gives reads memory until what they bring is put in its place: pieces of a ring, which may be
// given back in any order.
#pragma once

#include <cstddef>
#include <vector>

#include "base/huge_pages.h"

namespace troika::prepare {

class Staging {
 public:
  struct Piece {
    std::byte* memory = nullptr;
    size_t bytes = 0;
  };

  Staging() = default;
  // At most `n_pieces` may be taken at once. Throws std::bad_alloc.
  Staging(size_t bytes, size_t n_pieces) : memory_(bytes) { pieces_.reserve(n_pieces); }

  // Returns a piece, whose memory is null if there is no room now. If no piece is taken, there is
  // room for all of size().
  Piece take(size_t bytes) {
    if (pieces_.empty()) free_from_ = 0;
    const size_t end = pieces_.empty() ? memory_.size() : pieces_.front().begin;
    const bool is_wrapped = !pieces_.empty() && free_from_ <= end;
    const size_t behind = is_wrapped ? end - free_from_ : memory_.size() - free_from_;
    size_t begin = free_from_;
    if (behind < bytes) {
      if (is_wrapped || pieces_.empty() || end < bytes) return {};
      begin = 0;
    }
    pieces_.push_back({begin, true});
    free_from_ = begin + bytes;
    return {memory_.get() + begin, bytes};
  }
  void give_back(const Piece& piece) {
    const auto begin = static_cast<size_t>(piece.memory - memory_.get());
    for (Out& out : pieces_) {
      if (out.begin == begin && out.is_out) {
        out.is_out = false;
        break;
      }
    }
    while (!pieces_.empty() && !pieces_.front().is_out) pieces_.erase(pieces_.begin());
  }
  size_t size() const { return memory_.size(); }

 private:
  struct Out {
    size_t begin = 0;
    bool is_out = false;
  };
  PageBuffer memory_;
  size_t free_from_ = 0;
  std::vector<Out> pieces_;  // in the order in which they were taken
};

}  // namespace troika::prepare
