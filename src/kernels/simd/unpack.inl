// Weights of any format as strips of bfloat16 or int8, to the bit like the reference, for
// instruction sets without wide transpositions. After narrow.inl and the formats; needs
//   template <typename Format> void decode_256(const std::byte* c, float* values)
// which decodes a super-block to the bit as the codec does.

// Decodes 256 weights of a row from element i on, and zeros behind the row's end.
template <typename Format>
struct BlockRow {
  static void decode(const std::byte* row, size_t i, size_t k, float* values) {
    const std::byte* c = row + i / kSuperBlock * Format::kBytes;
    std::byte rest[Format::kBytes];
    if (Format::kBlock < kSuperBlock && k - i < kSuperBlock) {
      pad_rest<Format>(c, k - i, rest);
      c = rest;
    }
    decode_256<Format>(c, values);
  }
};

template <Type kType>
struct FloatRow {
  static F load(const std::byte* p) {
    if constexpr (kType == Type::kF32) {
      return V::load(reinterpret_cast<const float*>(p));
    } else if constexpr (kType == Type::kF16) {
      return V::load_f16(p);
    } else {
      return V::load_bf16(p);
    }
  }
  static void decode(const std::byte* row, size_t i, size_t k, float* values) {
    constexpr size_t kBytes = kType == Type::kF32 ? 4 : 2;
    const std::byte* c = row + i * kBytes;
    std::byte rest[kSuperBlock * kBytes];
    if (k - i < kSuperBlock) {
      std::memset(rest, 0, sizeof(rest));
      std::memcpy(rest, c, (k - i) * kBytes);
      c = rest;
    }
    for (size_t j = 0; j < kSuperBlock; j += V::kElements)
      V::store(values + j, load(c + j * kBytes));
  }
};

template <Type kType>
using RowOf = std::conditional_t<tensor::is_float(kType), FloatRow<kType>, BlockRow<Format<kType>>>;

// Puts words of 4 bytes of 16 rows side by side: line j holds the j-th word of each.
TROIKA_INLINE inline void interleave(const std::byte (*rows)[kSuperBlock * 2], size_t n_words,
                                     uint32_t flip, std::byte* out) {
  for (size_t j = 0; j < n_words; ++j, out += kLineBytes) {
    for (size_t r = 0; r < kStripRows; ++r) {
      uint32_t word;
      std::memcpy(&word, rows[r] + 4 * j, sizeof(word));
      word ^= flip;
      std::memcpy(out + 4 * r, &word, sizeof(word));
    }
  }
}

template <typename Row>
void unpack_bf16(const MatmulWeight& weight, size_t first_k, size_t n_k, uint16_t* strip) {
  const size_t n_rows = weight.last_row - weight.first_row;
  alignas(64) std::byte rows[kStripRows][kSuperBlock * 2];
  alignas(64) float values[kSuperBlock];
  if (n_rows < kStripRows) std::memset(rows, 0, sizeof(rows));
  for (size_t i = 0; i < n_k; i += kSuperBlock) {
    for (size_t r = 0; r < n_rows; ++r) {
      Row::decode(weight.data + (weight.first_row + r) * weight.row_bytes, first_k + i, weight.k,
                  values);
      auto* out = reinterpret_cast<uint16_t*>(rows[r]);
      for (size_t j = 0; j < kSuperBlock; j += V::kElements)
        V::store_bf16(out + j, V::load(values + j));
    }
    const size_t n = n_k - i < kSuperBlock ? n_k - i : kSuperBlock;
    interleave(rows, n / kBf16LineDepth, 0, reinterpret_cast<std::byte*>(strip + i * kStripRows));
  }
}

template <typename Row>
float largest_of_row(const std::byte* row, size_t k) {
  alignas(64) float values[kSuperBlock];
  F most = V::zero(), odd = V::zero();
  for (size_t i = 0; i < k; i += kSuperBlock) {
    Row::decode(row, i, k, values);
    for (size_t j = 0; j < kSuperBlock; j += V::kElements) {
      const F value = V::load(values + j);
      odd = add_odd(odd, value);
      most = V::max(V::magnitude(finite_of(value)), most);
    }
  }
  return unless_odd(V::largest(most), odd);
}

// Returns the sum of 256 bytes.
TROIKA_INLINE inline int32_t sum_of_bytes(const std::byte* bytes) {
  uint32_t even = 0, odd = 0;  // two sums of 16 bits each
  for (size_t i = 0; i < kSuperBlock; i += 4) {
    uint32_t four;
    std::memcpy(&four, bytes + i, sizeof(four));
    even += four & 0x00ff00ffu;
    odd += four >> 8 & 0x00ff00ffu;
  }
  return static_cast<int32_t>((even & 0xffffu) + (even >> 16) + (odd & 0xffffu) + (odd >> 16));
}

template <typename Row>
void unpack_int8(const MatmulWeight& weight, const float* largest, const Int8Strip& strip) {
  const size_t n_rows = weight.last_row - weight.first_row;
  alignas(64) std::byte rows[kStripRows][kSuperBlock * 2];
  alignas(64) float values[kSuperBlock];
  std::memset(rows, 128, sizeof(rows));
  for (size_t r = 0; r < kStripRows; ++r) {
    strip.scales[r] = r < n_rows ? scale_of_largest(largest[r]) : 0.0f;
    strip.starts[r] = 0;
  }
  const size_t depth = int8_depth(weight.k);
  for (size_t i = 0; i < depth; i += kSuperBlock) {
    for (size_t r = 0; r < n_rows; ++r) {
      Row::decode(weight.data + (weight.first_row + r) * weight.row_bytes, i, weight.k, values);
      const F inverse = V::set(largest[r] >= kQ8Smallest ? 127.0f / largest[r] : 0.0f);
      auto* out = reinterpret_cast<uint8_t*>(rows[r]);
      for (size_t j = 0; j < kSuperBlock; j += V::kElements) {
        const F value = finite_of(V::load(values + j));
        V::store_offset_i8(out + j, V::round(V::mul(value, inverse)));
      }
      strip.starts[r] -= 128 * (sum_of_bytes(rows[r]) - 128 * static_cast<int32_t>(kSuperBlock));
    }
    const size_t n = depth - i < kSuperBlock ? depth - i : kSuperBlock;
    interleave(rows, n / kInt8LineDepth, 0x80808080u,
               reinterpret_cast<std::byte*>(strip.levels + i * kStripRows));
  }
}
