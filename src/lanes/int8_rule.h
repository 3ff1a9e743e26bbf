// How a product of a prompt takes its activations as int8. The rule is fixed when its executable is
// built.
#pragma once

#include <cstddef>
#include <vector>

#include "kernels/kernels.h"
#include "kernels/outliers.h"

namespace troika::lanes {

struct Int8Rule {
  enum class Kind : uint8_t {
    kToken,  // the token's largest magnitude becomes 127
    kLimit,  // `range` becomes 127
    kSplit,  // channels from kSplitLimit on are taken out whole (LLM.int8())
    kGroup,  // groups of 32 have scales of their own; so have the weights
  };
  Kind kind = Kind::kToken;
  kernels::Int8Range range{};
  bool has_shadow = false;         // kLimit: what exceeds the limit is multiplied in float (N4)
  const float* factors = nullptr;  // (k): activations are multiplied with these first (SmoothQuant)

  bool takes_outliers() const { return has_shadow || kind == Kind::kSplit; }
};

// Is the threshold that LLM.int8() uses for all models.
inline constexpr float kSplitLimit = 6.0f;

// There is a rule for each weight. Products that read the same activation have the same rule.
using Int8Rules = std::vector<Int8Rule>;

// Brings the k activations of a token into int8 as products of the rule take them
// (`kernels::int8_token`). `scratch` has room for k floats. Returns how many were taken out, which
// then stand in `outliers`; it may be null where the rule takes none.
size_t quantize_token(const kernels::Table& kernels, const Int8Rule& rule, const float* x, size_t k,
                      float* scratch, std::byte* out, kernels::Outlier* outliers);

}  // namespace troika::lanes
