// Gemma: embeddings scaled by the square root of the width, a GELU gate, wide heads, half-split
// rope, tied embeddings. The file's norm weights already contain the 1 that the model adds.
#include <cmath>

#include "model/arch/arch.h"
#include "model/builder.h"

namespace troika::model::arch {

Blueprint gemma(const Metadata& metadata) {
  Builder b(metadata);
  b.blueprint().rope.is_half_split = true;

  const ValueId x = b.embed(std::sqrt(static_cast<float>(b.blueprint().width)));
  b.rms_norm_blocks(x, Activation::kGelu);
  b.rms_norm_head(x);
  return b.finish();
}

}  // namespace troika::model::arch
