// Register loops with the widest instructions that x86-64 processors have. Results go to an empty
// asm statement, so that no compiler leaves the work out. Operands come from such a statement, so
// that no compiler computes the result beforehand.
#if defined(__x86_64__)
#include "kernels/x86/probe.h"

// g++ 12 takes placeholders inside of its own header for uninitialised variables.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif

#include <immintrin.h>

#include <cstring>
#include <utility>

#include "kernels/x86/target.h"

namespace troika::kernels::x86 {

// Counts independent sums: enough to hide the latency of an instruction that can start twice in
// each cycle.
constexpr int kChains = 12;

TROIKA_TARGET_BEGIN("avx2,fma")
namespace {
namespace avx2 {
#include "kernels/simd/unroll.inl"
// gcc wants it this way: the operands have a type that only this target has.
template <typename Vector>
TROIKA_INLINE inline Vector unknown(Vector v) {
  asm volatile("" : "+x"(v));
  return v;
}
template <typename Vector, typename Step>
TROIKA_INLINE inline void loop(size_t turns, Vector start, Step step) {
  Vector sums[kChains];
  unrolled<kChains>([&](auto i) TROIKA_INLINE { sums[i] = unknown(start); });
  for (size_t turn = 0; turn < turns; ++turn) {
    unrolled<kChains>([&](auto i) TROIKA_INLINE { sums[i] = step(sums[i]); });
  }
  unrolled<kChains>([&](auto i) TROIKA_INLINE { unknown(sums[i]); });
}

double f32(size_t turns) {
  const __m256 a = unknown(_mm256_set1_ps(0.5f));
  loop(turns, _mm256_setzero_ps(),
       [&](__m256 sum) TROIKA_INLINE { return _mm256_fmadd_ps(a, a, sum); });
  return 2.0 * 8 * kChains * static_cast<double>(turns);
}

// Does what is needed without a dot product of bytes: products in pairs, sums of pairs, an
// addition.
double int8(size_t turns) {
  const __m256i a = unknown(_mm256_set1_epi8(3));
  const __m256i one = unknown(_mm256_set1_epi16(1));
  loop(turns, _mm256_setzero_si256(), [&](__m256i sum) TROIKA_INLINE {
    const __m256i pairs = _mm256_maddubs_epi16(unknown(a), a);
    return _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, one));
  });
  return 2.0 * 32 * kChains * static_cast<double>(turns);
}

// Fetching 4 KB ahead helps over the ends of pages, where hardware stops looking ahead.
uint64_t read(const std::byte* from, size_t bytes) {
  __m256i sums[8];
  unrolled<8>([&](auto i) TROIKA_INLINE { sums[i] = _mm256_setzero_si256(); });
  for (size_t i = 0; i + 256 <= bytes; i += 256) {
    const std::byte* p = from + i;
    unrolled<4>([&](auto j) TROIKA_INLINE { __builtin_prefetch(p + 4096 + 64 * j, 0, 2); });
    unrolled<8>([&](auto j) TROIKA_INLINE {
      const __m256i v = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p + 32 * j));
      sums[j] = _mm256_add_epi64(sums[j], v);
    });
  }
  __m256i sum = sums[0];
  unrolled<7>([&](auto i) TROIKA_INLINE { sum = _mm256_add_epi64(sum, sums[i + 1]); });
  uint64_t words[4];
  std::memcpy(words, &sum, sizeof(words));
  return words[0] + words[1] + words[2] + words[3];
}
}  // namespace avx2
}  // namespace
TROIKA_TARGET_END

TROIKA_TARGET_BEGIN("avx2,avxvnni")
namespace {
namespace avxvnni {
#include "kernels/simd/unroll.inl"
double int8(size_t turns) {
  __m256i sums[kChains];
  __m256i a = _mm256_set1_epi8(3);
  asm volatile("" : "+x"(a));
  unrolled<kChains>([&](auto i) TROIKA_INLINE {
    sums[i] = _mm256_setzero_si256();
    asm volatile("" : "+x"(sums[i]));
  });
  for (size_t turn = 0; turn < turns; ++turn) {
    unrolled<kChains>([&](auto i)
                          TROIKA_INLINE { sums[i] = _mm256_dpbusd_avx_epi32(sums[i], a, a); });
  }
  // The variable is needed because clang 14 does not capture what only an asm statement names.
  unrolled<kChains>([&](auto i) TROIKA_INLINE {
    const auto sum = sums[i];
    asm volatile("" ::"x"(sum));
  });
  return 2.0 * 32 * kChains * static_cast<double>(turns);
}
}  // namespace avxvnni
}  // namespace
TROIKA_TARGET_END

