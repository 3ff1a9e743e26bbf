#include "base/cpu_features.h"

#include <array>

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#elif defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

namespace troika {
namespace {

// The names stand in the order of CpuFeature.
constexpr std::array<const char*, static_cast<size_t>(CpuFeature::kCount)> kNames = {
    "avx2",        "fma",         "f16c",           "avx512f",  "avx512bw", "avx512vl", "avx512dq",
    "avx512_vnni", "avx512_bf16", "full_rate_bf16", "avx_vnni", "amx_int8", "amx_bf16", "neon",
    "dotprod",     "i8mm"};

#if defined(__x86_64__)

struct Leaf {
  uint32_t eax = 0, ebx = 0, ecx = 0, edx = 0;
};

// Returns zeros where the processor does not know the leaf.
Leaf cpuid(uint32_t number, uint32_t part = 0) {
  Leaf leaf;
  __get_cpuid_count(number, part, &leaf.eax, &leaf.ebx, &leaf.ecx, &leaf.edx);
  return leaf;
}

bool bit(uint32_t word, int index) { return (word >> index & 1u) != 0; }

// Returns which registers the operating system saves when it switches between programs.
__attribute__((target("xsave"))) uint64_t saved_registers() { return __builtin_ia32_xgetbv(0); }

// Asks for the 8 KB of tile registers, which Linux hands out only to programs that ask.
bool ask_for_tiles() {
  constexpr long kArchReqXcompPerm = 0x1023;
  constexpr long kTileData = 18;
  return syscall(SYS_arch_prctl, kArchReqXcompPerm, kTileData) == 0;
}

bool is_amd() {
  const Leaf name = cpuid(0);
  return name.ebx == 0x68747541 && name.edx == 0x69746e65 && name.ecx == 0x444d4163;
}

CpuFeatures detect() {
  CpuFeatures found;
  const auto add = [&](CpuFeature feature, bool present) {
    if (present) found.add(feature);
  };
  const Leaf basic = cpuid(1);
  if (!bit(basic.ecx, 27)) return found;  // without xgetbv there is nothing wider than SSE
  const uint64_t saved = saved_registers();
  const bool wide = (saved & 0x06) == 0x06;
  const bool wider = wide && (saved & 0xe0) == 0xe0;
  const Leaf seven = cpuid(7);
  const Leaf seven_one = cpuid(7, 1);
  add(CpuFeature::kFma, wide && bit(basic.ecx, 12));
  add(CpuFeature::kF16c, wide && bit(basic.ecx, 29));
  add(CpuFeature::kAvx2, wide && bit(seven.ebx, 5));
  add(CpuFeature::kAvxVnni, wide && bit(seven_one.eax, 4));
  add(CpuFeature::kAvx512f, wider && bit(seven.ebx, 16));
  add(CpuFeature::kAvx512dq, wider && bit(seven.ebx, 17));
  add(CpuFeature::kAvx512bw, wider && bit(seven.ebx, 30));
  add(CpuFeature::kAvx512vl, wider && bit(seven.ebx, 31));
  add(CpuFeature::kAvx512Vnni, wider && bit(seven.ecx, 11));
  add(CpuFeature::kAvx512Bf16, wider && bit(seven_one.eax, 5));
  // Among processors with these instructions, AMD's compute at full rate; Intel's leave such work
  // to the matrix unit and take several steps.
  add(CpuFeature::kFullRateBf16, found.has(CpuFeature::kAvx512Bf16) && is_amd());
  constexpr uint64_t kTileRegisters = 0x60000;
  if ((saved & kTileRegisters) == kTileRegisters && bit(seven.edx, 24) && ask_for_tiles()) {
    add(CpuFeature::kAmxInt8, bit(seven.edx, 25));
    add(CpuFeature::kAmxBf16, bit(seven.edx, 22));
  }
  return found;
}

#elif defined(__aarch64__)

CpuFeatures detect() {
  CpuFeatures found;
  const unsigned long words[] = {getauxval(AT_HWCAP), getauxval(AT_HWCAP2)};
  if (words[0] & HWCAP_ASIMD) found.add(CpuFeature::kNeon);
  if (words[0] & HWCAP_ASIMDDP) found.add(CpuFeature::kDotprod);
  if (words[1] & HWCAP2_I8MM) found.add(CpuFeature::kI8mm);
  return found;
}

#else

CpuFeatures detect() { return {}; }

#endif

}  // namespace

CpuFeatures detect_cpu_features() { return detect(); }

std::string to_string(CpuFeatures features) {
  std::string text;
  for (size_t i = 0; i < kNames.size(); ++i) {
    if (!features.has(static_cast<CpuFeature>(i))) continue;
    if (!text.empty()) text += ' ';
    text += kNames[i];
  }
  return text;
}

}  // namespace troika
