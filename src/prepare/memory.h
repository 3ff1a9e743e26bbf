// Enters what an engine keeps in memory into one ledger. The amounts are estimated before anything
// is taken, so that a context and copies can be chosen, and corrected when it was taken.
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

// The memory that there is to plan with.
struct MemoryFigures {
  size_t limit_bytes = 0;      // what processes of this machine or cgroup may have in all
  size_t available_bytes = 0;  // what is free, or freed when asked for
  size_t program_bytes = 0;    // what this process had before loading
  size_t model_bytes = 0;      // what tokenizer and description have taken since
  bool is_of_cgroup = false;   // a cgroup's limit leaves less than the machine has free

  // Returns the bytes that this process may have in all, with those that it has.
  size_t usable_bytes() const;

  // Returns this machine's figures. All memory of this process but files counts as the program's.
  static MemoryFigures here();
};

// Is the least useful context: weights, copies and other programs give way to no longer one
// unasked.
inline constexpr int kUsefulContext = 512;

// Says whether blocks may be read while passes run, where memory has no room for all weights.
bool may_stream(const Options& options, const model::Blueprint& blueprint, const plan::Plan& plan);

// Says whether memory can hold all weights beside what else the plan needs, or blocks may be read
// while passes run.
bool has_room(const Options& options, const model::Blueprint& blueprint,
              const weights::Store& weights, const plan::Plan& plan, const MemoryFigures& memory);

// Returns the bytes that prompts need for matrices which steps read by neuron: those of the block
// at work, and of the one that is read meanwhile (P2). It is 0 where neither does, or where prompts
// are computed as steps.
size_t prompt_bytes(const model::Blueprint& blueprint, const weights::Store& weights,
                    const plan::Plan& plan);

// Says whether that is more than there is, or so much of it that prompts had better go by neuron
// too. The plan has a context that should find room.
bool lacks_room_for_prompts(const Options& options, const model::Blueprint& blueprint,
                            const weights::Store& weights, const plan::Plan& plan,
                            const MemoryFigures& memory);

// Says whether weights are read while passes run, with what a ledger has for them.
bool are_streamed(const model::Blueprint& blueprint, const weights::Store& weights,
                  const plan::Plan& plan, const plan::Ledger& ledger);

// Says whether experts are read by themselves where blocks are.
bool reads_experts(const Options& options, const model::Blueprint& blueprint,
                   const plan::Plan& plan);
// Says whether the gates of experts are read by route, where the neurons behind these gates are
// read, and weights have so many bytes.
bool reads_gates(const Options& options, const model::Blueprint& blueprint,
                 const weights::Store& weights, const plan::Plan& plan, size_t weight_bytes);

cache::KvShape kv_shape(const plan::Plan& plan, const model::Blueprint& blueprint);

// Returns everything that an engine of this plan will keep, with the options' limit, which is not
// checked. Keys and values are those of one full context.
plan::Ledger expected_memory(const Options& options, const model::Blueprint& blueprint,
                             const weights::Store& weights, const plan::Plan& plan,
                             const MemoryFigures& memory);

// The bytes that a context takes, and more of it takes more.
struct ContextBytes {
  size_t cache = 0;  // of keys and values, in whole pages of the cache
  // Where heads of sparse attention are tasks of their own (S6): of the scores that they hand on.
  size_t heads = 0;
  size_t lists = 0;  // of segments and lists of attention, on all lanes

  size_t total() const { return cache + heads + lists; }
};
// Returns what a context of n_tokens tokens takes.
ContextBytes context_bytes(const model::Blueprint& blueprint, const plan::Plan& plan, int n_tokens);
// Enters it into a ledger without a context, or takes what was entered out again.
void enter_context(const ContextBytes& bytes, plan::Ledger* ledger);
void take_context_out(const ContextBytes& bytes, plan::Ledger* ledger);

// Says whether int8 weights must be packed beforehand, as those without a scale for each row.
bool needs_copies(const Options& options, const plan::Plan& plan);
// Returns the matrices that get a packed copy.
std::vector<model::WeightId> packed_matrices(const Options& options,
                                             const model::Blueprint& blueprint,
                                             const weights::Store& weights, const plan::Plan& plan);

// Returns the bytes of keys and values of n_slots slots, in whole pages of the cache.
size_t cache_bytes(const cache::KvShape& shape, int64_t n_slots);
// Returns the most slots of whole pages that `bytes` hold.
int64_t slots_within(const cache::KvShape& shape, size_t bytes);
// Returns how many slots may be taken beside everything else. It is those of n_answers full
// contexts, if the ledger has room for them, or without a limit half of what is available. It is at
// least one context, which the plan has promised.
int64_t most_slots(const plan::Ledger& ledger, const cache::KvShape& shape, int n_answers,
                   size_t available_bytes);

}  // namespace troika::prepare
