// A super-block decoded with NEON, to the bit as its codec does it: what simd/unpack.inl asks for.

template <typename Format>
void decode_256(const std::byte* c, float* values) {
  float scales[8], minima[8] = {};
  Format::scales(c, scales);
  if constexpr (Format::kHasMinima) Format::minima(c, minima);
  unrolled<8>([&](auto i) TROIKA_INLINE {
    const Levels levels = Format::levels(c, i);
    unrolled<2>([&](auto h) TROIKA_INLINE {
      float scale = scales[i];
      // Each 16 levels have a multiple of their own.
      if constexpr (Format::kHasMultiples) {
        scale *= static_cast<float>(Format::multiple(c, 2 * i + h));
      }
      const int16x8_t words[2] = {vmovl_s8(vget_low_s8(levels.val[h])),
                                  vmovl_s8(vget_high_s8(levels.val[h]))};
      unrolled<4>([&](auto j) TROIKA_INLINE {
        const int16x4_t four =
            j % 2 == 0 ? vget_low_s16(words[j / 2]) : vget_high_s16(words[j / 2]);
        float32x4_t v = vmulq_n_f32(vcvtq_f32_s32(vmovl_s16(four)), scale);
        if constexpr (Format::kHasMinima) v = vsubq_f32(v, vdupq_n_f32(minima[i]));
        vst1q_f32(values + 32 * i + 16 * h + 4 * j, v);
      });
    });
  });
}
