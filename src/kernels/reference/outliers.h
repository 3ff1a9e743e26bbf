// Plain versions of the products in kernels/outliers.h.
#pragma once

#include "kernels/kernels.h"

namespace troika::kernels::reference {

size_t quantize_int8_within(const float* x, Int8Range range, std::byte* y, Outlier* outliers,
                            size_t k);
void add_outliers(const Int8Panels& weight, const OutlierProduct& product);
void multiply_channels(const ChannelProduct& product);

}  // namespace troika::kernels::reference
