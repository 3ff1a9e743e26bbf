#include "kernels/probe.h"

#if defined(__x86_64__)
#include "kernels/x86/probe.h"
#elif defined(__aarch64__)
#include "kernels/arm/probe.h"
#endif

namespace troika::kernels {
namespace {

uint64_t read(const std::byte* from, size_t bytes) {
  const auto* words = reinterpret_cast<const uint64_t*>(from);
  // There are eight sums, so that the compiler's vector code waits for memory and not for
  // additions.
  uint64_t sums[8] = {};
  const size_t n_words = bytes / sizeof(uint64_t);
  for (size_t i = 0; i + 8 <= n_words; i += 8) {
    for (size_t j = 0; j < 8; ++j) sums[j] += words[i + j];
  }
  uint64_t sum = 0;
  for (const uint64_t part : sums) sum += part;
  return sum;
}

// Computes sixteen chains of additions and products, of which the compiler makes vectors.
double multiply_floats(size_t turns) {
  constexpr int kChains = 16;
  float sums[kChains];
  for (int i = 0; i < kChains; ++i) sums[i] = 1.0f + static_cast<float>(i);
  for (size_t turn = 0; turn < turns; ++turn) {
    for (float& sum : sums) sum = sum * 0.999f + 0.001f;
  }
  float total = 0;
  for (const float sum : sums) total += sum;
  return total == -1 ? 0 : 2.0 * kChains * static_cast<double>(turns);
}

}  // namespace

Probes choose_probes(CpuFeatures available, bool without_matrix) {
  Probes probes;
  probes.read = read;
  probes.f32 = multiply_floats;
  probes.f32_name = "plain";
#if defined(__x86_64__)
  x86::add_probes(available, without_matrix, &probes);
#elif defined(__aarch64__)
  arm::add_probes(available, &probes);
#endif
  (void)available, (void)without_matrix;
  return probes;
}

}  // namespace troika::kernels
