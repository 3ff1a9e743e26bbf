// Says what options can do in commands that read a text as steps are computed: 'troika neurons' and
// 'troika sparsity'.
#pragma once

#include "cli/flags/engine_flags.h"
#include "engine/engine.h"

namespace troika::cli {

// Notes each flag that such a reading sets itself, and each that this engine leaves without effect.
// `options` are what was asked for; the engine was made from tune::reading_options() of them.
void note_idle_in_reading(const EngineFlags& flags, const prepare::Options& options,
                          const engine::Engine& engine);

}  // namespace troika::cli