TROIKA_TARGET_BEGIN("avx2,fma,avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx512bf16")
namespace {
namespace avx512 {
#include "kernels/simd/unroll.inl"
template <typename Vector, typename Operand, typename Step>
TROIKA_INLINE inline void loop(size_t turns, Vector start, Operand a, Step step) {
  Vector sums[kChains];
  asm volatile("" : "+v"(a));
  // Each operand is unknown by itself: the compiler would compute sums only once that begin alike
  // and grow alike.
  unrolled<kChains>([&](auto i) TROIKA_INLINE {
    sums[i] = start;
    asm volatile("" : "+v"(sums[i]));
  });
  for (size_t turn = 0; turn < turns; ++turn) {
    unrolled<kChains>([&](auto i) TROIKA_INLINE { sums[i] = step(sums[i], a); });
  }
  unrolled<kChains>([&](auto i) TROIKA_INLINE {
    const auto sum = sums[i];
    asm volatile("" ::"v"(sum));
  });
}

double f32(size_t turns) {
  loop(turns, _mm512_setzero_ps(), _mm512_set1_ps(0.5f),
       [&](__m512 sum, __m512 a) TROIKA_INLINE { return _mm512_fmadd_ps(a, a, sum); });
  return 2.0 * 16 * kChains * static_cast<double>(turns);
}
double int8(size_t turns) {
  loop(turns, _mm512_setzero_si512(), _mm512_set1_epi8(3),
       [&](__m512i sum, __m512i a) TROIKA_INLINE { return _mm512_dpbusd_epi32(sum, a, a); });
  return 2.0 * 64 * kChains * static_cast<double>(turns);
}
// The pairs of bf16 may have any bits: here 1.0 twice.
double bf16(size_t turns) {
  loop(turns, _mm512_setzero_ps(), _mm512_set1_epi32(0x3f803f80),
       [&](__m512 sum, __m512i a)
           TROIKA_INLINE { return _mm512_dpbf16_ps(sum, (__m512bh)a, (__m512bh)a); });
  return 2.0 * 32 * kChains * static_cast<double>(turns);
}
// See the avx2 form.
uint64_t read(const std::byte* from, size_t bytes) {
  __m512i sums[4];
  unrolled<4>([&](auto i) TROIKA_INLINE { sums[i] = _mm512_setzero_si512(); });
  for (size_t i = 0; i + 256 <= bytes; i += 256) {
    const std::byte* p = from + i;
    unrolled<4>([&](auto j) TROIKA_INLINE { __builtin_prefetch(p + 4096 + 64 * j, 0, 2); });
    unrolled<4>([&](auto j) TROIKA_INLINE {
      sums[j] = _mm512_add_epi64(sums[j], _mm512_loadu_si512(p + 64 * j));
    });
  }
  const __m512i sum =
      _mm512_add_epi64(_mm512_add_epi64(sums[0], sums[1]), _mm512_add_epi64(sums[2], sums[3]));
  uint64_t words[8];
  _mm512_storeu_si512(words, sum);
  uint64_t total = 0;
  for (const uint64_t word : words) total += word;
  return total;
}
}  // namespace avx512
}  // namespace
TROIKA_TARGET_END

TROIKA_TARGET_BEGIN("amx-tile,amx-int8,amx-bf16")
namespace {
namespace amx {

#include "kernels/x86/amx_config.inl"

// There are four sums, and two tiles of either operand.
void begin() {
  configure_tiles();
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  _tile_zero(4);
  _tile_zero(5);
  _tile_zero(6);
  _tile_zero(7);
}

// A turn has 4 products of 16 x 16 sums over 64 bytes each. The instructions are volatile already.
double int8(size_t turns) {
  begin();
  for (size_t turn = 0; turn < turns; ++turn) {
    _tile_dpbusd(0, 4, 6);
    _tile_dpbusd(1, 4, 7);
    _tile_dpbusd(2, 5, 6);
    _tile_dpbusd(3, 5, 7);
  }
  _tile_release();
  return 2.0 * 4 * 16 * 16 * 64 * static_cast<double>(turns);
}
double bf16(size_t turns) {
  begin();
  for (size_t turn = 0; turn < turns; ++turn) {
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
  _tile_release();
  return 2.0 * 4 * 16 * 16 * 32 * static_cast<double>(turns);
}
}  // namespace amx
}  // namespace
TROIKA_TARGET_END

void add_probes(CpuFeatures available, bool without_matrix, Probes* probes) {
  const auto has = [&](auto... features) { return available.has_all(CpuFeatures(features...)); };
  using enum CpuFeature;
  if (has(kAvx2, kFma)) {
    probes->read = avx2::read;
    probes->f32 = avx2::f32;
    probes->int8 = avx2::int8;
    probes->f32_name = probes->int8_name = "avx2";
  }
  if (has(kAvx2, kAvxVnni)) {
    probes->int8 = avxvnni::int8;
    probes->int8_name = "avx_vnni";
  }
  if (has(kAvx512f, kAvx512bw, kAvx512vl, kAvx512dq)) {
    probes->read = avx512::read;
    probes->f32 = avx512::f32;
    probes->f32_name = "avx512";
    if (has(kAvx512Vnni)) {
      probes->int8 = avx512::int8;
      probes->int8_name = "avx512_vnni";
    }
    if (has(kAvx512Bf16)) {
      probes->bf16 = avx512::bf16;
      probes->bf16_name = "avx512_bf16";
    }
  }
  if (without_matrix) return;
  if (has(kAmxInt8)) {
    probes->int8 = amx::int8;
    probes->int8_name = "amx";
  }
  if (has(kAmxBf16)) {
    probes->bf16 = amx::bf16;
    probes->bf16_name = "amx";
  }
}

}  // namespace troika::kernels::x86

#endif  // __x86_64__
