// Super-blocks with groups of 32.
#if defined(__x86_64__)
#include "kernels/x86/products_avx2.inl"

TROIKA_PRODUCT(kQ4_K)
TROIKA_PRODUCT(kQ5_K)
TROIKA_PRODUCT(kIQ4_XS)

TROIKA_TARGET_END
}  // namespace troika::kernels::x86

#endif  // __x86_64__
