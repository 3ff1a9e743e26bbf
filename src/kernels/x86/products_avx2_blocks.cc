// Blocks of 32 with a least weight, or with levels from a codebook.
#if defined(__x86_64__)
#include "kernels/x86/products_avx2.inl"

TROIKA_PRODUCT(kQ4_1)
TROIKA_PRODUCT(kQ5_1)
TROIKA_PRODUCT(kIQ4_NL)
TROIKA_PRODUCT(kMXFP4)

TROIKA_TARGET_END
}  // namespace troika::kernels::x86

#endif  // __x86_64__
