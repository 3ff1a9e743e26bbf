// Architectures whose ops and shapes are known, so that plans and virtual phones can time them, but
// whose results nothing has been compared with: files of them are not run.
#include "model/arch/arch.h"
#include "model/builder.h"

namespace troika::model::arch {
namespace {

Blueprint rms_norm_model(const Metadata& metadata, bool is_half_split, const char* activation) {
  Builder b(metadata);
  b.blueprint().rope.is_half_split = is_half_split;
  const Activation named = read_activation(metadata, activation);
  const ValueId x = b.embed();
  b.rms_norm_blocks(x, named);
  b.rms_norm_head(x);
  return b.finish();
}

}  // namespace

// Llama's block, both factors of the gate through ReLU.
Blueprint bamboo(const Metadata& metadata) { return rms_norm_model(metadata, false, "drelu"); }

Blueprint internlm2(const Metadata& metadata) { return rms_norm_model(metadata, false, "silu"); }

Blueprint phonelm(const Metadata& metadata) { return rms_norm_model(metadata, true, "relu"); }

// Qwen 2 without biases, and a norm for each head of queries and keys.
Blueprint qwen3(const Metadata& metadata) { return rms_norm_model(metadata, true, "silu"); }

}  // namespace troika::model::arch
