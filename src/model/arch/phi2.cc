// Phi-2: one layer norm feeds attention and FFN side by side, q, k and v stand in one tensor,
// only a part of each head is rotated, biases everywhere.
#include <cmath>

#include "model/arch/arch.h"
#include "model/builder.h"

namespace troika::model::arch {
namespace {

ValueId fused_attention(Builder& b, ValueId input) {
  const int n_heads = b.blueprint().n_heads;
  const int n_kv_heads = b.blueprint().n_kv_heads;
  const int head_dim = b.blueprint().head_dim;
  const int q_width = n_heads * head_dim;
  const int kv_width = n_kv_heads * head_dim;
  const std::string name = b.layer_name("attn_qkv");
  const int n_rows = q_width + 2 * kv_width;
  const ValueId q = b.linear_rows(input, "q", name, 0, q_width, n_rows);
  const ValueId k = b.linear_rows(input, "k", name, q_width, kv_width, n_rows);
  const ValueId v = b.linear_rows(input, "v", name, q_width + kv_width, kv_width, n_rows);
  b.rope(q, n_heads);
  b.rope(k, n_kv_heads);
  const auto scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(head_dim)));
  return b.linear(b.attention(q, k, v, scale), "projected", b.layer_name("attn_output"),
                  b.blueprint().width);
}

}  // namespace

Blueprint phi2(const Metadata& metadata) {
  Builder b(metadata);
  b.blueprint().rope.is_half_split = true;
  const bool is_fused = metadata.has_tensor("blk.0.attn_qkv.weight");

  const ValueId x = b.embed();
  for (int layer = 0; layer < b.blueprint().n_layers; ++layer) {
    b.begin_layer(layer);
    const ValueId h = b.layer_norm(x, "normed", b.layer_name("attn_norm"));
    const ValueId attended = is_fused ? fused_attention(b, h) : b.attention_block(h);
    const ValueId fed = b.plain_ffn(h, Activation::kGelu);
    b.add_to(x, attended);
    b.add_to(x, fed);
  }
  b.head(b.layer_norm(b.select(x), "output_normed", "output_norm"));
  return b.finish();
}

}  // namespace troika::model::arch
