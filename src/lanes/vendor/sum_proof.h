// Whether a device adds whole numbers exactly: looked at, because what it makes of a graph is its
// own affair. A processor without the instruction may multiply floats, or add pairs of products in
// 16 bits.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "lanes/vendor/product_graph.h"

namespace troika::lanes::openvino {

// Levels of activations, (n_tokens, k), that make sums large and their last digits arbitrary: by
// the signs of some of the weight's rows, and the largest of both signs.
void fill_extremes(const ProductShape& shape, std::span<const int8_t> levels, uint8_t* x);

// Whether sums of some tokens and of rows spread over all are right. `levels` is (n_rows, k).
bool has_exact_sums(const ProductShape& shape, std::span<const int8_t> levels, const uint8_t* x,
                    const float* y);

// The largest sum of a device's products that is exact, whatever the numbers are: any that fits 32
// bits, or kMostExactSum. Throws Error where short ones are not.
int most_exact_sum(const std::shared_ptr<const Library>& library, const std::string& device);

}  // namespace troika::lanes::openvino
