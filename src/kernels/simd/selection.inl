// What stands above a limit, written once for all instruction sets (see math.inl).

size_t count_above(const float* x, size_t n, float limit) {
  constexpr size_t kSums = 4;  // one alone would wait for itself
  const F limits = V::set(limit);
  V::Counts counts[kSums] = {};
  size_t i = 0;
  for (; i + kSums * V::kElements <= n; i += kSums * V::kElements) {
    unrolled<static_cast<int>(kSums)>([&](auto j) TROIKA_INLINE {
      counts[j] =
          V::count_above(counts[j], V::load(x + i + static_cast<size_t>(j) * V::kElements), limits);
    });
  }
  size_t count = V::total(counts);
  for (; i < n; ++i) count += x[i] > limit ? 1 : 0;
  return count;
}

size_t find_above(const float* x, size_t n, float limit, uint32_t* out) {
  const F limits = V::set(limit);
  size_t found = 0, i = 0;
  // No more are found than were looked at, so that a whole vector fits behind them.
  for (; i + V::kElements <= n; i += V::kElements) {
    found += V::store_indices_above(out + found, static_cast<uint32_t>(i), V::load(x + i), limits);
  }
  for (; i < n; ++i) {
    if (x[i] > limit) out[found++] = static_cast<uint32_t>(i);
  }
  return found;
}
