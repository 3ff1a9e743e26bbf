// Blocks of 32 with a scale.
#if defined(__x86_64__)
#include "kernels/x86/products_avx2.inl"

TROIKA_PRODUCT(kQ4_0)
TROIKA_PRODUCT(kQ5_0)
TROIKA_PRODUCT(kQ8_0)

TROIKA_TARGET_END
}  // namespace troika::kernels::x86

#endif  // __x86_64__
