#include "kernels/amx_unit_test_support.h"
#if defined(__x86_64__)

#include <fmt/format.h>
#include <xmmintrin.h>

#include <cmath>
#include <cstring>

#include "tensor/half.h"

namespace troika::kernels {
namespace {

// These are places in the 64 bytes of a configuration. What lies between them is zero.
constexpr size_t kStartLineAt = 1;
constexpr size_t kLineBytesAt = 16;  // has two bytes for each tile
constexpr size_t kLinesAt = 48;      // has one byte for each tile
constexpr size_t kConfigurationBytes = 64;

// Computes one line of a product. Even and odd places of k have sums of their own, which are added
// at the end. The function must not be inlined, so that it runs with the rounding that its caller
// has set.
__attribute__((noinline)) void add_bf16_line(const uint8_t* left, const uint8_t (*right)[64],
                                             size_t n_pairs, size_t n_columns, float* out) {
  const auto element = [](const uint8_t* line, size_t i) {
    uint16_t bits;
    std::memcpy(&bits, line + i * sizeof(bits), sizeof(bits));
    return tensor::bf16_to_f32(bits);
  };
  for (size_t n = 0; n < n_columns; ++n) {
    float even = 0, odd = 0;
    for (size_t k = 0; k < n_pairs; ++k) {
      even = std::fma(element(left, 2 * k), element(right[k], 2 * n), even);
      odd = std::fma(element(left, 2 * k + 1), element(right[k], 2 * n + 1), odd);
    }
    out[n] += even + odd;
  }
}

template <typename... Values>
AmxRefusal refusal(fmt::format_string<Values...> format, Values... values) {
  AmxRefusal why;
  const fmt::string_view text = format;
  const auto end =
      fmt::vformat_to_n(why.text, sizeof(why.text) - 1, text, fmt::make_format_args(values...));
  *end.out = '\0';
  return why;
}

}  // namespace

AmxRefusal AmxUnit::configure(const void* bytes) {
  uint8_t from[kConfigurationBytes];
  std::memcpy(from, bytes, sizeof(from));
  if (from[0] == 0) {
    release();
    return {};
  }
  if (from[0] != 1) return refusal("there is no palette {}", from[0]);
  if (from[kStartLineAt] >= kLines) return refusal("it starts behind the last line");
  Shape shapes[kTiles];
  for (size_t i = 0; i < kTiles; ++i) {
    uint8_t* const line_bytes = from + kLineBytesAt + 2 * i;
    std::memcpy(&shapes[i].line_bytes, line_bytes, sizeof(shapes[i].line_bytes));
    shapes[i].n_lines = from[kLinesAt + i];
    if (shapes[i].line_bytes > kLineBytes || shapes[i].n_lines > kLines ||
        (shapes[i].line_bytes == 0) != (shapes[i].n_lines == 0)) {
      return refusal("tile {} cannot have {} lines of {} bytes", i, shapes[i].n_lines,
                     shapes[i].line_bytes);
    }
    std::memset(line_bytes, 0, sizeof(shapes[i].line_bytes));
    from[kLinesAt + i] = 0;
  }
  for (size_t i = 2; i < sizeof(from); ++i) {
    if (from[i] != 0) return refusal("byte {} of a configuration must be zero", i);
  }
  is_configured_ = true;
  start_line_ = from[kStartLineAt];
  std::memcpy(shapes_, shapes, sizeof(shapes));
  std::memset(lines_, 0, sizeof(lines_));
  return {};
}

void AmxUnit::store_configuration(void* out) const {
  uint8_t to[kConfigurationBytes] = {};
  to[0] = is_configured_ ? 1 : 0;
  to[kStartLineAt] = start_line_;
  for (size_t i = 0; i < kTiles; ++i) {
    std::memcpy(to + kLineBytesAt + 2 * i, &shapes_[i].line_bytes, sizeof(shapes_[i].line_bytes));
    to[kLinesAt + i] = shapes_[i].n_lines;
  }
  std::memcpy(out, to, sizeof(to));
}

void AmxUnit::release() { *this = AmxUnit(); }

AmxRefusal AmxUnit::why_not(int tile) const {
  if (!is_configured_) return refusal("the tiles are not configured");
  if (shapes_[tile].n_lines == 0) return refusal("tile {} is not configured", tile);
  return {};
}

AmxRefusal AmxUnit::why_not(int tile, int left, int right) const {
  for (const int i : {tile, left, right}) {
    if (const AmxRefusal why = why_not(i)) return why;
  }
  if (tile == left || left == right || tile == right) return refusal("it names a tile twice");
  const Shape c = shapes_[tile], a = shapes_[left], b = shapes_[right];
  if ((c.line_bytes | a.line_bytes | b.line_bytes) % 4 != 0) {
    return refusal("its lines end within a sum");
  }
  if (a.n_lines != c.n_lines || b.line_bytes != c.line_bytes || b.n_lines != a.line_bytes / 4) {
    return refusal("{} lines of {} bytes times {} of {} do not make {} of {}", a.n_lines,
                   a.line_bytes, b.n_lines, b.line_bytes, c.n_lines, c.line_bytes);
  }
  return {};
}

void AmxUnit::write_line(int tile, size_t line, const void* bytes) {
  const size_t n = shapes_[tile].line_bytes;
  std::memcpy(lines_[tile][line], bytes, n);
  std::memset(lines_[tile][line] + n, 0, kLineBytes - n);
}

void AmxUnit::clear_lines_behind(int tile) {
  for (size_t i = shapes_[tile].n_lines; i < kLines; ++i) {
    std::memset(lines_[tile][i], 0, kLineBytes);
  }
  start_line_ = 0;
}

AmxRefusal AmxUnit::zero(int tile) {
  if (const AmxRefusal why = why_not(tile)) return why;
  std::memset(lines_[tile], 0, sizeof(lines_[tile]));
  start_line_ = 0;
  return {};
}

AmxRefusal AmxUnit::load(int tile, uint64_t address, uint64_t stride) {
  if (const AmxRefusal why = why_not(tile)) return why;
  for (size_t i = start_line_; i < shapes_[tile].n_lines; ++i) {
    write_line(tile, i, reinterpret_cast<const void*>(address + i * stride));
  }
  clear_lines_behind(tile);
  return {};
}

AmxRefusal AmxUnit::store(int tile, uint64_t address, uint64_t stride) {
  if (const AmxRefusal why = why_not(tile)) return why;
  for (size_t i = start_line_; i < shapes_[tile].n_lines; ++i) {
    std::memcpy(reinterpret_cast<void*>(address + i * stride), lines_[tile][i],
                shapes_[tile].line_bytes);
  }
  start_line_ = 0;
  return {};
}

template <typename Left, typename Right>
AmxRefusal AmxUnit::add_bytes(int tile, int left, int right) {
  if (const AmxRefusal why = why_not(tile, left, right)) return why;
  const size_t n_columns = shapes_[tile].line_bytes / 4, depth = shapes_[left].line_bytes / 4;
  for (size_t m = 0; m < shapes_[tile].n_lines; ++m) {
    uint32_t sums[kLineBytes / 4];
    std::memcpy(sums, lines_[tile][m], sizeof(sums));
    for (size_t k = 0; k < depth; ++k) {
      for (size_t n = 0; n < n_columns; ++n) {
        for (size_t i = 0; i < 4; ++i) {
          const int product = static_cast<Left>(lines_[left][m][4 * k + i]) *
                              static_cast<Right>(lines_[right][k][4 * n + i]);
          sums[n] += static_cast<uint32_t>(product);
        }
      }
    }
    write_line(tile, m, sums);
  }
  clear_lines_behind(tile);
  return {};
}

template AmxRefusal AmxUnit::add_bytes<int8_t, int8_t>(int tile, int left, int right);
template AmxRefusal AmxUnit::add_bytes<int8_t, uint8_t>(int tile, int left, int right);
template AmxRefusal AmxUnit::add_bytes<uint8_t, int8_t>(int tile, int left, int right);
template AmxRefusal AmxUnit::add_bytes<uint8_t, uint8_t>(int tile, int left, int right);

AmxRefusal AmxUnit::add_bf16(int tile, int left, int right) {
  if (const AmxRefusal why = why_not(tile, left, right)) return why;
  // Whatever the thread has set, an operation rounds to the nearest number (ties to even), numbers
  // too small for a normal float are zero before and after it, and there are no exceptions.
  constexpr unsigned kNoExceptions = 0x1f80, kZerosForResults = 0x8000, kZerosForOperands = 0x40;
  const unsigned before = _mm_getcsr();
  _mm_setcsr(kNoExceptions | kZerosForResults | kZerosForOperands);
  for (size_t m = 0; m < shapes_[tile].n_lines; ++m) {
    float sums[kLineBytes / sizeof(float)];
    std::memcpy(sums, lines_[tile][m], sizeof(sums));
    add_bf16_line(lines_[left][m], lines_[right], shapes_[left].line_bytes / 4,
                  shapes_[tile].line_bytes / 4, sums);
    write_line(tile, m, sums);
  }
  _mm_setcsr(before);
  clear_lines_behind(tile);
  return {};
}

}  // namespace troika::kernels

#endif  // __x86_64__
