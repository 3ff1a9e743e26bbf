// Sparse attention on a phone: which lanes its parts run on, and how heads differ there, which
// computes no values (S3, S4).
#pragma once

#include "machines/phone_setup.h"

namespace troika::machines {

// Fills `heads`, and adds the rule that the exact part runs where it was asked to. Nothing without
// sparse attention. Throws UsageError for lanes that are not there.
void apply_heads(const prepare::Options& options, const model::Blueprint& blueprint,
                 PhoneSetup* setup);

// The share of positions and the bucket of scales of every head. Scales and importances are drawn,
// the same for the same model: of each head a pair of scales around their mean, whose bucket is the
// nearest of those there are (S4), and importances of heads and of layers, of which the shares
// follow (S3).
std::vector<schedule::BlockHeads> draw_heads(const plan::Stack& stack,
                                             const model::Blueprint& blueprint, double share,
                                             const prepare::PhoneHeads& options);

}  // namespace troika::machines
