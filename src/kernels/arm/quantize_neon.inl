// Quantises activations with NEON, to the bits of the reference. Included after narrow.inl.

// Turns 16 floats, times a factor, into levels. Returns their sum.
TROIKA_INLINE inline int16_t store_levels(const F (&values)[4], F factor, int8_t* levels) {
  int16x4_t words[4];
  unrolled<4>([&](auto j) TROIKA_INLINE {
    words[j] = vmovn_s32(vcvtnq_s32_f32(vmulq_f32(values[j], factor)));
  });
  const int8x8_t low = vmovn_s16(vcombine_s16(words[0], words[1]));
  const int8x8_t high = vmovn_s16(vcombine_s16(words[2], words[3]));
  const int8x16_t bytes = vcombine_s8(low, high);
  vst1q_s8(levels, bytes);
  return vaddlvq_s8(bytes);
}

void quantize_activations(const float* x, std::byte* y, size_t k) {
  const Q8Row row = q8_row(y, k);
  auto* q = const_cast<int8_t*>(row.q);
  auto* scale = const_cast<float*>(row.scale);
  auto* sum = const_cast<int16_t*>(row.sum);
  static_assert(kQ8Block == 32 && kQ8SumBlock == 16 && V::kElements == 4);
  for (size_t i = 0; i < q8_padded(k); i += kQ8Block) {
    float rest[kQ8Block] = {};
    const float* block = x + i;
    if (i + kQ8Block > k) {
      if (i < k) std::memcpy(rest, x + i, (k - i) * sizeof(float));
      block = rest;
    }
    F halves[2][4];
    F most = V::zero(), odd = V::zero();
    unrolled<8>([&](auto j) TROIKA_INLINE {
      const F given = V::load(block + 4 * j);
      odd = add_odd(odd, given);
      halves[j / 4][j % 4] = finite_of(given);
      most = V::max(V::magnitude(halves[j / 4][j % 4]), most);
    });
    const float largest = vmaxvq_f32(most);
    const bool some = largest >= kQ8Smallest;
    const F factor = V::set(some ? 127.0f / largest : 0.0f);
    scale[i / kQ8Block] = unless_odd(some ? largest / 127.0f : 0.0f, odd);
    for (size_t half = 0; half < 2; ++half) {
      sum[i / 16 + half] = store_levels(halves[half], factor, q + i + 16 * half);
    }
  }
}
