// Gemma 1, 2 and 3 (text): embeddings scaled by the square root of the width, a GELU gate, wide
// heads, half-split rope. Norm weights of the files already contain the 1 that the model adds.
#include <fmt/format.h>

#include <cmath>

#include "base/error.h"
#include "model/arch/arch.h"
#include "model/builder.h"
#include "model/window.h"

namespace troika::model::arch {
namespace {

FfnFacts gelu_ffn() {
  FfnFacts ffn;
  ffn.activation = Activation::kGelu;
  return ffn;
}

ValueId scaled_embedding(Builder& b) {
  return b.embed(std::sqrt(static_cast<float>(b.blueprint().width)));
}

// Reads the base of a rotation under the first of two keys, of which the second is Ollama's.
double read_base(const Metadata& metadata, const char* key, const char* other, double fallback) {
  return read_rope_base(metadata, metadata.has(key) ? key : other, fallback);
}

// Returns the factor of scores. Models of 27 billion weights divide by the square root of the
// length that a head would have if all heads together were as wide as the model. Files do not name
// these models, so their number of layers tells them.
float attention_scale(const Metadata& metadata, const Blueprint& b, int n_layers_of_27b) {
  const int length = b.n_layers == n_layers_of_27b ? b.width / b.n_heads : b.head_dim;
  if (length < 1) {
    throw Error(fmt::format(
        "{}: it has {} heads, but rows of {} elements. The file is damaged; download it again.",
        metadata.file().path(), b.n_heads, b.width));
  }
  return 1.0f / std::sqrt(static_cast<float>(length));
}

}  // namespace

Blueprint gemma(const Metadata& metadata) {
  Builder b(metadata);
  b.blueprint().ropes.front().is_half_split = true;
  const ValueId x = scaled_embedding(b);
  b.rms_norm_blocks(x, gelu_ffn());
  b.rms_norm_head(x);
  return b.finish();
}

// Reads Gemma 2: norms stand before and behind, every second block sees a window, scores and logits
// are capped.
Blueprint gemma2(const Metadata& metadata) {
  constexpr int kDefaultWindow = 4096, kPeriod = 2, kLayersOf27b = 46;
  Builder b(metadata);
  Blueprint& blueprint = b.blueprint();
  blueprint.ropes.front().is_half_split = true;
  const std::vector<bool> windowed = read_windowed_blocks(metadata, blueprint.n_layers, kPeriod);
  AttentionFacts whole;
  whole.scale = attention_scale(metadata, blueprint, kLayersOf27b);
  whole.soft_cap = read_soft_cap(metadata, "attn_logit_softcapping", 50.0);
  AttentionFacts window = whole;
  window.window = read_window(metadata, kDefaultWindow);
  const ValueId x = scaled_embedding(b);
  b.rms_norm_blocks(x, gelu_ffn(), [&](int layer) {
    return windowed[static_cast<size_t>(layer)] ? window : whole;
  });
  b.rms_norm_head(x);
  b.soft_cap(blueprint.logits, read_soft_cap(metadata, "final_logit_softcapping", 30.0));
  return b.finish();
}

// Reads Gemma 3: norms stand before and behind and on the heads of q and k; five of six blocks see
// a window, and rotate with a base of their own.
Blueprint gemma3(const Metadata& metadata) {
  constexpr int kPeriod = 6, kLayersOf27b = 62;
  constexpr double kWholeBase = 1e6, kLocalBase = 1e4;  // of all published models
  Builder b(metadata);
  Blueprint& blueprint = b.blueprint();
  blueprint.ropes.front().is_half_split = true;
  blueprint.ropes.front().base =
      read_base(metadata, "rope.freq_base", "rope.global.freq_base", kWholeBase);
  AttentionFacts whole;
  whole.scale = attention_scale(metadata, blueprint, kLayersOf27b);
  AttentionFacts window = whole;
  window.window = read_window(metadata, 0);
  std::vector<bool> windowed(static_cast<size_t>(blueprint.n_layers));
  if (window.window > 0) {
    windowed = read_windowed_blocks(metadata, blueprint.n_layers, kPeriod);
    Rope local;
    local.n_dims = blueprint.ropes.front().n_dims;
    local.is_half_split = true;
    local.base = read_base(metadata, "rope.freq_base_swa", "rope.local.freq_base", kLocalBase);
    window.rope = b.add_rope(local);
  }
  const ValueId x = scaled_embedding(b);
  b.rms_norm_blocks(x, gelu_ffn(), [&](int layer) {
    return windowed[static_cast<size_t>(layer)] ? window : whole;
  });
  b.rms_norm_head(x);
  b.soft_cap(blueprint.logits, read_soft_cap(metadata, "final_logit_softcapping", 0.0));
  return b.finish();
}

}  // namespace troika::model::arch
