// What an engine keeps in memory, entered into one ledger: reckoned before anything is taken, so
// that a context and copies can be chosen for it, and corrected when it was taken.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cache/kv_cache.h"
#include "model/blueprint.h"
#include "plan/ledger.h"
#include "plan/plan.h"
#include "prepare/options.h"
#include "weights/store.h"

namespace troika::prepare {

// What there is to plan with.
struct MemoryFigures {
  size_t limit_bytes = 0;      // that processes of this machine or cgroup may have in all
  size_t available_bytes = 0;  // of it free, or freed when asked for
  size_t program_bytes = 0;    // that this process had before loading
  size_t model_bytes = 0;      // that tokenizer and description have taken since

  // All that this process has, files aside, counts as the program's.
  static MemoryFigures here();
};

// A context that is useful: weights, packed copies and other programs give way to no more unasked.
inline constexpr int kUsefulContext = 512;

// Whether blocks may be read while passes run, where memory has no room for all weights.
bool may_stream(const Options& options, const plan::Plan& plan);

cache::KvShape kv_shape(const plan::Plan& plan, const model::Blueprint& blueprint);

// Everything that an engine of this plan will keep, with the option's limit; nothing is checked
// against it. Keys and values are those of one full context.
plan::Ledger expected_memory(const Options& options, const model::Blueprint& blueprint,
                             const weights::Store& weights, const plan::Plan& plan,
                             const MemoryFigures& memory);

// Methods whose weights have no scale of their own for each row cannot be unpacked when needed.
bool needs_copies(const Options& options, const plan::Plan& plan);
// The matrices that get a packed copy.
std::vector<model::WeightId> packed_matrices(const Options& options,
                                             const model::Blueprint& blueprint,
                                             const weights::Store& weights, const plan::Plan& plan);

// Keys and values of so many slots, in whole pages of the cache.
size_t cache_bytes(const cache::KvShape& shape, int64_t n_slots);
// The most slots of whole pages that so many bytes hold.
int64_t slots_within(const cache::KvShape& shape, size_t bytes);
// How many slots may be taken beside everything else: those of n_answers full contexts, if the
// ledger, or without a limit half of what is available, has room for them; at least one context,
// which the plan has promised.
int64_t most_slots(const plan::Ledger& ledger, const cache::KvShape& shape, int n_answers,
                   size_t available_bytes);

}  // namespace troika::prepare
