#include "cache/sequences.h"

#include <algorithm>

#include "base/error.h"

namespace troika::cache {

Prefix Sequences::longest_prefix(std::span<const Token> tokens, std::span<const Tag> tags,
                                 int granule, Owner owner, SequenceId preferred) const {
  TROIKA_ASSERT(granule >= 1 && tags.size() >= tokens.size());
  const auto in_granules = [&](int length) { return length / granule * granule; };
  const auto n_tokens = static_cast<int>(tokens.size());
  Prefix best = {preferred, 0};
  if (preferred >= 0) best.length = in_granules(kv_.n_common(preferred, tokens, tags));
  for (SequenceId sequence = 0; sequence < kv_.sequence_end(); ++sequence) {
    // Another sequence must have at least so much in common.
    const int least = best.length + granule;
    if (least > n_tokens) break;
    if (!kv_.is_open(sequence) || owner_of(sequence) != owner) continue;
    if (kv_.length(sequence) < least) continue;
    // Most sequences that share a beginning differ at this place, so it is compared first.
    if (kv_.token_of(sequence, least - 1) != tokens[static_cast<size_t>(least) - 1]) continue;
    const int length = in_granules(kv_.n_common(sequence, tokens, tags));
    if (length > best.length) best = {sequence, length};
  }
  return best;
}

bool Sequences::is_idle(SequenceId sequence) const {
  TROIKA_ASSERT(kv_.is_open(sequence) && static_cast<size_t>(sequence) < uses_.size());
  return uses_[static_cast<size_t>(sequence)].is_idle;
}

Sequences::Begun Sequences::begin(std::span<const Token> tokens, std::span<const Tag> tags,
                                  int granule, Owner owner) {
  TROIKA_ASSERT(!tokens.empty());
  return share(longest_prefix(tokens.first(tokens.size() - 1), tags, granule, owner), owner);
}

Sequences::Begun Sequences::begin_again(SequenceId own, std::span<const Token> tokens,
                                        std::span<const Tag> tags, int granule) {
  TROIKA_ASSERT(!tokens.empty() && !is_idle(own));
  const Owner owner = owner_of(own);
  const Prefix found = longest_prefix(tokens.first(tokens.size() - 1), tags, granule, owner,
                                      /*preferred=*/own);
  if (found.sequence == own) {
    kv_.truncate(own, found.length);
    return {own, found.length};
  }
  const Begun begun = share(found, owner);  // shared before anything may be evicted
  release(own);
  return begun;
}

Sequences::Begun Sequences::share(const Prefix& prefix, Owner owner) {
  if (prefix.length > 0) {
    Use& source = uses_[static_cast<size_t>(prefix.sequence)];
    source.last = ++now_;
    if (source.is_idle && prefix.length == kv_.length(prefix.sequence)) {
      source.is_idle = false;
      --n_idle_;
      return {prefix.sequence, prefix.length};
    }
  }
  const SequenceId sequence = open(owner);
  if (prefix.length > 0) kv_.fork(prefix.sequence, sequence, prefix.length);
  return {sequence, prefix.length};
}

SequenceId Sequences::copy(SequenceId busy) {
  TROIKA_ASSERT(!is_idle(busy));
  const SequenceId sequence = open(owner_of(busy));
  kv_.fork(busy, sequence, kv_.length(busy));
  return sequence;
}

SequenceId Sequences::open(Owner owner) {
  // Where there is no memory, no sequence stays open that nobody would close.
  uses_.reserve(static_cast<size_t>(kv_.sequence_end()) + 1);
  const SequenceId sequence = kv_.open();
  uses_.resize(static_cast<size_t>(kv_.sequence_end()));
  uses_[static_cast<size_t>(sequence)].owner = owner;
  return sequence;
}

void Sequences::release(SequenceId sequence) {
  TROIKA_ASSERT(!is_idle(sequence));
  if (kv_.length(sequence) == 0) {
    kv_.close(sequence);
    return;
  }
  Use& use = uses_[static_cast<size_t>(sequence)];
  use.is_idle = true;
  use.last = ++now_;
  ++n_idle_;
  while (n_idle_ > most_idle_) evict_oldest();
}

void Sequences::forget(SequenceId sequence) {
  TROIKA_ASSERT(!is_idle(sequence));
  kv_.close(sequence);
}

void Sequences::evict_oldest() {
  const Use* oldest = nullptr;
  for (const Use& use : uses_) {
    if (use.is_idle && (oldest == nullptr || use.last < oldest->last)) oldest = &use;
  }
  TROIKA_ASSERT(oldest != nullptr);
  const auto sequence = static_cast<SequenceId>(oldest - uses_.data());
  uses_[static_cast<size_t>(sequence)].is_idle = false;
  --n_idle_;
  kv_.close(sequence);
}

bool Sequences::evict_until(int n_free) {
  while (kv_.n_free() < n_free && n_idle_ > 0) evict_oldest();
  return kv_.n_free() >= n_free;
}

}  // namespace troika::cache
