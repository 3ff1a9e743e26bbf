// Prints what single neurons cost whose weights lie anywhere in memory (P8): rows of a product, and
// columns of the one behind it, with the rate at which they are read.
//
//   troika_neuron_bench [THREADS [WIDTH [NEURONS [KERNELS]]]]
//
// Without arguments: 2 threads, blocks of 14336 neurons of 4096, the fastest kernels.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string_view>

#include "base/cpu_features.h"
#include "kernels/choose.h"
#include "measure/neuron_times.h"
#include "weights/neurons/columns.h"

int main(int argc, char** argv) {
  using namespace troika;
  const int n_threads = argc > 1 ? std::atoi(argv[1]) : 2;
  const int width = argc > 2 ? std::atoi(argv[2]) : 4096;
  const int n_neurons = argc > 3 ? std::atoi(argv[3]) : 14336;
  if (n_threads < 1 || width < 256 || n_neurons < 256 || width % 256 != 0 || n_neurons % 256 != 0) {
    fmt::print(stderr, "THREADS is at least 1; WIDTH and NEURONS are multiples of 256.\n");
    return 2;
  }
  const std::string_view only = argc > 4 ? argv[4] : "";
  const auto known = kernels::implementations();
  if (!only.empty() &&
      std::none_of(known.begin(), known.end(), [&](const auto& one) { return only == one.name; })) {
    fmt::print(stderr, "There are no kernels '{}'.\n", only);
    return 2;
  }
  const kernels::Kernels kernels = kernels::choose(detect_cpu_features(), only);
  Team team(n_threads);
  fmt::print(
      "| weights | live | row, us | GB/s | column, us | GB/s with its share of scales |\n"
      "|---|---|---|---|---|---|\n");
  for (const tensor::Type type : {tensor::Type::kQ4_0, tensor::Type::kQ8_0, tensor::Type::kQ4_K}) {
    const auto matrix = [&](int n_rows, int k) {
      return weights::Matrix{type, nullptr, tensor::row_bytes(type, static_cast<size_t>(k)), n_rows,
                             k};
    };
    const weights::Matrix rows = matrix(n_neurons, width), down = matrix(width, n_neurons);
    const weights::ColumnLayout layout = weights::column_layout(down);
    for (const double live : {0.05, 0.15, 0.3}) {
      const auto measured = measure::measure_neurons(kernels.table, plan::Activations::kQ8,
                                                     {rows, rows, down, live}, team);
      if (!measured) {
        fmt::print(stderr, "Memory is too short.\n");
        return 1;
      }
      const measure::NeuronTimes& times = *measured;
      // Nobody reads the scales of a group without a live neuron.
      const double read = 1.0 - std::pow(1.0 - live, static_cast<double>(layout.group));
      const double column_bytes =
          static_cast<double>(layout.column_bytes) +
          static_cast<double>(layout.plane_bytes()) * read / (live * n_neurons);
      fmt::print("| {} | {:.0f} % | {:.2f} | {:.1f} | {:.2f} | {:.1f} |\n", tensor::type_name(type),
                 100 * live, times.up_us, static_cast<double>(rows.row_bytes) / times.up_us * 1e-3,
                 times.down_us, column_bytes / times.down_us * 1e-3);
    }
  }
}
