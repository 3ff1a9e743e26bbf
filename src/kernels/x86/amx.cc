// Products with panels on the matrix unit of x86 processors (AMX).
#if defined(__x86_64__)

#include <cstring>
#include <type_traits>

#include "kernels/x86/target.h"
#include "kernels/x86/x86.h"

namespace troika::kernels::x86 {

TROIKA_TARGET_BEGIN("avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq")
namespace {

#include "kernels/simd/matmul_tiles.inl"
#include "kernels/x86/amx_config.inl"

// The instructions in assembly, because g++ 12's own functions want numbers of registers as
// literals.
class AmxTiles {
 public:
  void begin() { configure_tiles(); }
  void end() { asm volatile("tilerelease"); }

  template <int kTile>
  void zero() {
    asm volatile("tilezero %%tmm%c0" ::"n"(kTile));
  }
  template <int kTile>
  void load(const void* p, size_t stride) {
    asm volatile("tileloadd (%0,%1,1), %%tmm%c2" ::"r"(p), "r"(stride), "n"(kTile) : "memory");
  }
  template <int kTile>
  void store(void* p, size_t stride) {
    asm volatile("tilestored %%tmm%c2, (%0,%1,1)" ::"r"(p), "r"(stride), "n"(kTile) : "memory");
  }
  template <int kC, int kA, int kB>
  void add_u8_i8() {
    asm volatile("tdpbusd %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"n"(kC), "n"(kA), "n"(kB));
  }
  template <int kC, int kA, int kB>
  void add_bf16() {
    asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"n"(kC), "n"(kA), "n"(kB));
  }
};

}  // namespace
TROIKA_TARGET_END

constinit const Table kAmxTable = {
    .matmul_int8 = matmul_int8_tiles<AmxTiles>,
    .matmul_bf16 = matmul_bf16_tiles<AmxTiles>,
};

}  // namespace troika::kernels::x86

#endif  // __x86_64__
