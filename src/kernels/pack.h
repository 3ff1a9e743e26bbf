// Packs weights into panels.
#pragma once

#include "kernels/kernels.h"

namespace troika::kernels {

// Rows first_row .. last_row (at most 16) of a weight as one strip of int8 panels: int8_strip_bytes
// of levels, 16 scales, 16 starts. Each row gets the scale at which its largest magnitude becomes
// 127; what is not a number becomes 0, and so does a row that holds infinity. `buffer` holds k
// floats. REQUIRES: k <= kMostInt8Depth.
void pack_int8(Type type, const MatmulWeight& weight, float* buffer, int8_t* levels, float* scales,
               int32_t* starts);

}  // namespace troika::kernels
