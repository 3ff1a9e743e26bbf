// Phi-2: one layer norm feeds attention and FFN side by side, only a part of each head is rotated,
// biases everywhere.
#include "model/arch/arch.h"
#include "model/builder.h"

namespace troika::model::arch {

Blueprint phi2(const Metadata& metadata) {
  Builder b(metadata);
  b.blueprint().ropes.front().is_half_split = true;

  const ValueId x = b.embed();
  for (int layer = 0; layer < b.blueprint().n_layers; ++layer) {
    b.begin_layer(layer);
    const ValueId h = b.layer_norm(x, "normed", b.layer_name("attn_norm"));
    const ValueId attended = b.attention_block(h);
    const ValueId fed = b.plain_ffn(h, Activation::kGelu);
    b.add_to(x, attended);
    b.add_to(x, fed);
  }
  b.head(b.layer_norm(b.select(x), "output_normed", "output_norm"));
  return b.finish();
}

}  // namespace troika::model::arch
