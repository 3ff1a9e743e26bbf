// Holds the parts of `troika bench` and `troika plan` that are for virtual phones.
#pragma once

#include "cli/flags/engine_flags.h"
#include "cli/flags/trace_flags.h"
#include "engine/engine.h"
#include "measure/measure.h"

namespace troika::cli {

// Measures a model by its name or file in modelled time only. The trace gets all passes, those that
// only teach the order of chunks too.
void bench_on_phone(const EngineFlags& flags, const measure::MeasureOptions& options, bool json,
                    TraceFlags* trace);

// Prints what runs where on the phone, and the time that it takes there.
void explain_on_phone(const engine::Engine& engine);

}  // namespace troika::cli
