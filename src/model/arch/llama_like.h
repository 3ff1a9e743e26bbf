// Helps to read models that are Llama's block and little else.
#pragma once

#include "model/builder.h"

namespace troika::model::arch {

// Reads a model with RMS norms, a gated FFN, and rope on pairs that stand side by side or (half
// split) half a head apart. The whole of a head is rotated, and the context ends where a sliding
// window of the file does.
Blueprint llama_like(const Metadata& metadata, bool is_half_split, const FfnFacts& ffn);

// Reads what the file says about experts: their width, the factor of their shares, and whether
// shares are normalised, which else `normalizes_shares` says.
FfnFacts read_experts(const Metadata& metadata, Activation activation, bool normalizes_shares);

}  // namespace troika::model::arch
