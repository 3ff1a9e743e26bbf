// Qwen 1.5, 2 and 2.5: Llama's block with biases on q, k and v and half-split rope.
#include "model/arch/arch.h"
#include "model/builder.h"

namespace troika::model::arch {

Blueprint qwen2(const Metadata& metadata) {
  Builder b(metadata);
  b.blueprint().rope.is_half_split = true;

  const ValueId x = b.embed();
  b.rms_norm_blocks(x, Activation::kSilu);
  b.rms_norm_head(x);
  return b.finish();
}

}  // namespace troika::model::arch
