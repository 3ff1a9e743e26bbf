#if defined(__x86_64__)
#include "kernels/x86/products_avx2.inl"
// Uses what stands before it.
#include "kernels/simd/types_blocks.inl"

TROIKA_TARGET_END
}  // namespace troika::kernels::x86

#endif  // __x86_64__
