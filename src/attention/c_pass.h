// Computes a call of the C API, which was checked before (c_api.cc).
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "kernels/kernels.h"
#include "troika/attention.h"

struct troika_attention {
  troika::kernels::Table table;
  troika_attention_options options;
  std::vector<float> head_shares;  // (n_heads), or empty

  size_t n_group() const {
    return static_cast<size_t>(options.n_heads) / static_cast<size_t>(options.n_kv_heads);
  }
  size_t head_size() const { return static_cast<size_t>(options.head_size); }
  size_t n_kv_heads() const { return static_cast<size_t>(options.n_kv_heads); }
  double share_of(size_t head) const {
    return head_shares.empty() ? double{options.share} : double{head_shares[head]};
  }
  // Returns the mean of the group's shares. Where `above` decides what is kept, a share says only
  // whether its head keeps everything, and so it is the largest.
  double group_share(size_t kv_head) const {
    double sum = 0, largest = 0;
    for (size_t h = 0; h < n_group(); ++h) {
      const double share = share_of(kv_head * n_group() + h);
      sum += share;
      largest = std::max(largest, share);
    }
    return options.above > 0.0 ? largest : sum / static_cast<double>(n_group());
  }
};

namespace troika::attention {

// Returns how many bytes the workspace of a call must have.
size_t workspace_bytes(const troika_attention& attention, const troika_attention_call& call);
// Computes a call. REQUIRES: the workspace has workspace_bytes(). Passes on what a caller's pool
// throws.
void run_pass(const troika_attention& attention, const troika_attention_call& call);

}  // namespace troika::attention
