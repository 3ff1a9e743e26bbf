// Products with int8 panels for arm64 processors with the matrix instruction.
#include "kernels/arm/arm.h"
#ifdef TROIKA_I8MM_KERNELS
#include <arm_neon.h>

#include <utility>

#include "kernels/arm/target.h"

namespace troika::kernels::arm {

TROIKA_TARGET_BEGIN_I8MM
namespace {

// Each file uses what stands in those before it.
// clang-format off
#include "kernels/simd/unroll.inl"
#include "kernels/simd/panels.inl"
#include "kernels/arm/panels_i8mm.inl"
// clang-format on

}  // namespace
TROIKA_TARGET_END

constinit const Table kI8mmTable = {
    .matmul_int8 = matmul_int8_matrix,
};

}  // namespace troika::kernels::arm

#endif  // TROIKA_I8MM_KERNELS
