// Makes the plan of a run on this machine: its lanes, threads, context, precisions and shapes.
#pragma once

#include "cache/kv_cache.h"
#include "model/blueprint.h"
#include "plan/plan.h"
#include "prepare/memory.h"
#include "prepare/options.h"
#include "weights/store.h"

namespace troika::prepare {

// Returns groups of cores of this machine; one lane of the wanted number of threads where no cores
// are named.
std::vector<plan::PlannedLane> choose_lanes(const LaneChoice& lanes);

// Returns how to compute prompts of a model whose activations nobody has measured: the fastest form
// that loses next to nothing, whatever the activations are. `kernels` are those that are allowed,
// as options name them; `type` is that of most weights.
plan::Prefill safe_prefill(plan::Activations activations, const std::string& kernels,
                           tensor::Type type);

// Says whether a plan is made without the one to begin with, because that may be left and memory
// has no room for the weights as it wants them.
bool leaves_base(const Options& options, const model::Blueprint& blueprint,
                 const weights::Store& weights, const MemoryFigures& memory);

// Throws Error where the wanted context does not fit into memory, or the wanted type cannot hold
// keys and values; UsageError for senseless values.
plan::Plan make_plan(const Options& options, const model::Blueprint& blueprint,
                     const weights::Store& weights,
                     const MemoryFigures& memory = MemoryFigures::here());

// Chooses the context of a plan for what memory is left beside everything else, and makes fewer
// packed copies than the plan allows where memory is limited. Is called again after a calibration,
// which says which channels' weights stay in memory (N5). Throws Error.
void fit_context(const Options& options, const model::Blueprint& blueprint,
                 const weights::Store& weights, plan::Plan* plan,
                 const MemoryFigures& memory = MemoryFigures::here());

// Says whether memory made the context of a plan shorter than the one that is chosen unasked.
bool has_short_context(const Options& options, const model::Blueprint& blueprint,
                       const plan::Plan& plan);

// Puts into the plan what a user says of chunks, cuts and feed-forward blocks: the order of chunks,
// how many are in flight, where blocks are cut, how lanes share tensors and lengths and hand over,
// and whether blocks are computed by neuron. It counts for plans from files too, whose prompts are
// in int8 where that is asked for. Throws UsageError.
void apply_chunk_options(const Options& options, plan::Plan* plan);

}  // namespace troika::prepare
