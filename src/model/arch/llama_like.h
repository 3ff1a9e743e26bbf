// Models that are Llama's block and little else.
#pragma once

#include "model/builder.h"

namespace troika::model::arch {

// RMS norms, gated FFN, rope on pairs side by side or (half split) half a head apart.
Blueprint llama_like(const Metadata& metadata, bool is_half_split, const FfnPart& ffn);

// What the file says about experts: their width, and the factor of their shares.
FfnPart read_experts(const Metadata& metadata, Activation activation, bool normalizes_shares);

}  // namespace troika::model::arch
