// PhoneLM: Llama's block with half-split rope and ReLU in the gate.
#include "model/arch/arch.h"
#include "model/arch/llama_like.h"

namespace troika::model::arch {

Blueprint phonelm(const Metadata& metadata) {
  FfnFacts ffn;
  ffn.activation = read_activation(metadata, "relu");
  return llama_like(metadata, /*is_half_split=*/true, ffn);
}

}  // namespace troika::model::arch
