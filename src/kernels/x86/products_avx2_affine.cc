#if defined(__x86_64__)
#include "kernels/x86/products_avx2.inl"
// The file below uses what stands above.
#include "kernels/simd/types_affine.inl"

TROIKA_TARGET_END
}  // namespace troika::kernels::x86

#endif  // __x86_64__
