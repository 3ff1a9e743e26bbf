// Llama 2, 3 and 3.x, Mistral, Mixtral, SmolLM, TinyLlama; with `feed_forward_activation` the gated
// ReLU models and TurboSparse-Mixtral. Optional biases, tied embeddings, experts and the frequency
// divisors of Llama 3 are read where the file has them.
#include "model/arch/arch.h"
#include "model/arch/llama_like.h"

namespace troika::model::arch {

Blueprint llama(const Metadata& metadata) {
  // Only sparse models have predictors, and their files do not name the activation.
  const bool is_sparse = metadata.has_tensor("blk.0.fc1.weight");
  const Activation activation = read_activation(metadata, is_sparse ? "relu" : "silu");
  return llama_like(metadata, /*is_half_split=*/false, read_experts(metadata, activation, true));
}

}  // namespace troika::model::arch
