// Loops whose index is a constant. Included inside of a target region and an anonymous namespace.

#define TROIKA_INLINE __attribute__((always_inline))

template <typename Body, size_t... kIndex>
TROIKA_INLINE inline void unrolled_indices(Body&& body, std::index_sequence<kIndex...>) {
  (body(std::integral_constant<int, static_cast<int>(kIndex)>()), ...);
}

// Calls body(0) .. body(kCount - 1), each with its index as a constant. Loops over arrays of
// registers are written with this: compilers keep such arrays out of memory only where every
// index is a constant early.
template <int kCount, typename Body>
TROIKA_INLINE inline void unrolled(Body&& body) {
  unrolled_indices(body, std::make_index_sequence<static_cast<size_t>(kCount)>());
}
