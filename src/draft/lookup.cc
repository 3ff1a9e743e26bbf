#include "draft/lookup.h"

#include <algorithm>

namespace troika::draft {
namespace {

// Lists the first estimates of chances, by how many tokens were found; the drafter learns better
// ones.
constexpr float kChances[] = {0.15f, 0.35f, 0.6f};
constexpr float kNextWordChance = 0.8f;  // the chance of a token behind a right one

}  // namespace

uint64_t LookupSource::key_of(size_t end, int n) const {
  uint64_t key = 0;
  for (size_t i = end - static_cast<size_t>(n); i < end; ++i) {
    key = (key ^ static_cast<uint32_t>(text_[i])) * 0x9e3779b97f4a7c15ull;
    key ^= key >> 29;
  }
  return key;
}

void LookupSource::reserve(int most_text, int /*most_nodes*/) {
  text_.reserve(static_cast<size_t>(most_text));
  for (auto& ends : ends_) ends.reserve(static_cast<size_t>(most_text));
}

void LookupSource::reset() {
  text_.clear();
  for (auto& ends : ends_) ends.clear();
}

void LookupSource::observe(std::span<const Token> tokens) {
  for (const Token token : tokens) {
    text_.push_back(token);
    const auto end = text_.size();
    for (int n = 1; n <= kMostTokens && static_cast<size_t>(n) <= end; ++n) {
      Ends& ends = ends_[n - 1][key_of(end, n)];
      ends = {static_cast<int>(end), ends.last};
    }
  }
}

void LookupSource::propose(int most, Tree* tree) {
  for (int n = std::min<int>(kMostTokens, static_cast<int>(text_.size())); n > 0; --n) {
    const Ends* const found = ends_[n - 1].find(key_of(text_.size(), n));
    if (found == nullptr || found->before == 0) continue;
    const auto begin = static_cast<size_t>(found->before);
    int parent = kRoot;
    for (size_t i = begin; i < text_.size() && tree->size() < most; ++i) {
      parent = tree->add(parent, text_[i], parent == kRoot ? kChances[n - 1] : kNextWordChance);
    }
    return;
  }
}

}  // namespace troika::draft
