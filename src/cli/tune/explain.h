// Serves `troika plan --explain` on this machine: what runs where, predicted and measured.
#pragma once

#include "cli/flags/engine_flags.h"
#include "engine/engine.h"

namespace troika::cli {

// `op_by_op` times every op by itself, in the order in which a pass runs the ops.
void explain(engine::Engine& engine, const EngineFlags& flags, bool op_by_op);

// Prints what chunks of a prompt share, and what graphs of their own would take (N2).
void explain_shared(const engine::Engine& engine);

}  // namespace troika::cli
