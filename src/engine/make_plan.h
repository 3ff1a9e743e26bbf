// The plan of a machine with a single host lane: threads, context, shapes.
#pragma once

#include "cache/kv_cache.h"
#include "engine/options.h"
#include "model/blueprint.h"
#include "plan/plan.h"
#include "weights/store.h"

namespace troika::engine {

// Throws Error where the wanted context does not fit into memory, UsageError for senseless values.
plan::Plan make_plan(const Options& options, const model::Blueprint& blueprint,
                     const weights::Store& weights);

cache::KvShape kv_shape(const plan::Plan& plan, const model::Blueprint& blueprint);

}  // namespace troika::engine
