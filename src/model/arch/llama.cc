// Llama 2, 3 and 3.x, Mistral, SmolLM, TinyLlama; with `feed_forward_activation` = relu the gated
// ReLU models. Optional biases, tied embeddings and the frequency divisors of Llama 3 come from
// what the file holds.
#include <fmt/format.h>

#include <cmath>

#include "base/error.h"
#include "model/arch/arch.h"
#include "model/builder.h"

namespace troika::model::arch {
namespace {

// Llama 3 slows its low frequencies down by the factors in `rope_freqs.weight`.
void read_frequency_divisors(const Metadata& metadata, Rope* rope) {
  const gguf::TensorInfo* tensor = metadata.file().find_tensor("rope_freqs.weight");
  if (tensor == nullptr) return;
  const auto n_pairs = static_cast<uint64_t>(rope->n_dims / 2);
  if (tensor->type != tensor::Type::kF32 || tensor->n_elements() != n_pairs) {
    throw Error(
        fmt::format("{}: the tensor 'rope_freqs.weight' should hold {} F32 values. The "
                    "file is damaged; convert or download it again.",
                    metadata.file().path(), n_pairs));
  }
  const auto* values = reinterpret_cast<const float*>(metadata.file().data(*tensor).data());
  rope->frequency_divisors.assign(values, values + n_pairs);
  for (const float divisor : rope->frequency_divisors) {
    if (divisor > 0.0f && std::isfinite(divisor)) continue;
    throw Error(
        fmt::format("{}: the tensor 'rope_freqs.weight' holds {}, but frequencies are divided by "
                    "it. The file is damaged; convert or download it again.",
                    metadata.file().path(), divisor));
  }
}

}  // namespace

Blueprint llama(const Metadata& metadata) {
  Builder b(metadata);
  read_frequency_divisors(metadata, &b.blueprint().rope);
  const Activation activation = read_activation(metadata);

  const ValueId x = b.embed();
  for (int layer = 0; layer < b.blueprint().n_layers; ++layer) {
    b.begin_layer(layer);
    const ValueId h = b.rms_norm(x, "normed", b.layer_name("attn_norm"));
    b.add_to(x, b.attention_block(h));
    const ValueId g = b.rms_norm(x, "normed", b.layer_name("ffn_norm"));
    b.add_to(x, b.gated_ffn(g, activation));
  }
  b.head(b.rms_norm(b.select(x), "output_normed", "output_norm"));
  return b.finish();
}

}  // namespace troika::model::arch
