// troika_record: measures kernels as multiples of the time that it takes to read their operands
// from memory once, on one thread. 1 is the best that decoding can reach.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "bench/record/record.h"

namespace troika::bench {

void read(const kernels::Probes& probes, const std::byte* from, size_t bytes) {
  volatile uint64_t sink = probes.read(from, bytes);
  (void)sink;
}

namespace {

struct Flags {
  std::string kernels;
  std::string what = "all";
  int n_pairs = 40;
  bool json = false;
};

void record(const Flags& flags) {
  const CpuFeatures available = detect_cpu_features();
  const kernels::Probes probes = kernels::choose_probes(available);
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  const auto add = [&](const Row& row) {
    if (flags.json) {
      rows.push_back({{"kernels", row.kernels},
                      {"what", row.what},
                      {"median", row.ratio.median},
                      {"low", row.ratio.low},
                      {"high", row.ratio.high}});
    } else {
      fmt::print("{:<8} {:<60} {:>7.2f} {:>7.2f} {:>7.2f}\n", row.kernels, row.what,
                 row.ratio.median, row.ratio.low, row.ratio.high);
      std::fflush(stdout);
    }
  };
  if (!flags.json) {
    fmt::print("Time as a multiple of reading the operands from memory, one thread, {} pairs\n",
               flags.n_pairs);
    fmt::print("{:<8} {:<60} {:>7} {:>7} {:>7}\n", "kernels", "", "median", "low", "high");
  }
  for (const kernels::Implementation& implementation : kernels::implementations()) {
    if (!available.has_all(implementation.needs)) continue;
    // The reference is not written to be fast.
    if (flags.kernels.empty() && std::string_view(implementation.name) == "reference") continue;
    if (!flags.kernels.empty() && flags.kernels != implementation.name) continue;
    const kernels::Kernels chosen = kernels::choose(available, implementation.name);
    const Recorder recorder = {chosen, probes, implementation.name, flags.n_pairs, add};
    if (flags.what != "attention") record_products(recorder);
    if (flags.what != "products") record_attention(recorder);
  }
  if (flags.json) fmt::print("{}\n", rows.dump(2));
}

}  // namespace
}  // namespace troika::bench

int main(int argc, char** argv) {
  CLI::App app("Ratios of kernel times to the time of reading what they read");
  troika::bench::Flags flags;
  app.add_option("--kernels", flags.kernels, "Only these: avx512, avx2, neon or reference");
  app.add_option("--what", flags.what, "products, attention or all")
      ->check(CLI::IsMember({"products", "attention", "all"}));
  app.add_option("--pairs", flags.n_pairs, "Pairs of which the median is taken")
      ->check(CLI::Range(1, 100000));
  app.add_flag("--json", flags.json, "Print one JSON array");
  CLI11_PARSE(app, argc, argv);
  troika::bench::record(flags);
  return 0;
}
