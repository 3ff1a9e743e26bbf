// Qwen 1.5, 2 and 2.5: Llama's block with biases on q, k and v and half-split rope.
#include "model/arch/arch.h"
#include "model/builder.h"

namespace troika::model::arch {

Blueprint qwen2(const Metadata& metadata) {
  Builder b(metadata);
  b.blueprint().rope.is_half_split = true;

  const ValueId x = b.embed();
  for (int layer = 0; layer < b.blueprint().n_layers; ++layer) {
    b.begin_layer(layer);
    const ValueId h = b.rms_norm(x, "normed", b.layer_name("attn_norm"));
    b.add_to(x, b.attention_block(h));
    const ValueId g = b.rms_norm(x, "normed", b.layer_name("ffn_norm"));
    b.add_to(x, b.gated_ffn(g, Activation::kSilu));
  }
  b.head(b.rms_norm(b.select(x), "output_normed", "output_norm"));
  return b.finish();
}

}  // namespace troika::model::arch
