// Declares the ways to compute the same product of a prompt, one file for each.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "kernels/kernels.h"

namespace troika::bench {

struct ProductShape {
  const char* name;  // "qwen2.5-1.5b gate"
  size_t n_rows, k;
};

enum class Peak { kInt8, kBf16, kF32 };

// A product of a matrix with n tokens. Packed weights are prepared before the call. Bringing the
// activations into form is part of the call, and unpacking weights on the fly too.
using Product = std::function<void()>;

struct Contender {
  std::string name;
  Peak peak;              // the register peak that the product is measured against
  const char* missing{};  // tells why it cannot run here; null where it can
  // x: (n_tokens, k), y: (n_tokens, n_rows). The weights are seeded and differ from call to call.
  std::function<Product(const ProductShape&, size_t n_tokens, const float* x, float* y)> prepare;
};

Contender reference_contender();
Contender q8_contender();
// Multiplies rows in strips with prepared tokens.
Contender q8_strips_contender(const char* implementation, tensor::Type type);
Contender float_contender();
Contender int8_contender(const char* implementation);
// Computes from weights of this type, unpacked a few strips at a time.
Contender int8_unpacked_contender(const char* implementation, tensor::Type type);
Contender bf16_contender(const char* implementation);

// Says whether this processor can run the kernels up to `implementation`.
bool can_run(const char* implementation);
// Returns the kernels up to `implementation`.
const kernels::Table& kernels_of(const char* implementation);

// Returns seeded weights, which are kept until another shape or type is asked for.
kernels::MatmulWeight weights_of(const ProductShape& shape,
                                 tensor::Type type = tensor::Type::kQ8_0);

}  // namespace troika::bench
