// Manages who uses which sequence of a cache, and what a new text takes over from other texts of
// the same owner. A sequence is busy while somebody continues it. Then it may stay idle, for texts
// that begin alike, until slots or places run short: the idle sequence that was not used for the
// longest time is closed first.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "cache/kv_cache.h"

namespace troika::cache {

// Says whose text a sequence holds. Texts of different owners take over nothing from each other, so
// that what is reused of prompts tells nobody what others have asked.
using Owner = uint32_t;
inline constexpr Owner kAnybody = 0;  // owns all texts where nobody is told apart

// The first `length` tokens of a sequence.
struct Prefix {
  SequenceId sequence = -1;
  int length = 0;
};

// The sequences of one cache. One thread at a time uses them. Nobody else opens or closes sequences
// of the cache.
class Sequences {
 public:
  // The cache must outlive this object, which keeps at most most_idle idle sequences.
  Sequences(KvCache& kv, int most_idle) : kv_(kv), most_idle_(most_idle) {}

  // Returns the longest beginning of `tokens` that an open sequence of this owner holds with equal
  // tags, in whole granules. Where several hold it, the answer is `preferred` if it is one of them,
  // else the one with the smallest number. With nothing in common it returns `preferred` and 0.
  // REQUIRES: granule >= 1, a tag for each token, and `preferred` is -1 or the owner's.
  Prefix longest_prefix(std::span<const Token> tokens, std::span<const Tag> tags, int granule,
                        Owner owner = kAnybody, SequenceId preferred = -1) const;

  struct Begun {
    SequenceId sequence;  // is busy until it is given back
    int n_reused;  // counts tokens that the sequence holds already; the rest must be computed
  };
  // Returns a sequence for a text that begins with `tokens`; `tags` are those that computing all of
  // them would give. The last token is never reused, because its logits are wanted. Slots are
  // shared; an idle sequence whose every token is reused becomes the new one. REQUIRES: there is a
  // token, granule >= 1, and a tag for each token.
  Begun begin(std::span<const Token> tokens, std::span<const Tag> tags, int granule,
              Owner owner = kAnybody);
  // Returns a sequence for the next text of the owner of `own`, whose text ends. This is `own`, cut
  // to what is reused of it, unless another sequence offers more; then `own` is released.
  Begun begin_again(SequenceId own, std::span<const Token> tokens, std::span<const Tag> tags,
                    int granule);

  // Returns a busy sequence that holds what `busy` holds; the two share its slots.
  SequenceId copy(SequenceId busy);
  // Returns a busy sequence without tokens.
  SequenceId open(Owner owner = kAnybody);
  // Lets go of a busy sequence and keeps it idle, if it holds anything.
  void release(SequenceId sequence);
  // Lets go of a busy sequence for good.
  void forget(SequenceId sequence);
  // Closes idle sequences until n_free slots are free, and says whether they are. Busy sequences
  // always stay. What other sequences share of a closed one is not freed.
  bool evict_until(int n_free);

  bool is_idle(SequenceId sequence) const;

 private:
  struct Use {
    bool is_idle = false;
    uint64_t last = 0;  // the larger, the later it was used
    Owner owner = kAnybody;
  };
  Owner owner_of(SequenceId sequence) const { return uses_[static_cast<size_t>(sequence)].owner; }
  Begun share(const Prefix& prefix, Owner owner);
  void evict_oldest();

  KvCache& kv_;
  int most_idle_;
  int n_idle_ = 0;
  uint64_t now_ = 0;       // counts requests to this object
  std::vector<Use> uses_;  // one entry for each sequence of the cache
};

}  // namespace troika::cache
