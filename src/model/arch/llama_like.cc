#include "model/arch/llama_like.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "model/limits.h"
#include "model/window.h"

namespace troika::model::arch {
namespace {

void check_whole_rotation(const Metadata& metadata, const Blueprint& b) {
  const int n_dims = b.ropes.front().n_dims;
  if (n_dims == b.head_dim) return;
  throw Error(fmt::format(
      "{}: '{}' says that {} of {} elements of a head are rotated, but models of this "
      "architecture rotate all. The file was converted wrongly; convert it again.",
      metadata.file().path(), metadata.full_key("rope.dimension_count"), n_dims, b.head_dim));
}

// Returns the context within which a sliding window hides nothing: no block of these models has one
// here.
int context_in_window(const Metadata& metadata, const Blueprint& b) {
  const int window = read_window(metadata, 0);
  return window > 0 ? std::min(window, b.trained_context) : b.trained_context;
}

}  // namespace

Blueprint llama_like(const Metadata& metadata, bool is_half_split, const FfnFacts& ffn) {
  Builder b(metadata);
  check_whole_rotation(metadata, b.blueprint());
  b.blueprint().trained_context = context_in_window(metadata, b.blueprint());
  b.blueprint().ropes.front().is_half_split = is_half_split;
  const ValueId x = b.embed();
  b.rms_norm_blocks(x, ffn);
  b.rms_norm_head(x);
  return b.finish();
}

FfnFacts read_experts(const Metadata& metadata, Activation activation, bool normalizes_shares) {
  constexpr int kSoftmax = 1;
  FfnFacts part;
  part.activation = activation;
  part.normalizes_shares = metadata.flag("expert_weights_norm", normalizes_shares);
  part.expert_width = metadata.integer("expert_feed_forward_length", 0, kMostWidth, 0);
  const double scale = metadata.number("expert_weights_scale", 1.0);
  if (scale < 0.0 || scale > 1e3) {
    throw Error(
        fmt::format("{}: '{}' is {}, but must lie between 0 and 1000. The file is damaged; convert "
                    "or download it again.",
                    metadata.file().path(), metadata.full_key("expert_weights_scale"), scale));
  }
  if (scale > 0.0) part.share_scale = static_cast<float>(scale);  // 0: the file has no factor
  if (metadata.integer("expert_gating_func", 0, 100, kSoftmax) > kSoftmax) {
    throw Error(
        fmt::format("{}: experts are chosen by function {} ('{}'); this program knows softmax, "
                    "which is 1. Use a model whose experts are chosen by softmax.",
                    metadata.file().path(), metadata.integer("expert_gating_func", 0, 100),
                    metadata.full_key("expert_gating_func")));
  }
  return part;
}

}  // namespace troika::model::arch
