// Who uses which sequence of a cache, and what a new text takes over from the others. A sequence is
// busy while somebody continues it. Then it may stay idle for those who begin alike, until slots or
// places run short: idle ones go first that nobody asked for the longest.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "cache/kv_cache.h"

namespace troika::cache {

// The first `length` tokens of a sequence.
struct Prefix {
  SequenceId sequence = -1;
  int length = 0;
};

// The longest beginning of `tokens` that an open sequence holds with equal tags, in whole granules.
// Where several hold it, `preferred` is the answer if it is one of them, else the one with the
// smallest number. With nothing in common, `preferred` and 0. REQUIRES: granule >= 1, and a tag for
// each token.
Prefix longest_prefix(const KvCache& kv, std::span<const Token> tokens, std::span<const Tag> tags,
                      int granule, SequenceId preferred = -1);

// Used by one thread at a time. Nobody else opens or closes sequences of the cache.
class Sequences {
 public:
  // The cache must outlive this. At most so many idle sequences are kept.
  Sequences(KvCache& kv, int most_idle) : kv_(kv), most_idle_(most_idle) {}

  struct Begun {
    SequenceId sequence;  // busy
    int n_reused;         // it holds so many of the tokens already; the rest is to be computed
  };
  // A sequence for a text that begins with `tokens`; `tags` are those that a computation of all of
  // them would give. The last token is never reused, because its logits are wanted. Slots are
  // shared; an idle sequence of which every token is reused becomes the new one. REQUIRES: there is
  // a token, granule >= 1, and a tag for each token.
  Begun begin(std::span<const Token> tokens, std::span<const Tag> tags, int granule);
  // The same for somebody who ends the text of `own`, which is cut to what is reused of it, unless
  // another sequence offers more: then it is released.
  Begun begin_again(SequenceId own, std::span<const Token> tokens, std::span<const Tag> tags,
                    int granule);

  // A busy sequence that holds what this busy one holds; they share its slots.
  SequenceId copy(SequenceId busy);
  // A busy sequence without tokens.
  SequenceId open();
  // Lets go of a busy sequence and keeps it idle, if it holds anything.
  void release(SequenceId sequence);
  // Lets go of a busy sequence for good.
  void forget(SequenceId sequence);
  // Closes idle sequences until so many slots are free. Whether they are; busy ones stay in any
  // case. What others share of a sequence is not freed with it.
  bool evict_until(int n_free);

  int n_idle() const { return n_idle_; }
  bool is_idle(SequenceId sequence) const;

 private:
  struct Use {
    bool is_idle = false;
    uint64_t last = 0;  // the larger, the later
  };
  Begun share(const Prefix& prefix);
  void evict_oldest();

  KvCache& kv_;
  int most_idle_;
  int n_idle_ = 0;
  uint64_t now_ = 0;       // counts what is asked of this
  std::vector<Use> uses_;  // by each sequence of the cache
};

}  // namespace troika::cache
