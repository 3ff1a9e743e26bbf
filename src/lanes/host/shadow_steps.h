// Outliers as tasks of their own (N4): extraction, the small product, and the sum.
#pragma once

#include "lanes/host/steps.h"
#include "lanes/shadow_area.h"

namespace troika::lanes {

// Notes which columns the lists of a run name, and which of them must be read first. REQUIRES: all
// rows have been prepared.
void gather_channels(const weights::ChannelInput& input, int n_tokens, ShadowArea* area);

// The parts of one worker, of a step whose role is kShadow or kSum.
void run_shadow_product(const Step& step, const StepContext& context, int worker);
void run_shadow_sum(const Step& step, const StepContext& context, int worker);

}  // namespace troika::lanes
