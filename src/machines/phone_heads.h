// Sparse attention on a phone: which lanes run its parts, and how heads differ (S3, S4). As a phone
// computes no values, the differences are drawn.
#pragma once

#include "machines/phone_setup.h"

namespace troika::machines {

// Adds the heads that are asked for to the plan, and the rule that the exact part runs where it was
// asked to. Does nothing without sparse attention. Throws UsageError for lanes that are not there.
void plan_heads(const prepare::Options& options, plan::Plan* to);
// Lets heads go over lanes as the plan says, so that a plan from a file repeats its run. Throws
// UsageError for lanes that cannot run their part, and for phones that compute values.
void apply_heads(const model::Blueprint& blueprint, bool has_values, PhoneSetup* setup);

// Returns the share of positions and the bucket of scales of every head. Scales and importances are
// drawn, the same ones for the same model. Each head gets a pair of scales around their mean, and
// the nearest bucket (S4). Heads and layers get importances, from which shares follow (S3).
std::vector<schedule::BlockHeads> draw_heads(const plan::Stack& stack,
                                             const model::Blueprint& blueprint,
                                             const plan::HeadPlan& heads);

}  // namespace troika::machines
