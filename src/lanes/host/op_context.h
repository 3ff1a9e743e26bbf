// What the workers of one run share, and how they divide an op between themselves.
#pragma once

#include <atomic>

#include "base/threads/team.h"
#include "lanes/host/bound_ops.h"
#include "lanes/host/give_way.h"
#include "lanes/lane.h"

namespace troika::lanes {

// Counts how many items of one worker's part of an op have been begun, by that worker or by others.
// It has a cache line of its own, because its worker counts often.
struct alignas(64) ItemCounter {
  std::atomic<int64_t> n_begun{0};
};

class NeuronScratch;

struct OpContext {
  const kernels::Table& kernels;
  const Run& run;
  Team& team;
  size_t set_offset;           // counts floats from the first set of buffers to the run's
  const TaskBindings* leases;  // the run's leases; null where no weight is leased
  std::byte* prepared;         // (n_rows, form_bytes): the input of the product at hand
  std::byte* stretches;        // (workers, stretch_bytes): unpacked weights
  size_t stretch_bytes;
  ItemCounter* counters;   // (n_steps, team.size())
  float* attention_parts;  // attention_parts_floats() many
  // Outliers of the product at hand, where it takes them out.
  kernels::Outlier* outliers;  // (n_rows, k)
  uint32_t* outlier_counts;    // (n_rows)
  float* scratch;              // (workers, scratch_floats): a row on its way into its form
  size_t scratch_floats;
  int32_t* expert_scratch;  // (workers, expert_scratch_length)
  size_t expert_scratch_length;
  NeuronScratch* neurons;  // what a block that is computed by neuron uses
  // The values that this worker keeps for itself, where each computes the run's only row (see
  // own_rows.h). `prepared` is then the worker's own, too. Null: workers share all values.
  float* own_values = nullptr;

  // Returns where an op finds its input in this run; output() returns where it leaves its result.
  const float* input(const BoundOp& bound, size_t i = 0) const {
    const int place = bound.own_places.inputs[i];
    if (own_values != nullptr && place != OwnPlaces::kShared) return own_values + place;
    return bound.inputs[i] + set_offset;
  }
  float* output(const BoundOp& bound) const {
    const int place = bound.own_places.output;
    if (own_values != nullptr && place != OwnPlaces::kShared) return own_values + place;
    return bound.output + set_offset;
  }
  bool meets_before(const BoundOp& bound) const {
    return own_values != nullptr ? bound.own_places.meets_before : bound.meets_before;
  }
  int n_rows(const BoundOp& bound) const { return bound.per_output ? run.n_outputs : run.n_tokens; }
  // Returns the rows that fall to a worker where an op goes row by row.
  Share rows_of(const BoundOp& bound, int worker) const {
    const int n = n_rows(bound);
    const bool is_own = own_values != nullptr && bound.own_places.output != OwnPlaces::kShared;
    return is_own ? Share{0, n} : share_of(n, worker, team.n_active());
  }
  std::byte* stretch_of(int worker) const {
    return stretches + static_cast<size_t>(worker) * stretch_bytes;
  }
};

// Calls body(item) for each of n_items on some worker. Each worker begins with its own part, so
// that it reads on where it has read before, and helps the others when its part is done.
template <typename Body>
void share_items(const OpContext& context, int index, int worker, int64_t n_items, Body body) {
  const int n_workers = context.team.n_active();
  ItemCounter* counters = context.counters + static_cast<ptrdiff_t>(index) * context.team.size();
  for (int i = 0; i < n_workers; ++i) {
    const int owner = (worker + i) % n_workers;
    const Share share = share_of(n_items, owner, n_workers);
    const int64_t n_own = share.end - share.begin;
    std::atomic<int64_t>& n_begun = counters[owner].n_begun;
    // The counter is read before it is raised: so the counter of a finished part is not written any
    // more and stays in every worker's cache.
    while (n_begun.load(std::memory_order_relaxed) < n_own) {
      const int64_t item = n_begun.fetch_add(1, std::memory_order_relaxed);
      if (item < n_own) body(share.begin + item);
      if (context.run.gives_way) give_way();
    }
  }
}

}  // namespace troika::lanes
