// Quantises activations with a scale below their largest magnitude, written once for all
// instruction sets. Included after narrow.inl.

// Magnitudes of this many levels or more would round to more than 127.
constexpr float kFirstClamped = 127.5f;

// Lists what was clamped of n values, the first of which is channel `first`. Returns how many.
inline size_t list_outliers(const float* x, size_t n, size_t first, float inverse, float scale,
                            Outlier* outliers) {
  size_t n_outliers = 0;
  for (size_t i = 0; i < n; ++i) {
    float value = x[i] == x[i] ? x[i] : 0.0f;
    value = value > __FLT_MAX__ ? __FLT_MAX__ : value < -__FLT_MAX__ ? -__FLT_MAX__ : value;
    const float levels = value * inverse;
    if (levels > -kFirstClamped && levels < kFirstClamped) continue;
    const float kept = (levels < 0 ? -127.0f : 127.0f) * scale;
    outliers[n_outliers++] = {static_cast<uint32_t>(first + i), value - kept};
  }
  return n_outliers;
}

// Quantises to the bits of the reference.
size_t quantize_int8_within(const float* x, Int8Range range, std::byte* y, Outlier* outliers,
                            size_t k) {
  float most = range.limit;
  if (!range.is_static) {
    F largest = V::zero();
    for_each_vector(k, [&](size_t i, auto load, auto) TROIKA_INLINE {
      largest = V::max(V::magnitude(finite_of(load(x + i))), largest);
    });
    const float mine = V::largest(largest);
    most = mine < most ? mine : most;
  }
  const bool some = most >= kQ8Smallest;
  const float inverse = some ? 127.0f / most : 0.0f;
  const float scale = some ? most / 127.0f : 0.0f;
  const Int8Token token = int8_token(y, k);
  auto* levels = const_cast<uint8_t*>(token.levels);
  const F inverses = V::set(inverse), highest = V::set(127.0f), lowest = V::set(-127.0f);
  // Only a block in which something was clamped is looked through again.
  constexpr size_t kBlock = 128;
  size_t n_outliers = 0;
  F odd = V::zero();
  for (size_t begin = 0; begin < k; begin += kBlock) {
    const size_t n = k - begin < kBlock ? k - begin : kBlock;
    F largest = V::zero();
    for_each_vector(n, [&](size_t i, auto load, auto) TROIKA_INLINE {
      const F given = load(x + begin + i);
      odd = add_odd(odd, given);
      const F v = V::mul(finite_of(given), inverses);
      largest = V::max(V::magnitude(v), largest);
      V::store_offset_i8(levels + begin + i, V::round(V::max(lowest, V::min(v, highest))));
    });
    if (outliers != nullptr && V::largest(largest) >= kFirstClamped) {
      n_outliers += list_outliers(x + begin, n, begin, inverse, scale, outliers + n_outliers);
    }
  }
  std::memset(levels + k, 128, int8_depth(k) - k);
  *const_cast<float*>(token.scale) = unless_odd(scale, odd);
  return n_outliers;
}
