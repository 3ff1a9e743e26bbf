#include "kernels/arm/arm.h"
#ifdef TROIKA_NEON_KERNELS
#include "kernels/arm/products_neon.inl"
// The file below uses what stands above.
#include "kernels/simd/types_affine.inl"

TROIKA_TARGET_END
}  // namespace troika::kernels::arm

#endif  // TROIKA_NEON_KERNELS
