// Functions of float vectors, written once for all instruction sets. Included inside of a target
// region and an anonymous namespace, after a struct V that wraps the instructions:
//   V::F, V::kElements, V::kRegisters (how many vectors the processor holds), zero, set, load,
//   store, load_part, store_part (the first n elements; the others are 0 or untouched), add, sub,
//   mul, div, min, max, fma(a, b, c) = a * b + c, round, power_of_two(n) for whole n in -126..127,
//   sum, store_sums (those of four vectors), largest, load_f16, load_bf16, load_i8, f16 (one half
//   as float). min and max return their second operand if one is not a number. where_above(a, b,
//   then, otherwise) takes `then` where a > b. count_above(counts, a, b) adds 1 to the Counts of
//   each element with a > b, and total is the sum of four of them. store_indices_above(p, first, a,
//   b) writes first + i for each element i with a > b, one after the other, returns how many there
//   are, and may write kElements numbers in any case.

using F = V::F;

// Returns e^x, within 2e-7 relative: infinity above 88.72, 0 below -104. Not-a-number stays.
TROIKA_INLINE inline F exp_of(F x) {
  x = V::max(V::set(-104.0f), V::min(V::set(89.0f), x));
  // Here x = n ln 2 + r with |r| <= ln(2) / 2. ln 2 comes in two parts, so that r loses nothing.
  const F n = V::round(V::mul(x, V::set(1.44269504f)));
  F r = V::fma(n, V::set(-0x1.62e4p-1f), x);
  r = V::fma(n, V::set(-0x1.7f7d1cp-20f), r);
  // p is the Taylor series of e^r; the first term left out is below 6e-9.
  F p = V::set(1.0f / 5040);
  p = V::fma(p, r, V::set(1.0f / 720));
  p = V::fma(p, r, V::set(1.0f / 120));
  p = V::fma(p, r, V::set(1.0f / 24));
  p = V::fma(p, r, V::set(1.0f / 6));
  p = V::fma(p, r, V::set(0.5f));
  p = V::fma(p, r, V::set(1.0f));
  p = V::fma(p, r, V::set(1.0f));
  // 2^n is multiplied in two steps, because n reaches 128 and -150.
  const F half = V::round(V::mul(n, V::set(0.5f)));
  return V::mul(V::mul(p, V::power_of_two(half)), V::power_of_two(V::sub(n, half)));
}

// Returns 1 / (1 + e^-x).
TROIKA_INLINE inline F logistic(F x) {
  const F one = V::set(1.0f);
  return V::div(one, V::add(one, exp_of(V::sub(V::zero(), x))));
}

TROIKA_INLINE inline F silu_of(F x) { return V::mul(x, logistic(x)); }

// Returns x / 2 (1 + tanh(a)) = x logistic(2 a), with a = sqrt(2 / pi) (x + 0.044715 x^3).
TROIKA_INLINE inline F gelu_of(F x) {
  const F inner = V::fma(V::mul(V::mul(x, x), x), V::set(0.044715f), x);
  return V::mul(x, logistic(V::mul(inner, V::set(2 * 0.79788456f))));
}

// Keeps what is no number, as `max` returns its second operand then.
TROIKA_INLINE inline F relu_of(F x) { return V::max(V::zero(), x); }

// Returns tanh, with an absolute error of 2e-7.
TROIKA_INLINE inline F tanh_of(F x) {
  return V::fma(V::set(2.0f), logistic(V::add(x, x)), V::set(-1.0f));
}

// Calls body(i, load, store) for each vector of n floats; for the last, incomplete one load fills
// up with zeros and store writes only what there is.
template <typename Body>
TROIKA_INLINE inline void for_each_vector(size_t n, Body body) {
  size_t i = 0;
  for (; i + V::kElements <= n; i += V::kElements) {
    body(
        i, [](const auto* p) TROIKA_INLINE { return V::load(p); },
        [](float* p, auto v) TROIKA_INLINE { V::store(p, v); });
  }
  if (i < n) {
    const size_t rest = n - i;
    body(
        i, [rest](const float* p) TROIKA_INLINE { return V::load_part(p, rest); },
        [rest](float* p, F v) TROIKA_INLINE { V::store_part(p, v, rest); });
  }
}
