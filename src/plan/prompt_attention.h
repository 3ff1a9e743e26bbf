// How the queries of a prompt choose what they see.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "attention/choose/scale_buckets.h"

namespace troika::plan {

enum class AttentionForm : unsigned char {
  kFull,    // everything
  kSparse,  // 64 tokens share a list, by an estimate in int8 (S1, S2)
  kQuery,   // each query of each head chooses for itself, as shadowAttn has it (S1, S2)
  // What shadowAttn is compared with (S8), to be measured:
  kBlock,  // 64 tokens choose blocks of 64 positions, by the means of both
  kInt8,   // everything, keys, values and weights in int8 with a scale for a head
};

// Whether 64 tokens are computed together.
constexpr bool is_by_tile(AttentionForm form) {
  return form == AttentionForm::kSparse || form == AttentionForm::kBlock ||
         form == AttentionForm::kInt8;
}

// How much there is of the pipeline in which heads go over several lanes (shadowAttn, Figure 9):
// each step has what the ones before it have.
enum class HeadStep : unsigned char {
  kInTurn,   // a head begins when the one before has ended
  kOverlap,  // lanes work on several heads at once (S6)
  kFused,    // heads of one graph are launched together (S5)
  kOrdered,  // in the order of Algorithm 1 (S7)
};
const char* head_step_name(HeadStep step);
// Throws UsageError that lists the names.
HeadStep head_step_from_name(std::string_view name);

const char* attention_form_name(AttentionForm form);
// Throws UsageError that lists the names.
AttentionForm attention_form_from_name(std::string_view name);

struct PromptAttention {
  AttentionForm form = AttentionForm::kFull;
  // Each head, or the mean of all heads, keeps at most this share of the positions.
  double share = kUsualShare;
  // Tokens before this position see everything: a multiple of 64. No bit depends on the length of
  // the prompt.
  int from = kUsualFrom;
  // kSparse keeps the positions that weigh more than so many times what each would if all weighed
  // the same: a threshold that falls as the text grows. 0: it keeps the best `share` of them.
  double above = kUsualAbove;
  // (n_layers, n_heads), heads of queries: a share for each (S3), or kLeftOut. Empty: all have
  // `share`. Those that share a head of keys, and so a list, have the mean of theirs. Where weights
  // decide what is kept, a head whose share is 1 keeps everything, and other shares say nothing.
  std::vector<float> head_shares = {};
  std::string reason = {};  // where the shares come from and what was measured; for people
  // (n_layers, n_heads, 2): by which scale the largest magnitude of each head's queries becomes
  // 127, and that of its keys, on average over a calibration text. Empty: nobody looked.
  std::vector<float> head_scales = {};
  // kQuery estimates with the nearest of so many prebuilt pairs of scales (S4): 1, 5 or 9. 0: each
  // query and each position has its own.
  int n_buckets = 0;
  // The lanes of estimate, selection and exact part, of kQuery: heads are tasks (S6). Empty: the
  // lane of attention does it all.
  std::vector<int> head_lanes = {};
  HeadStep head_step = HeadStep::kOrdered;

  bool is_sparse() const { return form != AttentionForm::kFull; }
  // Whether 64 tokens are computed together, or have a scale together.
  bool goes_by_tile() const { return is_by_tile(form) || n_buckets > 0; }
  bool has_head_lanes() const { return !head_lanes.empty(); }
  bool is_by_weight() const { return form == AttentionForm::kSparse && above > 0.0; }
  // Nobody looked which heads of the model must see everything: those of the first block do.
  bool is_untuned() const { return is_by_weight() && head_shares.empty(); }
  bool operator==(const PromptAttention&) const = default;

  static constexpr double kUsualAbove = 2.5;  // on SmolLM2-135M (docs/shadowattn.md)
  static constexpr double kMostAbove = 1e6;
  static constexpr double kUsualShare = 0.2;
  static constexpr int kUsualFrom = 1024;
  // Fewer positions are too few to estimate from.
  static constexpr int kLeastFrom = 512;
};

// Instead of a head's share: where it could choose, it gives zeros, to find out what it matters.
// Not in files.
inline constexpr float kLeftOut = -1.0f;

// What PromptAttention says about one layer.
struct LayerAttention {
  AttentionForm form = AttentionForm::kFull;
  double share = PromptAttention::kUsualShare;
  int from = PromptAttention::kUsualFrom;
  double above = PromptAttention::kUsualAbove;
  std::vector<float> head_shares = {};             // (n_heads), or empty
  std::vector<attention::ScalePair> buckets = {};  // empty: scales as they come

  bool is_sparse() const { return form != AttentionForm::kFull; }
  bool goes_by_tile() const { return is_by_tile(form) || !buckets.empty(); }
  bool is_left_out(int head) const;
  // Returns what a head of queries keeps. A head that is left out keeps everything.
  double share_of(int head) const;
  // Returns what heads keep that choose together.
  double share_of(int first_head, int n_heads) const;
};

// How a layer chooses: one that sees a window of positions only, 0 is none, sees all of those.
LayerAttention attention_of_layer(const PromptAttention& attention, int layer, int n_heads,
                                  int window);

// The mean of what heads keep. REQUIRES: there are some.
double mean_share(std::span<const float> head_shares);

// The scales of a head of queries and of its keys, counted through all layers. REQUIRES: there are.
attention::ScalePair scales_of(const PromptAttention& attention, size_t head);
// The pairs of scales that are prebuilt, around the mean of all heads. REQUIRES: the plan has
// scales.
std::vector<attention::ScalePair> scale_buckets_of(const PromptAttention& attention);

// Throws Error where there are shares or scales for the heads of another model.
void check_head_shares(const PromptAttention& attention, int n_layers, int n_heads);

// Tokens of a tile, from multiples of it on.
inline constexpr int kAttentionTile = 64;

}  // namespace troika::plan
