// The part of `troika bench` and `troika plan` that is for virtual phones.
#pragma once

#include "cli/engine_flags.h"
#include "engine/engine.h"
#include "measure/measure.h"

namespace troika::cli {

// Modelled time only, of a model by name or file.
void bench_on_phone(const EngineFlags& flags, const measure::MeasureOptions& options, bool json);

// What runs where on the phone, and the time it takes there.
void explain_on_phone(const engine::Engine& engine);

}  // namespace troika::cli
