#include "lanes/vendor/sum_proof.h"

#include <fmt/format.h>

#include <algorithm>
#include <climits>
#include <cmath>
#include <cstring>
#include <vector>

#include "base/error.h"
#include "base/random.h"
#include "tensor/half.h"

namespace troika::lanes::openvino {
namespace {

constexpr int kMiddleLevel = 128;
constexpr int kLargestLevel = 127;

// Draws small numbers, the same in every run.
class Chance {
 public:
  int below(int n) {
    return static_cast<int>(random_bits(/*key=*/1, n_drawn_++) % static_cast<uint64_t>(n));
  }

 private:
  uint64_t n_drawn_ = 0;
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
  const ProductWeights weights(
      library, shape, [&](std::byte* to) { std::memcpy(to, levels.data(), levels.size()); });
  ProductGraph graph(library, device, weights, shape.n_tokens);
  std::vector<uint8_t> x(k * static_cast<size_t>(shape.n_tokens));
  std::vector<float> y(n_rows * static_cast<size_t>(shape.n_tokens));
  fill_extremes(shape, levels, x.data());
  return graph.run(x.data(), y.data()) && has_exact_sums(shape, levels, x.data(), y.data());
}

// Some tokens and rows show how a device adds, and are little work beside compiling.
constexpr size_t kTriedEnd = 3, kTriedRows = 32;

// Says whether `is_right(token, row)` holds for some tokens and rows. They reach from the first to
// the last, because a device may compute the last ones differently. The first tokens and the last
// ones have all forms of fill_extremes.
template <typename IsRight>
bool are_right(const ProductShape& shape, const IsRight& is_right) {
  const auto n_tokens = static_cast<size_t>(shape.n_tokens);
  const auto n_rows = static_cast<size_t>(shape.n_rows);
  const size_t n_tried_rows = std::min(n_rows, kTriedRows);
  for (size_t t = 0; t < n_tokens; ++t) {
    if (t >= kTriedEnd && t + kTriedEnd < n_tokens) continue;
    for (size_t i = 0; i < n_tried_rows; ++i) {
      const size_t row = n_tried_rows == 1 ? 0 : i * (n_rows - 1) / (n_tried_rows - 1);
      if (!is_right(t, row)) return false;
    }
  }
  return true;
}

// Says whether y is as near to the sum as it must be. A sum that is not a number is not judged.
bool is_near(const uint16_t* w, const uint16_t* x, size_t k, float y) {
  constexpr double kStep = 1.0 / 256;  // bf16 keeps 8 bits
  constexpr double kNothing = 1e-30;   // numbers as small as this may become 0 on a device
  double sum = 0.0, size = 0.0;
  for (size_t i = 0; i < k; ++i) {
    const double product = double{tensor::bf16_to_f32(w[i])} * tensor::bf16_to_f32(x[i]);
    sum += product;
    size += std::fabs(product);
  }
  return !std::isfinite(sum) || std::fabs(y - sum) <= kStep * size + kNothing;
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
  const auto k = static_cast<size_t>(shape.k), n_rows = static_cast<size_t>(shape.n_rows);
  return are_right(shape, [&](size_t t, size_t row) {
    const int8_t* const w = levels.data() + row * k;
    int32_t sum = 0;
    for (size_t i = 0; i < k; ++i) sum += (x[t * k + i] - kMiddleLevel) * w[i];
    return y[t * n_rows + row] == static_cast<float>(sum);
  });
}

int most_exact_sum(const std::shared_ptr<const Library>& library, const std::string& device) {
  if (!adds_exactly(library, device, {8, 256, 48})) {
    throw Error(fmt::format(
        "The device {} of OpenVINO {} rounds sums of int8 products, so results would depend on "
        "which lane computes them. Leave it out of ‹lanes›.",
        device, library->version()));
  }
  // A device may round parts of a long row's sum to floats; only long rows show that.
  const bool are_whole =
      adds_exactly(library, device, {8, 5000, 48}) && adds_exactly(library, device, {8, 11008, 48});
  return are_whole ? INT_MAX : kMostExactSum;
}

void fill_bf16(const ProductShape& shape, uint16_t* x) {
  constexpr int kExponents = 8, kLeastExponent = 124, kMantissas = 128;
  const size_t n = static_cast<size_t>(shape.n_tokens) * static_cast<size_t>(shape.k);
  Chance chance;
  for (size_t i = 0; i < n; ++i) {
    const int exponent = kLeastExponent + chance.below(kExponents);
    x[i] = static_cast<uint16_t>(chance.below(2) << 15 | exponent << 7 | chance.below(kMantissas));
  }
}

bool has_near_sums(const ProductShape& shape, std::span<const uint16_t> weight, const uint16_t* x,
                   const float* y) {
  const auto k = static_cast<size_t>(shape.k), n_rows = static_cast<size_t>(shape.n_rows);
  return are_right(shape, [&](size_t t, size_t row) {
    return is_near(weight.data() + row * k, x + t * k, k, y[t * n_rows + row]);
  });
}

}  // namespace troika::lanes::openvino
