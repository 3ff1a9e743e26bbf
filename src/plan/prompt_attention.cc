#include "plan/prompt_attention.h"

#include <fmt/format.h>

#include "base/error.h"
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

void check_attention(const Plan& plan) {
  const PromptAttention& attention = plan.attention;
  if (!attention.is_sparse()) return;
  const char* const name = attention_form_name(attention.form);
  if (!shares_keys(plan.prefill)) {
    throw UsageError(fmt::format(
        "‹attention› {} is for prompts whose attention is in bfloat16, and with ‹prefill› {} it is "
        "that of steps. Use ‹prefill› q8, bf16 or int8, or leave ‹attention› out.",
        name, prefill_name(plan.prefill)));
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
  if (attention.from < PromptAttention::kLeastFrom || attention.from % kAttentionTile != 0) {
    throw UsageError(
        fmt::format("‹attention-from› {} makes no sense; it is a multiple of {}, and at least {}.",
                    attention.from, kAttentionTile, PromptAttention::kLeastFrom));
  }
  if (is_by_tile(attention.form) && plan.chunk() % kAttentionTile != 0) {
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
  double sum = 0;
  for (int head = first_head; head < first_head + n_heads; ++head) sum += share_of(head);
  return sum / n_heads;
}

LayerAttention attention_of_layer(const PromptAttention& attention, int layer, int n_heads,
                                  int window) {
  if (!attention.is_sparse() || window != 0) return {};
  if (attention.is_untuned() && layer == 0) return {};
  LayerAttention result = {attention.form, attention.share, attention.from, attention.above};
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
  const size_t n = attention.head_shares.size(), wanted = static_cast<size_t>(n_layers) * n_heads;
  if (n == 0 || n == wanted) return;
  throw Error(fmt::format(
      "The plan has shares of positions for {} heads, and the model has {} layers of {} heads. "
      "It is a plan for another model: make one for this model with 'troika tune'.",
      n, n_layers, n_heads));
}

}  // namespace troika::plan
