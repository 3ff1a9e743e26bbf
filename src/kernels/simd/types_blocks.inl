// Blocks of 32 with a least weight, or with levels from a codebook.
TROIKA_PRODUCT(kQ4_1)
TROIKA_PRODUCT(kQ5_1)
TROIKA_PRODUCT(kIQ4_NL)
TROIKA_PRODUCT(kMXFP4)
