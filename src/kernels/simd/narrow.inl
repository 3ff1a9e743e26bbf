// Brings activations into the forms that panels need, written once for all instruction sets.
// Included inside of a target region and an anonymous namespace, after math.inl.

TROIKA_INLINE inline F finite_of(F v) {
  const F limit = V::set(__FLT_MAX__);
  return V::max(V::sub(V::zero(), limit), V::min(V::numbers(v), limit));
}

// Adds 0 for each number of a vector, and what is no number for another value.
TROIKA_INLINE inline F add_odd(F odd, F v) { return V::add(odd, V::sub(v, v)); }
// Returns the value, or none where something was odd.
TROIKA_INLINE inline float unless_odd(float value, F odd) {
  return V::sum(odd) == 0.0f ? value : __builtin_nanf("");
}

// Returns the scale of a row of weights with this largest magnitude, which is no number where the
// row has one that is none.
TROIKA_INLINE inline float scale_of_largest(float largest) {
  return largest < kQ8Smallest ? 0.0f : largest / 127.0f;
}

// Quantises to the bits of the reference.
void quantize_int8(const float* x, std::byte* y, size_t k) {
  F most = V::zero(), odd = V::zero();
  for_each_vector(k, [&](size_t i, auto load, auto) TROIKA_INLINE {
    const F v = load(x + i);
    odd = add_odd(odd, v);
    most = V::max(V::magnitude(finite_of(v)), most);
  });
  const float largest = unless_odd(V::largest(most), odd);
  const F inverse = V::set(largest >= kQ8Smallest ? 127.0f / largest : 0.0f);
  const Int8Token token = int8_token(y, k);
  auto* levels = const_cast<uint8_t*>(token.levels);
  for_each_vector(k, [&](size_t i, auto load, auto) TROIKA_INLINE {
    V::store_offset_i8(levels + i, V::round(V::mul(finite_of(load(x + i)), inverse)));
  });
  // The last vector may have written zeros beyond k already; there is room for it.
  std::memset(levels + k, 128, int8_depth(k) - k);
  *const_cast<float*>(token.scale) = scale_of_largest(largest);
}

void narrow_bf16(const float* x, std::byte* y, size_t k) {
  auto* levels = reinterpret_cast<uint16_t*>(y);
  for_each_vector(
      k, [&](size_t i, auto load, auto) TROIKA_INLINE { V::store_bf16(levels + i, load(x + i)); });
  std::memset(levels + k, 0, (bf16_depth(k) - k) * sizeof(uint16_t));
}
