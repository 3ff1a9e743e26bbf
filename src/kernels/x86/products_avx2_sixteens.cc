// Super-blocks with groups of 16.
#if defined(__x86_64__)
#include "kernels/x86/products_avx2.inl"

TROIKA_PRODUCT(kQ2_K)
TROIKA_PRODUCT(kQ3_K)
TROIKA_PRODUCT(kQ6_K)

TROIKA_TARGET_END
}  // namespace troika::kernels::x86

#endif  // __x86_64__
