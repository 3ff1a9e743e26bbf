// Outliers as tasks of their own (N4): extraction, the small product, and the sum.
#pragma once

#include "lanes/host/op_context.h"
#include "lanes/shadow_area.h"

namespace troika::lanes {

// Notes which columns the lists of a run name, and which of these columns must be read first.
// REQUIRES: all rows have been prepared.
void gather_channels(const weights::ChannelInput& input, int n_tokens, ShadowArea* area);

// Computes one worker's share of a product whose role is kShadow or kSum.
void run_shadow_product(const BoundOp& bound, const OpContext& context, int worker);
void run_shadow_sum(const BoundOp& bound, const OpContext& context, int worker);

}  // namespace troika::lanes
