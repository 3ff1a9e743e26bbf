// The plan of a machine with a single host lane: threads, context, shapes.
#pragma once

#include "cache/kv_cache.h"
#include "engine/options.h"
#include "model/blueprint.h"
#include "plan/plan.h"
#include "weights/store.h"

namespace troika::engine {

// What there is to plan with.
struct MemoryFigures {
  size_t limit_bytes;      // that processes of this machine or cgroup may have in all
  size_t available_bytes;  // of it free, or freed when asked for

  static MemoryFigures here();
};

// How prompts of a model are computed whose activations nobody has measured.
plan::Prefill safe_prefill(plan::Activations activations);

// Throws Error where the wanted context does not fit into memory, or keys and values have no form
// in the wanted type; UsageError for senseless values.
plan::Plan make_plan(const Options& options, const model::Blueprint& blueprint,
                     const weights::Store& weights,
                     const MemoryFigures& memory = MemoryFigures::here());

// Chooses the context of a plan for what memory is left beside the weights and their copies. Again
// after a calibration, which says which channels' weights stay in memory (N5). Throws Error.
void fit_context(const Options& options, const model::Blueprint& blueprint,
                 const weights::Store& weights, plan::Plan* plan,
                 const MemoryFigures& memory = MemoryFigures::here());

cache::KvShape kv_shape(const plan::Plan& plan, const model::Blueprint& blueprint);

// What a user says of chunks: their order, how many are in flight, where blocks are cut. It counts
// for plans from files too. Throws UsageError.
void apply_chunk_options(const Options& options, plan::Plan* plan);

}  // namespace troika::engine
