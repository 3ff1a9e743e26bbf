#include "plan/attention/attention_plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/option_names.h"
#include "model/limits.h"
#include "plan/attention/words.h"
#include "plan/plan.h"

namespace troika::plan {

const char* attention_form_name(AttentionForm form) {
  constexpr const char* kNames[] = {"full", "sparse", "query", "block", "int8"};
  return kNames[static_cast<size_t>(form)];
}

AttentionForm attention_form_from_name(std::string_view name) {
  for (const AttentionForm form :
       {AttentionForm::kFull, AttentionForm::kSparse, AttentionForm::kQuery, AttentionForm::kBlock,
        AttentionForm::kInt8}) {
    if (name == attention_form_name(form)) return form;
  }
  throw UsageError(fmt::format(
      "'{}' is no form of a prompt's attention. Known are full (over all positions), sparse (64 "
      "tokens share a list), query (each query chooses for itself), auto (sparse where 'troika "
      "tune' found that little is lost, else full), and to compare with block (64 tokens choose "
      "blocks of 64 positions) and int8 (over all positions in int8).",
      name));
}

namespace {

constexpr const char* kStages[] = {"in-turn", "overlap", "fused", "ordered"};

// Refuses numbers that no form may have. They are refused where nothing is sparse too, because
// measurements of the estimate go by them, and a file of the plan keeps them.
void check_numbers(const PromptAttention& attention) {
  if (attention.from < PromptAttention::kLeastFrom || attention.from > model::kMostContext ||
      attention.from % kAttentionTile != 0) {
    throw UsageError(fmt::format(
        "‹attention-from› {} makes no sense; it is a multiple of {}, at least {} and at most {}.",
        attention.from, kAttentionTile, PromptAttention::kLeastFrom, model::kMostContext));
  }
  if (!(attention.share > 0.0 && attention.share <= 1.0)) {
    throw UsageError(
        fmt::format("‹attention-share› {:g} makes no sense; it is a percentage, more than 0 and at "
                    "most 100.",
                    100 * attention.share));
  }
  if (!(attention.above >= 0.0 && attention.above <= PromptAttention::kMostAbove)) {
    throw UsageError(fmt::format(
        "‹attention-above› {:g} makes no sense; it is how many times as much as the mean "
        "a position must weigh, above 0 and at most {:g}.",
        attention.above, PromptAttention::kMostAbove));
  }
}

void check_head_lanes(const Plan& plan) {
  const PromptAttention& attention = plan.attention;
  if (!attention.has_head_lanes()) return;
  if (attention.form != AttentionForm::kQuery || attention.head_lanes.size() != 3) {
    throw UsageError(
        "‹attention-lanes› names three lanes, of the estimate, of the selection and of the exact "
        "part, as in 1,0,0, and is for ‹attention› query.");
  }
  for (const int lane : attention.head_lanes) {
    const auto n_lanes = static_cast<int>(plan.lanes.size());
    if (lane >= 0 && lane < n_lanes && !plan.lanes[static_cast<size_t>(lane)].is_device()) continue;
    throw UsageError(
        fmt::format("‹attention-lanes›: lane {} cannot compute heads. There {} {}, counted from 0; "
                    "heads run on "
                    "lanes of cores.",
                    lane, n_lanes == 1 ? "is" : "are",
                    n_lanes == 1 ? "one lane" : fmt::format("{} lanes", n_lanes)));
  }
}

// Refuses cuts of a prompt's attention beside lanes of heads: one of them would win unseen.
void check_cuts_of_heads(const Plan& plan) {
  if (!plan.attention.has_head_lanes()) return;
  for (const TensorCut& cut : plan.cuts) {
    if (cut.subgraph != "attention" || cut.phase == Phase::kStep) continue;
    throw UsageError(fmt::format(
        "‹cut› {} divides heads of prompts between lanes, and ‹attention-lanes› says which lanes "
        "run the parts of each head. Leave one of them out, or cut attention of steps alone "
        "(attention@step=heads:...).",
        cut_text(cut)));
  }
}

void check_buckets(const PromptAttention& attention) {
  if (attention.n_buckets == 0) return;
  check_bucket_count(attention.n_buckets);
  if (attention.form != AttentionForm::kQuery) {
    throw UsageError(
        "‹attention-buckets› fixes the scales of an estimate for each query: use it with "
        "‹attention› query, or leave it out.");
  }
  if (attention.head_scales.empty()) {
    throw UsageError(
        "Scales of the estimate that are fixed beforehand (‹attention-buckets›, ‹strict-npu›) come "
        "from a calibration text, and this plan has none. Run 'troika tune' on the model first, "
        "with ‹seconds› enough to look at what heads attend to; later runs without ‹no-plan›, "
        "‹no-cache› and ‹plan› take the scales from its plan. Or leave them out.");
  }
}

}  // namespace

const char* head_stage_name(HeadStage stage) { return kStages[static_cast<size_t>(stage)]; }

HeadStage head_stage_from_name(std::string_view name) {
  return static_cast<HeadStage>(index_of_name(kStages, name, "attention-heads"));
}

void check_bucket_count(int n) {
  if (n == 1 || n == 5 || n == 9) return;
  throw UsageError(fmt::format(
      "‹attention-buckets› {} makes no sense: there are 9 around the mean, 5 of them that differ "
      "from it in one scale at most, or it alone, 1.",
      n));
}

std::string in_words_of_plan(std::string_view sentence) {
  constexpr std::string_view kFields[][2] = {{"prefill", "prefill"},
                                             {"attention", "attention.form"},
                                             {"attention-from", "attention.from"},
                                             {"attention-share", "attention.share"},
                                             {"attention-above", "attention.above"},
                                             {"attention-buckets", "attention.buckets"},
                                             {"attention-lanes", "attention.head_lanes"},
                                             {"attention-heads", "attention.head_step"},
                                             {"chunk", "prompt_shapes"},
                                             {"cut", "cuts"}};
  return with_option_names(sentence, [&](std::string_view option) {
    for (const auto& [name, field] : kFields) {
      if (name == option) return fmt::format("'{}'", field);
    }
    return fmt::format("‹{}›", option);
  });
}

attention::ScalePair scales_of(const PromptAttention& attention, size_t head) {
  return {attention.head_scales[2 * head], attention.head_scales[2 * head + 1]};
}

std::vector<attention::ScalePair> scale_buckets_of(const PromptAttention& attention) {
  const size_t n_heads = attention.head_scales.size() / 2;
  TROIKA_ASSERT(n_heads > 0);
  double q = 0, k = 0;
  for (size_t head = 0; head < n_heads; ++head) {
    q += scales_of(attention, head).q;
    k += scales_of(attention, head).k;
  }
  const auto n = static_cast<double>(n_heads);
  return attention::buckets_around({static_cast<float>(q / n), static_cast<float>(k / n)},
                                   attention.n_buckets);
}

void check_attention(const Plan& plan) {
  const PromptAttention& attention = plan.attention;
  check_numbers(attention);
  // They refuse other forms themselves: whoever finds lanes or buckets goes by them.
  check_buckets(attention);
  check_head_lanes(plan);
  if (!attention.is_sparse()) return;
  const char* const name = attention_form_name(attention.form);
  if (!shares_keys(plan.prefill)) {
    throw UsageError(fmt::format(
        "‹attention› {} is for prompts whose attention is in bfloat16, and with ‹prefill› {} it is "
        "that of steps. Use ‹prefill› q8, bf16 or int8, or leave ‹attention› out.",
        name, prefill_name(plan.prefill)));
  }
  check_cuts_of_heads(plan);
  if (attention.goes_by_tile() && plan.chunk() % kAttentionTile != 0) {
    throw UsageError(fmt::format(
        "‹chunk› {} divides tiles of {} tokens, which ‹attention› {} computes together. Use a "
        "multiple of {}.",
        plan.chunk(), kAttentionTile, name, kAttentionTile));
  }
}

bool LayerAttention::is_left_out(int head) const {
  return !head_shares.empty() && head_shares[static_cast<size_t>(head)] == kLeftOut;
}

double LayerAttention::share_of(int head) const {
  if (head_shares.empty()) return share;
  return is_left_out(head) ? 1.0 : double{head_shares[static_cast<size_t>(head)]};
}

double LayerAttention::share_of(int first_head, int n_heads) const {
  double sum = 0, largest = 0;
  for (int head = first_head; head < first_head + n_heads; ++head) {
    sum += share_of(head);
    if (!is_left_out(head)) largest = std::max(largest, share_of(head));
  }
  const bool is_by_weight = form == AttentionForm::kSparse && above > 0.0;
  return is_by_weight && largest > 0 ? largest : sum / n_heads;
}

LayerAttention attention_of_layer(const PromptAttention& attention, int layer, int n_heads,
                                  int window) {
  if (!attention.is_sparse() || window != 0) return {};
  if (attention.is_untuned() && layer == 0) return {};
  LayerAttention result = {attention.form, attention.share, attention.from, attention.above};
  if (attention.n_buckets > 0) result.buckets = scale_buckets_of(attention);
  if (!attention.head_shares.empty()) {
    const auto first = attention.head_shares.begin() + ptrdiff_t{layer} * n_heads;
    result.head_shares.assign(first, first + n_heads);
  }
  return result;
}

double mean_share(std::span<const float> head_shares) {
  double sum = 0;
  for (const float share : head_shares) sum += share;
  return sum / static_cast<double>(head_shares.size());
}

void check_head_shares(const PromptAttention& attention, int n_layers, int n_heads) {
  const size_t n = attention.head_shares.size(), n_scales = attention.head_scales.size();
  const size_t wanted = static_cast<size_t>(n_layers) * static_cast<size_t>(n_heads);
  if ((n == 0 || n == wanted) && (n_scales == 0 || n_scales == 2 * wanted)) return;
  throw Error(
      fmt::format("The plan has {} for {} heads, and the model has {} layers of {} heads. "
                  "It is a plan for another model: make one for this model with 'troika tune'.",
                  n != 0 && n != wanted ? "shares of positions" : "scales of an estimate",
                  n != 0 && n != wanted ? n : n_scales / 2, n_layers, n_heads));
}

}  // namespace troika::plan
