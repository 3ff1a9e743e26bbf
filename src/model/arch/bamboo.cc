// Bamboo: Mistral's block with ReLU on both factors of the gate, and in the files of PowerInfer
// predictors of the active neurons.
#include "model/arch/arch.h"
#include "model/arch/llama_like.h"

namespace troika::model::arch {

Blueprint bamboo(const Metadata& metadata) {
  FfnFacts ffn;
  ffn.activation = read_activation(metadata, "drelu");
  return llama_like(metadata, /*is_half_split=*/false, ffn);
}

}  // namespace troika::model::arch
