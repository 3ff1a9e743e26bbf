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
  for (int layer = 0; layer < b.blueprint().n_layers; ++layer) {
    b.begin_layer(layer);
    const ValueId h = b.rms_norm(x, "normed", b.layer_name("attn_norm"));
    b.add_to(x, b.attention_block(h));
    const ValueId g = b.rms_norm(x, "normed", b.layer_name("ffn_norm"));
    b.add_to(x, b.gated_ffn(g, Activation::kGelu));
  }
  b.head(b.rms_norm(b.select(x), "output_normed", "output_norm"));
  return b.finish();
}

}  // namespace troika::model::arch
