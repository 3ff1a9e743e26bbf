// Norms, rotations and activations, written once for all instruction sets (see math.inl).

void rms_norm(const float* x, const float* weight, float eps, float* y, size_t n) {
  F squares = V::zero();
  for_each_vector(n, [&](size_t i, auto load, auto) TROIKA_INLINE {
    const F v = load(x + i);
    squares = V::fma(v, v, squares);
  });
  const float factor = 1.0f / __builtin_sqrtf(V::sum(squares) / static_cast<float>(n) + eps);
  const F factors = V::set(factor);
  for_each_vector(n, [&](size_t i, auto load, auto store) TROIKA_INLINE {
    F v = V::mul(load(x + i), factors);
    if (weight != nullptr) v = V::mul(v, load(weight + i));
    store(y + i, v);
  });
}

void layer_norm(const float* x, const float* weight, const float* bias, float eps, float* y,
                size_t n) {
  F sums = V::zero();
  for_each_vector(
      n, [&](size_t i, auto load, auto) TROIKA_INLINE { sums = V::add(sums, load(x + i)); });
  const F mean = V::set(V::sum(sums) / static_cast<float>(n));
  F squares = V::zero();
  size_t i = 0;
  for (; i + V::kElements <= n; i += V::kElements) {
    const F v = V::sub(V::load(x + i), mean);
    squares = V::fma(v, v, squares);
  }
  float variance = V::sum(squares);
  for (; i < n; ++i) {  // zeros that fill an incomplete vector would count here
    float deviation[V::kElements];
    V::store(deviation, V::sub(V::set(x[i]), mean));
    variance += deviation[0] * deviation[0];
  }
  const F factor = V::set(1.0f / __builtin_sqrtf(variance / static_cast<float>(n) + eps));
  for_each_vector(n, [&](size_t j, auto load, auto store) TROIKA_INLINE {
    F v = V::mul(V::sub(load(x + j), mean), factor);
    if (weight != nullptr) v = V::mul(v, load(weight + j));
    if (bias != nullptr) v = V::add(v, load(bias + j));
    store(y + j, v);
  });
}

// The compiler makes vectors of this by itself where that pays. Pairs side by side would need
// shuffles, and a rotation is a small part of a step.
void rope_normal(float* x, size_t n_heads, size_t head_stride, size_t n_rot, const float* cos,
                 const float* sin) {
  for (size_t h = 0; h < n_heads; ++h, x += head_stride) {
    for (size_t i = 0; i < n_rot / 2; ++i) {
      const float a = x[2 * i], b = x[2 * i + 1];
      x[2 * i] = a * cos[i] - b * sin[i];
      x[2 * i + 1] = a * sin[i] + b * cos[i];
    }
  }
}

void rope_neox(float* x, size_t n_heads, size_t head_stride, size_t n_rot, const float* cos,
               const float* sin) {
  const size_t half = n_rot / 2;
  for (size_t h = 0; h < n_heads; ++h, x += head_stride) {
    for_each_vector(half, [&](size_t i, auto load, auto store) TROIKA_INLINE {
      const F a = load(x + i), b = load(x + half + i);
      const F c = load(cos + i), s = load(sin + i);
      store(x + i, V::sub(V::mul(a, c), V::mul(b, s)));
      store(x + half + i, V::fma(a, s, V::mul(b, c)));
    });
  }
}

template <typename Function>
TROIKA_INLINE inline void apply(const float* x, float* y, size_t n, Function function) {
  for_each_vector(n, [&](size_t i, auto load, auto store)
                         TROIKA_INLINE { store(y + i, function(load(x + i))); });
}

template <typename Function>
TROIKA_INLINE inline void combine(const float* a, const float* b, float* y, size_t n,
                                  Function function) {
  for_each_vector(n, [&](size_t i, auto load, auto store)
                         TROIKA_INLINE { store(y + i, function(load(a + i), load(b + i))); });
}

void silu_mul(const float* gate, const float* up, float* y, size_t n) {
  combine(gate, up, y, n, [](auto g, auto u) TROIKA_INLINE { return V::mul(silu_of(g), u); });
}
void gelu_mul(const float* gate, const float* up, float* y, size_t n) {
  combine(gate, up, y, n, [](auto g, auto u) TROIKA_INLINE { return V::mul(gelu_of(g), u); });
}
void relu_mul(const float* gate, const float* up, float* y, size_t n) {
  combine(gate, up, y, n, [](auto g, auto u) TROIKA_INLINE { return V::mul(relu_of(g), u); });
}
void silu(const float* x, float* y, size_t n) {
  apply(x, y, n, [](auto v) TROIKA_INLINE { return silu_of(v); });
}
void gelu(const float* x, float* y, size_t n) {
  apply(x, y, n, [](auto v) TROIKA_INLINE { return gelu_of(v); });
}
void relu(const float* x, float* y, size_t n) {
  apply(x, y, n, [](auto v) TROIKA_INLINE { return relu_of(v); });
}
void exp(const float* x, float* y, size_t n) {
  apply(x, y, n, [](auto v) TROIKA_INLINE { return exp_of(v); });
}
void add(const float* a, const float* b, float* y, size_t n) {
  combine(a, b, y, n, [](auto p, auto q) TROIKA_INLINE { return V::add(p, q); });
}
void scale(const float* x, float factor, float* y, size_t n) {
  const F factors = V::set(factor);
  apply(x, y, n, [&](auto v) TROIKA_INLINE { return V::mul(v, factors); });
}
void soft_cap(const float* x, float cap, float* y, size_t n) {
  const F caps = V::set(cap), inverse = V::set(1.0f / cap);
  apply(x, y, n, [&](auto v) TROIKA_INLINE { return V::mul(caps, tanh_of(V::mul(v, inverse))); });
}

// Whole vectors come first; the rest is compared one by one.
float largest_of(const float* x, size_t n) {
  float largest = x[0];
  size_t i = 0;
  if (n >= V::kElements) {
    F best = V::load(x);
    for (; i + V::kElements <= n; i += V::kElements) best = V::max(V::load(x + i), best);
    largest = V::largest(best);
  }
  for (; i < n; ++i) largest = x[i] > largest ? x[i] : largest;
  return largest;
}

void softmax(const float* x, float* y, size_t n) {
  if (n == 0) return;
  const F largest = V::set(largest_of(x, n));
  F sums = V::zero();
  size_t i = 0;
  for (; i + V::kElements <= n; i += V::kElements) {
    const F e = exp_of(V::sub(V::load(x + i), largest));
    V::store(y + i, e);
    sums = V::add(sums, e);
  }
  float total = V::sum(sums);
  if (i < n) {
    V::store_part(y + i, exp_of(V::sub(V::load_part(x + i, n - i), largest)), n - i);
    for (; i < n; ++i) total += y[i];
  }
  scale(y, 1.0f / total, y, n);
}

size_t argmax(const float* x, size_t n) {
  // Begins below all numbers, so that what is none never enters: the second operand stays.
  float largest = -__builtin_inff();
  size_t i = 0;
  if (n >= V::kElements) {
    F best = V::set(largest);
    for (; i + V::kElements <= n; i += V::kElements) best = V::max(V::load(x + i), best);
    largest = V::largest(best);
  }
  for (; i < n; ++i) largest = x[i] > largest ? x[i] : largest;
  for (i = 0; i < n; ++i) {
    if (x[i] == largest) return i;
  }
  return 0;  // no value is a number
}
