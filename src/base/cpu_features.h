// What the processor can do that runs this program, as far as kernels ask.
#pragma once

#include <cstdint>
#include <string>

namespace troika {

enum class CpuFeature : uint8_t {
  // These are features of x86.
  kAvx2,
  kFma,
  kF16c,
  kAvx512f,
  kAvx512bw,
  kAvx512vl,
  kAvx512dq,
  kAvx512Vnni,
  kAvx512Bf16,
  kFullRateBf16,  // an AVX-512 product of bfloat16 takes no longer than one of floats
  kAvxVnni,
  kAmxInt8,
  kAmxBf16,
  // These are features of arm64.
  kNeon,
  kDotprod,
  kI8mm,
  kCount,
};

// A small set of features.
class CpuFeatures {
 public:
  constexpr CpuFeatures() = default;
  template <typename... Rest>
  constexpr explicit CpuFeatures(CpuFeature first, Rest... rest) {
    add(first);
    (add(rest), ...);
  }

  constexpr void add(CpuFeature feature) { bits_ |= 1u << static_cast<unsigned>(feature); }
  constexpr void remove(CpuFeature feature) { bits_ &= ~(1u << static_cast<unsigned>(feature)); }
  constexpr bool has(CpuFeature feature) const {
    return (bits_ >> static_cast<unsigned>(feature) & 1u) != 0;
  }
  constexpr bool has_all(CpuFeatures wanted) const { return (wanted.bits_ & ~bits_) == 0; }
  constexpr bool operator==(const CpuFeatures&) const = default;

 private:
  uint32_t bits_ = 0;
};

// Returns what this processor has and this operating system lets a program use. AMX counts only
// where the kernel has granted the tile registers to this process; this call asks for them.
CpuFeatures detect_cpu_features();

// Returns a text like "avx2 fma f16c", with names as in /proc/cpuinfo.
std::string to_string(CpuFeatures features);

}  // namespace troika
