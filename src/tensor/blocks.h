// Finds every block format by its type.
#pragma once

#include "tensor/iq4_nl.h"
#include "tensor/iq4_xs.h"
#include "tensor/mxfp4.h"
#include "tensor/q2_k.h"
#include "tensor/q3_k.h"
#include "tensor/q4_0.h"
#include "tensor/q4_1.h"
#include "tensor/q4_k.h"
#include "tensor/q5_0.h"
#include "tensor/q6_k.h"
#include "tensor/q8_0.h"

namespace troika::tensor {

namespace internal {

template <Type kType, typename... Blocks>
struct FindBlock;
template <Type kType, typename First, typename... Rest>
struct FindBlock<kType, First, Rest...> : FindBlock<kType, Rest...> {};
template <Type kType, typename First, typename... Rest>
requires(First::kType == kType) struct FindBlock<kType, First, Rest...> {
  using Block = First;
};

}  // namespace internal

// The block format of a type. A type that is_float has none.
template <Type kType>
using BlockOf =
    typename internal::FindBlock<kType, BlockQ4_0, BlockQ4_1, BlockQ5_0, BlockQ5_1, BlockQ8_0,
                                 BlockQ2_K, BlockQ3_K, BlockQ4_K, BlockQ5_K, BlockQ6_K, BlockIQ4_NL,
                                 BlockIQ4_XS, BlockMXFP4>::Block;

}  // namespace troika::tensor
