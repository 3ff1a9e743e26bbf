// troika_product_bench [TOKENS ...]: measures every contender for the products of a prompt, over
// the shapes of two models, on one thread. Prints operations per second (a multiplication and an
// addition are two), the fraction of what the processor reaches in registers with the instructions
// of the same kind, and the ratio to the plain reference in the same run. Times are those of the
// thread, so that other programs disturb them less.
#include <fmt/format.h>
#include <time.h>

#include <algorithm>
#include <cstdlib>

#include "bench/product/contender.h"
#include "bench/weights.h"
#include "kernels/probe.h"

namespace troika::bench {
namespace {

constexpr ProductShape kShapes[] = {
    {"qwen2.5-1.5b q,o", 1536, 1536},     {"qwen2.5-1.5b k,v", 256, 1536},
    {"qwen2.5-1.5b gate,up", 8960, 1536}, {"qwen2.5-1.5b down", 1536, 8960},
    {"llama-3.2-3b q,o", 3072, 3072},     {"llama-3.2-3b k,v", 1024, 3072},
    {"llama-3.2-3b gate,up", 8192, 3072}, {"llama-3.2-3b down", 3072, 8192},
};

double thread_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// Returns the best of a few runs.
template <typename Body>
double best_seconds(Body body) {
  double best = 1e9, sum = 0;
  for (int i = 0; i < 5 && (i < 2 || sum < 0.3); ++i) {
    const double start = thread_seconds();
    body();
    const double seconds = thread_seconds() - start;
    best = std::min(best, seconds);
    sum += seconds;
  }
  return best;
}

// Returns operations per second in registers; 0 where there are no such instructions.
double register_rate(kernels::OperationsProbe* probe) {
  if (probe == nullptr) return 0;
  constexpr size_t kTurns = 1'000'000;
  double operations = 0;
  const double seconds = best_seconds([&] { operations = probe(kTurns); });
  return operations / seconds;
}

// Returns the rate of the plain reference, measured on 16 rows and 8 tokens.
double reference_rate(size_t k) {
  const ProductShape shape = {"", 16, k};
  const std::vector<float> x = random_floats(8 * k, 1.0f);
  std::vector<float> y(8 * 16);
  const Product product = reference_contender().prepare(shape, 8, x.data(), y.data());
  return 2.0 * 16.0 * 8.0 * static_cast<double>(k) / best_seconds(product);
}

void run(const std::vector<size_t>& token_counts) {
  const kernels::Probes probes = kernels::choose_probes(detect_cpu_features());
  const double peaks[] = {register_rate(probes.int8), register_rate(probes.bf16),
                          register_rate(probes.f32)};
  fmt::print("in registers: int8 {:.3f} TOPS ({}), bf16 {:.3f} ({}), f32 {:.3f} ({})\n",
             peaks[0] * 1e-12, probes.int8_name, peaks[1] * 1e-12, probes.bf16_name,
             peaks[2] * 1e-12, probes.f32_name);
  std::vector<Contender> contenders = {q8_contender(),
                                       q8_strips_contender("avx2", tensor::Type::kQ4_0),
                                       q8_strips_contender("avx512", tensor::Type::kQ4_0),
                                       q8_strips_contender("avx512", tensor::Type::kQ4_K),
                                       float_contender(),
                                       int8_contender("avx2"),
                                       int8_contender("avx512"),
                                       int8_contender("amx"),
                                       int8_contender("neon"),
                                       int8_unpacked_contender("avx512", tensor::Type::kQ8_0),
                                       int8_unpacked_contender("avx512", tensor::Type::kQ4_0),
                                       int8_unpacked_contender("avx512", tensor::Type::kQ4_K),
                                       bf16_contender("avx2"),
                                       bf16_contender("avx512"),
                                       bf16_contender("avx512_bf16"),
                                       bf16_contender("amx"),
                                       bf16_contender("neon")};
  for (const Contender& contender : contenders) {
    if (contender.missing != nullptr) fmt::print("{}: {}\n", contender.name, contender.missing);
  }
  fmt::print("{:<22} {:>6} {:<18} {:>8} {:>9} {:>11}\n", "shape", "tokens", "contender", "TOPS",
             "of peak", "x reference");
  for (const ProductShape& shape : kShapes) {
    const double reference = reference_rate(shape.k);
    for (const size_t n_tokens : token_counts) {
      const std::vector<float> x = random_floats(n_tokens * shape.k, 1.0f);
      std::vector<float> y(n_tokens * shape.n_rows);
      for (const Contender& contender : contenders) {
        if (contender.missing != nullptr) continue;
        const Product product = contender.prepare(shape, n_tokens, x.data(), y.data());
        const double rate =
            2.0 * static_cast<double>(shape.n_rows * shape.k * n_tokens) / best_seconds(product);
        const double peak = peaks[static_cast<size_t>(contender.peak)];
        fmt::print("{:<22} {:>6} {:<18} {:>8.3f} {:>8.1f}% {:>10.0f}x\n", shape.name, n_tokens,
                   contender.name, rate * 1e-12, peak > 0 ? 100 * rate / peak : 0.0,
                   rate / reference);
      }
    }
  }
}

}  // namespace
}  // namespace troika::bench

int main(int argc, char** argv) {
  std::vector<size_t> token_counts;
  for (int i = 1; i < argc; ++i) {
    token_counts.push_back(std::strtoul(argv[i], nullptr, 10));
  }
  if (token_counts.empty()) token_counts = {1, 8, 32, 64, 256, 512};
  troika::bench::run(token_counts);
  return 0;
}
