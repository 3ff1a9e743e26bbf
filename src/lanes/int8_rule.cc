#include "lanes/int8_rule.h"

#include <cmath>

#include "base/error.h"

namespace troika::lanes {

size_t quantize_token(const kernels::Table& kernels, const Int8Rule& rule, const float* x, size_t k,
                      float* scratch, std::byte* out, kernels::Outlier* outliers) {
  TROIKA_ASSERT(outliers != nullptr || !rule.takes_outliers());
  if (rule.factors != nullptr) {
    for (size_t i = 0; i < k; ++i) scratch[i] = x[i] * rule.factors[i];
    x = scratch;
  }
  if (rule.kind == Int8Rule::Kind::kLimit) {
    return kernels.quantize_int8_within(x, rule.range, out, outliers, k);
  }
  size_t n_outliers = 0;
  if (rule.kind == Int8Rule::Kind::kSplit) {
    for (size_t i = 0; i < k; ++i) {
      const bool is_outlier = std::fabs(x[i]) >= kSplitLimit;
      if (is_outlier) outliers[n_outliers++] = {static_cast<uint32_t>(i), x[i]};
      scratch[i] = is_outlier ? 0.0f : x[i];
    }
    x = scratch;
  }
  kernels.quantize_int8(x, out, k);
  return n_outliers;
}

}  // namespace troika::lanes
