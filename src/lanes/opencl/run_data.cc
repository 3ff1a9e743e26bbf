#include "lanes/opencl/run_data.h"

#include <cstring>

namespace troika::lanes::opencl {
namespace {

// Each part begins at a multiple of the longest vector that a kernel loads.
constexpr size_t kLine = 64;
constexpr size_t kParts = 8;

// Says whether the lists of a token are those of the token before, or continue them.
bool continues(const cache::VisibleSlots& a, const cache::VisibleSlots& b) {
  return a.past.data() == b.past.data() && a.past.size() == b.past.size();
}

}  // namespace

RunData::~RunData() {
  if (begin_ != nullptr) memory_->free(begin_);
}

bool RunData::reserve(size_t bytes) {
  if (bytes <= capacity_) return true;
  if (begin_ != nullptr) memory_->free(begin_);
  capacity_ = 0;
  begin_ = memory_->allocate(2 * bytes);
  if (begin_ == nullptr) return false;
  capacity_ = 2 * bytes;
  place_ = memory_->locate(begin_);
  return true;
}

size_t RunData::copy(const void* from, size_t bytes) {
  const size_t at = used_;
  if (from != nullptr && bytes > 0) std::memcpy(begin_ + at, from, bytes);
  used_ += (bytes + kLine - 1) / kLine * kLine;
  return at;
}

// Returns how many items the lists have at most. A past is written once for all tokens that share
// it.
size_t RunData::list_items(const Run& run) {
  size_t n = 0;
  for (size_t i = 0; i < run.visible.size(); ++i) {
    const cache::VisibleSlots& visible = run.visible[i];
    if (i == 0 || !continues(run.visible[i - 1], visible)) n += visible.past.size();
    n += visible.own.size();
  }
  return n;
}

void RunData::take_lists(const Run& run) {
  auto* const seen = reinterpret_cast<Seen*>(begin_ + seen_);
  auto* const lists = reinterpret_cast<uint32_t*>(begin_ + lists_);
  uint32_t end = 0;
  const auto append = [&](std::span<const cache::Slot> slots) {
    const uint32_t at = end;
    if (!slots.empty()) std::memcpy(lists + at, slots.data(), slots.size_bytes());
    end += static_cast<uint32_t>(slots.size());
    return at;
  };
  for (size_t i = 0; i < run.visible.size(); ++i) {
    const cache::VisibleSlots& visible = run.visible[i];
    Seen& of_token = seen[i];
    const bool has_past = i > 0 && continues(run.visible[i - 1], visible);
    of_token.n_past = static_cast<uint32_t>(visible.past.size());
    of_token.n_own = static_cast<uint32_t>(visible.own.size());
    of_token.past = has_past ? seen[i - 1].past : append(visible.past);
    // The lists of a chain begin at one place, and each is longer than the one before. So only the
    // rest is written, behind the end of what was written.
    const bool is_chain = has_past && visible.own.data() == run.visible[i - 1].own.data() &&
                          visible.own.size() >= seen[i - 1].n_own &&
                          seen[i - 1].own + seen[i - 1].n_own == end;
    if (is_chain) {
      of_token.own = seen[i - 1].own;
      append(visible.own.subspan(seen[i - 1].n_own));
    } else {
      of_token.own = append(visible.own);
    }
  }
}

bool RunData::take(const Run& run, int n_pairs, bool has_lists) {
  const auto n_tokens = static_cast<size_t>(run.n_tokens);
  const size_t rope_bytes =
      run.rope_cos != nullptr ? n_tokens * static_cast<size_t>(n_pairs) * sizeof(float) : 0;
  const size_t n_list = has_lists ? list_items(run) : 0;
  const size_t bytes = run.tokens.size_bytes() + run.output_rows.size_bytes() + 2 * rope_bytes +
                       run.slots.size_bytes() + n_tokens * sizeof(Seen) +
                       n_list * sizeof(uint32_t) + kParts * kLine;
  if (!reserve(bytes)) return false;
  used_ = 0;
  tokens_ = copy(run.tokens.data(), run.tokens.size_bytes());
  output_rows_ = copy(run.output_rows.data(), run.output_rows.size_bytes());
  rope_cos_ = copy(run.rope_cos, rope_bytes);
  rope_sin_ = copy(run.rope_sin, rope_bytes);
  slots_ = copy(run.slots.data(), run.slots.size_bytes());
  seen_ = copy(nullptr, n_tokens * sizeof(Seen));
  lists_ = copy(nullptr, n_list * sizeof(uint32_t));
  if (has_lists) take_lists(run);
  return true;
}

}  // namespace troika::lanes::opencl
