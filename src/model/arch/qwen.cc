// Qwen 1.5, 2, 2.5 and 3, dense and of experts: Llama's block with half-split rope. Biases on q, k
// and v (up to 2.5), norms of the heads of q and k (3) and an expert that all tokens share (the
// second generation of experts) are read where the file has them.
#include "model/arch/arch.h"
#include "model/arch/llama_like.h"

namespace troika::model::arch {
namespace {

Blueprint qwen_of_experts(const Metadata& metadata, bool normalizes_shares) {
  FfnFacts ffn = read_experts(metadata, Activation::kSilu, normalizes_shares);
  if (ffn.expert_width == 0) {
    const int n_used = metadata.integer("expert_used_count", 1, 1 << 20);
    ffn.expert_width = metadata.integer("feed_forward_length", n_used, 1 << 20) / n_used;
  }
  metadata.integer("expert_count", 1, 1 << 20);  // throws where it is missing
  return llama_like(metadata, /*is_half_split=*/true, ffn);
}

}  // namespace

Blueprint qwen2(const Metadata& metadata) {
  return llama_like(metadata, /*is_half_split=*/true, {});
}

Blueprint qwen2moe(const Metadata& metadata) { return qwen_of_experts(metadata, false); }

Blueprint qwen3(const Metadata& metadata) {
  return llama_like(metadata, /*is_half_split=*/true, {});
}

Blueprint qwen3moe(const Metadata& metadata) { return qwen_of_experts(metadata, true); }

}  // namespace troika::model::arch
