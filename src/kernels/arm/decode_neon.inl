// Decodes a super-block with NEON, to the bit as its codec does, for simd/unpack.inl.

template <typename Format>
void decode_256(const std::byte* c, float* values) {
  constexpr size_t kGroup = Format::kGroup;
  float scales[16], minima[16];
  Format::scales(c, scales);
  if constexpr (Format::kHasMinima) Format::minima(c, minima);
  if constexpr (kGroup == 16) {
    int8_t multiples[16];
    vst1q_s8(multiples, Format::multiples(c));
    for (int g = 15; g >= 0; --g) scales[g] = scales[0] * static_cast<float>(multiples[g]);
    if constexpr (Format::kHasMinima) {
      vst1q_s8(multiples, Format::min_multiples(c));
      for (int g = 15; g >= 0; --g) minima[g] = minima[0] * static_cast<float>(multiples[g]);
    }
  }
  unrolled<8>([&](auto i) TROIKA_INLINE {
    const Levels levels = Format::levels(c, i);
    unrolled<2>([&](auto h) TROIKA_INLINE {
      const size_t group = (32 * i + 16 * h) / kGroup;
      const int16x8_t words[2] = {vmovl_s8(vget_low_s8(levels.val[h])),
                                  vmovl_s8(vget_high_s8(levels.val[h]))};
      unrolled<4>([&](auto j) TROIKA_INLINE {
        const int16x4_t four =
            j % 2 == 0 ? vget_low_s16(words[j / 2]) : vget_high_s16(words[j / 2]);
        float32x4_t v = vmulq_n_f32(vcvtq_f32_s32(vmovl_s16(four)), scales[group]);
        if constexpr (Format::kHasMinima) v = vsubq_f32(v, vdupq_n_f32(minima[group]));
        vst1q_f32(values + 32 * i + 16 * h + 4 * j, v);
      });
    });
  });
}
