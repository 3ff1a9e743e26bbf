#include "lanes/vendor/sum_proof.h"

#include <fmt/format.h>

#include <algorithm>
#include <climits>
#include <vector>

#include "base/error.h"

namespace troika::lanes::openvino {
namespace {

constexpr int kMiddleLevel = 128;
constexpr int kLargestLevel = 127;

// Makes small numbers that look random, the same in every run.
class Chance {
 public:
  int below(int n) {
    state_ = state_ * 1664525u + 1013904223u;
    return static_cast<int>((state_ >> 16) % static_cast<uint32_t>(n));
  }

 private:
  uint32_t state_ = 1;
};

bool adds_exactly(const std::shared_ptr<const Library>& library, const std::string& device,
                  const ProductShape& shape) {
  const auto k = static_cast<size_t>(shape.k), n_rows = static_cast<size_t>(shape.n_rows);
  std::vector<int8_t> levels(k * n_rows);
  Chance chance;
  for (int8_t& level : levels) {
    const int size = kLargestLevel - chance.below(8);
    level = static_cast<int8_t>(chance.below(2) == 0 ? size : -size);
  }
  const ProductWeights weights(library, shape.k, shape.n_rows,
                               [&](int8_t* to) { std::copy(levels.begin(), levels.end(), to); });
  ProductGraph graph(library, device, weights, shape.n_tokens);
  std::vector<uint8_t> x(k * static_cast<size_t>(shape.n_tokens));
  std::vector<float> y(n_rows * static_cast<size_t>(shape.n_tokens));
  fill_extremes(shape, levels, x.data());
  return graph.run(x.data(), y.data()) && has_exact_sums(shape, levels, x.data(), y.data());
}

}  // namespace

void fill_extremes(const ProductShape& shape, std::span<const int8_t> levels, uint8_t* x) {
  const auto k = static_cast<size_t>(shape.k), n_rows = static_cast<size_t>(shape.n_rows);
  Chance chance;
  for (size_t t = 0; t < static_cast<size_t>(shape.n_tokens); ++t) {
    const int8_t* const w = levels.data() + t / 3 % n_rows * k;
    for (size_t i = 0; i < k; ++i) {
      const bool is_high = t % 3 == 0 ? w[i] > 0 : t % 3 == 1;
      const int size = kLargestLevel - (t % 3 == 0 ? chance.below(8) : 0);
      x[t * k + i] = static_cast<uint8_t>(kMiddleLevel + (is_high ? size : -size));
    }
  }
}

bool has_exact_sums(const ProductShape& shape, std::span<const int8_t> levels, const uint8_t* x,
                    const float* y) {
  // So many tokens and rows show whether a device rounds, and are little work beside compiling.
  constexpr size_t kTokens = 4, kRows = 32;
  const auto k = static_cast<size_t>(shape.k), n_rows = static_cast<size_t>(shape.n_rows);
  const size_t step = std::max<size_t>(1, n_rows / kRows);
  for (size_t t = 0; t < std::min(static_cast<size_t>(shape.n_tokens), kTokens); ++t) {
    for (size_t row = 0; row < n_rows; row += step) {
      const int8_t* const w = levels.data() + row * k;
      int32_t sum = 0;
      for (size_t i = 0; i < k; ++i) sum += (x[t * k + i] - kMiddleLevel) * w[i];
      if (y[t * n_rows + row] != static_cast<float>(sum)) return false;
    }
  }
  return true;
}

int most_exact_sum(const std::shared_ptr<const Library>& library, const std::string& device) {
  if (!adds_exactly(library, device, {8, 256, 48})) {
    throw Error(fmt::format(
        "The device {} of OpenVINO {} rounds sums of int8 products, so results would depend on "
        "which lane computes them. Leave it out of ‹lanes›.",
        device, library->version()));
  }
  // Where a device makes several floats of a long row's sum, long rows show it.
  const bool are_whole =
      adds_exactly(library, device, {8, 5000, 48}) && adds_exactly(library, device, {8, 11008, 48});
  return are_whole ? INT_MAX : kMostExactSum;
}

}  // namespace troika::lanes::openvino
