// Leaves the tokens among which one is chosen by chance.
#pragma once

#include <span>
#include <vector>

#include "engine/sampler.h"

namespace troika::engine {

// Fills `candidates` with the tokens that top-k, top-p and min-p allow, the likeliest first and of
// equal ones the first token. Their probabilities are not divided by their sum. There are none
// where every token is forbidden. REQUIRES: logits are numbers, or minus infinity for what is
// forbidden.
void narrow(std::span<const float> logits, const SamplerOptions& options,
            std::vector<Candidate>* candidates);

}  // namespace troika::engine
