// Says how the queries of a prompt choose the positions that they see.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "attention/choose/scale_buckets.h"

namespace troika::plan {

enum class AttentionForm : unsigned char {
  kFull,    // sees everything
  kSparse,  // chooses one list for 64 tokens, by an estimate in int8 (S1, S2)
  kQuery,   // chooses for each query of each head, as shadowAttn does (S1, S2)
  // The next two are what shadowAttn is compared with (S8), to measure it.
  kBlock,  // chooses blocks of 64 positions for 64 tokens, by the means of their keys and queries
  kInt8,   // sees everything, with keys, values and weights in int8, a scale for each head
};

// Says whether the form computes 64 tokens together.
constexpr bool is_by_tile(AttentionForm form) {
  return form == AttentionForm::kSparse || form == AttentionForm::kBlock ||
         form == AttentionForm::kInt8;
}

// How much of the pipeline is there in which heads go over several lanes (shadowAttn, Figure 9).
// Each stage has what the ones before it have.
enum class HeadStage : unsigned char {
  kInTurn,   // begins a head when the one before has ended
  kOverlap,  // lets lanes work on several heads at once (S6)
  kFused,    // launches the heads of one graph together (S5)
  kOrdered,  // takes heads in the order of Algorithm 1 (S7)
};
const char* head_stage_name(HeadStage stage);
// Throws UsageError that lists the names.
HeadStage head_stage_from_name(std::string_view name);

const char* attention_form_name(AttentionForm form);
// Throws UsageError that lists the names.
AttentionForm attention_form_from_name(std::string_view name);

struct PromptAttention {
  AttentionForm form = AttentionForm::kFull;
  // The share of positions that each head, or the mean of all heads, keeps at most.
  double share = kUsualShare;
  // Tokens before this position see everything. It is a multiple of 64 and holds in prompts of
  // every length, so that no bit depends on the length.
  int from = kUsualFrom;
  // kSparse keeps the positions that weigh more than `above` times the weight each would have if
  // all weighed the same: a threshold that falls as the text grows. 0: it keeps the best `share` of
  // them.
  double above = kUsualAbove;
  // (n_layers, n_heads), heads of queries: the share of each head (S3), or kLeftOut. Empty: all
  // have `share`. Heads that share a head of keys share one list, and have the mean of their
  // shares. Where `above` decides what is kept, a head whose share is 1 keeps everything, with all
  // heads that share its list, and other shares say nothing.
  std::vector<float> head_shares = {};
  std::string reason = {};  // tells people where the shares come from and what was measured
  // (n_layers, n_heads, 2): the scale by which the largest magnitude of each head's queries becomes
  // 127, and then that of its keys, on average over a calibration text. Empty: they were not
  // measured.
  std::vector<float> head_scales = {};
  // kQuery estimates with the nearest of n_buckets prebuilt pairs of scales (S4): 1, 5 or 9. 0:
  // each query and each position has a scale of its own.
  int n_buckets = 0;
  // The lanes of kQuery's estimate, selection and exact part, where heads are tasks (S6). Empty:
  // the lane of attention does it all.
  std::vector<int> head_lanes = {};
  HeadStage head_stage = HeadStage::kOrdered;

  bool is_sparse() const { return form != AttentionForm::kFull; }
  // Says whether 64 tokens are computed together, or have a scale together.
  bool goes_by_tile() const { return is_by_tile(form) || n_buckets > 0; }
  bool has_head_lanes() const { return !head_lanes.empty(); }
  bool is_by_weight() const { return form == AttentionForm::kSparse && above > 0.0; }
  // Says that nobody measured which heads of the model must see everything; then all heads of the
  // first block do.
  bool is_untuned() const { return is_by_weight() && head_shares.empty(); }
  bool operator==(const PromptAttention&) const = default;

  static constexpr double kUsualAbove = 2.5;  // was chosen on SmolLM2-135M (docs/shadowattn.md)
  static constexpr double kMostAbove = 1e6;
  static constexpr double kUsualShare = 0.2;
  static constexpr int kUsualFrom = 1024;
  // Fewer positions are too few to estimate from.
  static constexpr int kLeastFrom = 512;
};

// Stands in the place of a head's share, to find out how much the head matters: where it could
// choose positions, it gives zeros. It is not written to files.
inline constexpr float kLeftOut = -1.0f;

// What PromptAttention says about one layer.
struct LayerAttention {
  AttentionForm form = AttentionForm::kFull;
  double share = PromptAttention::kUsualShare;
  int from = PromptAttention::kUsualFrom;
  double above = PromptAttention::kUsualAbove;
  std::vector<float> head_shares = {};  // (n_heads), or empty
  std::vector<attention::ScalePair> buckets =
      {};  // empty: each query and position has its own scale

  bool is_sparse() const { return form != AttentionForm::kFull; }
  bool goes_by_tile() const { return is_by_tile(form) || !buckets.empty(); }
  bool is_left_out(int head) const;
  // Returns what a head of queries keeps. A head that is left out keeps everything.
  double share_of(int head) const;
  // Returns the share that n_heads heads keep which choose together: the mean, or where weight
  // decides what is kept, the largest, which says only whether they keep everything.
  double share_of(int first_head, int n_heads) const;
};

// Returns how a layer chooses. A layer with a window sees all positions of it; 0 is no window.
LayerAttention attention_of_layer(const PromptAttention& attention, int layer, int n_heads,
                                  int window);

// Returns the mean of the heads' shares. REQUIRES: there are some.
double mean_share(std::span<const float> head_shares);

// Returns the scales of a head's queries and keys. `head` counts through all layers. REQUIRES: the
// plan has scales.
attention::ScalePair scales_of(const PromptAttention& attention, size_t head);
// Returns the pairs of scales that are prebuilt, around the mean of all heads. REQUIRES: the plan
// has scales.
std::vector<attention::ScalePair> scale_buckets_of(const PromptAttention& attention);

// Throws Error where there are shares or scales for another number of heads than the model's.
void check_head_shares(const PromptAttention& attention, int n_layers, int n_heads);

// Counts the tokens of a tile; tiles begin at its multiples.
inline constexpr int kAttentionTile = 64;

}  // namespace troika::plan
