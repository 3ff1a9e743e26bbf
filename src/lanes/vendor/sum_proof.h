// Finds out how a device adds: whole numbers exactly or not, and floats near what they should be or
// not. This must be tried, because the device decides itself how it computes
// a graph: a processor without the needed instruction may multiply floats, or add pairs of products
// in 16 bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "lanes/vendor/product_graph.h"

namespace troika::lanes::openvino {

// Fills x with levels of activations, (n_tokens, k), that make sums large and their last digits
// arbitrary: they follow the signs of some of the weight's rows, and are the largest of both signs.
void fill_extremes(const ProductShape& shape, std::span<const int8_t> levels, uint8_t* x);

// Says whether sums are right, for some tokens and rows, from the first to the last. `levels` is
// (n_rows, k).
bool has_exact_sums(const ProductShape& shape, std::span<const int8_t> levels, const uint8_t* x,
                    const float* y);

// Returns the largest sum of a device's products that is exact, whatever the numbers are: any that
// fits 32 bits, or kMostExactSum. Throws Error where even short sums are not exact.
int most_exact_sum(const std::shared_ptr<const Library>& library, const std::string& device);

// Fills x with activations in bf16, (n_tokens, k), whose sums have arbitrary last digits.
void fill_bf16(const ProductShape& shape, uint16_t* x);

// Says whether sums of a product in bf16 are as near to the exact ones as roundings to bf16 explain
// (H13), for some tokens and rows, from the first to the last. `weight` is (n_rows, k).
bool has_near_sums(const ProductShape& shape, std::span<const uint16_t> weight, const uint16_t* x,
                   const float* y);

}  // namespace troika::lanes::openvino
