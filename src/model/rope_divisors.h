// Reads the divisors of a rotation's frequencies that files hold as tensors.
#pragma once

#include "model/blueprint.h"
#include "model/metadata.h"

namespace troika::model {

// Reads `rope_freqs.weight` (Llama 3), or `rope_factors_short.weight` and
// `rope_factors_long.weight` (Phi 3). Leaves the rotation as it is where the file has none. Throws
// Error for senseless divisors.
void read_frequency_divisors(const Metadata& metadata, Rope* rope);

}  // namespace troika::model
