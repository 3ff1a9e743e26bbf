#include "lanes/opencl/run_data.h"

#include <algorithm>
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

size_t RunData::bytes_for(size_t n_tokens, size_t n_pairs) {
  const size_t of_token = sizeof(cache::Token) + sizeof(int) + 2 * n_pairs * sizeof(float) +
                          sizeof(cache::Slot) + sizeof(Seen);
  return n_tokens * of_token + kParts * kLine;
}

bool RunData::grow(size_t bytes) {
  if (bytes <= capacity_) return true;
  std::byte* const larger = memory_->allocate(bytes);
  if (larger == nullptr) return false;
  if (begin_ != nullptr) memory_->free(begin_);
  begin_ = larger;
  capacity_ = bytes;
  place_ = memory_->locate(begin_);
  return true;
}

bool RunData::reserve(size_t n_tokens, size_t n_pairs) {
  const size_t most = std::max(most_row_bytes_, bytes_for(n_tokens, n_pairs));
  if (!grow(most)) return false;
  most_row_bytes_ = most;
  return true;
}

size_t RunData::copy(const void* from, size_t bytes) {
  const size_t at = used_;
  if (from != nullptr && bytes > 0) std::memcpy(begin_ + at, from, bytes);
  used_ += (bytes + kLine - 1) / kLine * kLine;
  return at;
}

// Lays the lists of tokens one behind the other, and calls `take` with each token's entry and the
// slots that its lists add. A past is written once for all tokens that share it. Returns how many
// slots there are together.
template <typename Take>
size_t RunData::lay_lists(const Run& run, const Take& take) {
  uint32_t end = 0;
  Seen before = {};
  for (size_t i = 0; i < run.visible.size(); ++i) {
    std::span<const cache::Slot> past = run.visible[i].past, own = run.visible[i].own;
    Seen seen = {end, static_cast<uint32_t>(past.size()), 0, static_cast<uint32_t>(own.size())};
    const bool has_past = i > 0 && continues(run.visible[i - 1], run.visible[i]);
    if (has_past) {
      seen.past = before.past;
      past = {};
    }
    end += static_cast<uint32_t>(past.size());
    seen.own = end;
    // The lists of a chain begin at one place, and each is longer than the one before. So only the
    // rest is written, behind the end of what was written.
    const bool is_chain = has_past && own.data() == run.visible[i - 1].own.data() &&
                          own.size() >= before.n_own && before.own + before.n_own == end;
    if (is_chain) {
      seen.own = before.own;
      own = own.subspan(before.n_own);
    }
    end += static_cast<uint32_t>(own.size());
    take(i, seen, past, own);
    before = seen;
  }
  return end;
}

void RunData::take_lists(const Run& run) {
  auto* const all_seen = reinterpret_cast<Seen*>(begin_ + seen_);
  auto* to = reinterpret_cast<cache::Slot*>(begin_ + lists_);
  lay_lists(run, [&](size_t token, const Seen& seen, auto past, auto own) {
    all_seen[token] = seen;
    to = std::copy(past.begin(), past.end(), to);
    to = std::copy(own.begin(), own.end(), to);
  });
}

bool RunData::take(const Run& run, int n_pairs, bool has_lists) {
  const auto n_tokens = static_cast<size_t>(run.n_tokens);
  const size_t rope_bytes =
      run.rope_cos != nullptr ? n_tokens * static_cast<size_t>(n_pairs) * sizeof(float) : 0;
  if (!reserve(std::max(n_tokens, run.output_rows.size()), static_cast<size_t>(n_pairs))) {
    return false;
  }
  const size_t n_list = has_lists ? lay_lists(run, [](auto...) {}) : 0;
  const size_t list_bytes = n_list * sizeof(cache::Slot);
  if (most_row_bytes_ + list_bytes > capacity_ && !grow(most_row_bytes_ + list_bytes_for(n_list))) {
    return false;
  }
  used_ = 0;
  tokens_ = copy(run.tokens.data(), run.tokens.size_bytes());
  output_rows_ = copy(run.output_rows.data(), run.output_rows.size_bytes());
  rope_cos_ = copy(run.rope_cos, rope_bytes);
  rope_sin_ = copy(run.rope_sin, rope_bytes);
  slots_ = copy(run.slots.data(), run.slots.size_bytes());
  seen_ = copy(nullptr, n_tokens * sizeof(Seen));
  lists_ = copy(nullptr, list_bytes);
  if (has_lists) take_lists(run);
  return true;
}

}  // namespace troika::lanes::opencl
