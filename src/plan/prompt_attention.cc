#include "plan/prompt_attention.h"

#include <fmt/format.h>

#include "base/error.h"
#include "plan/plan.h"

namespace troika::plan {

const char* attention_form_name(AttentionForm form) {
  constexpr const char* kNames[] = {"dense", "tile", "query"};
  return kNames[static_cast<size_t>(form)];
}

AttentionForm attention_form_from_name(std::string_view name) {
  for (const AttentionForm form :
       {AttentionForm::kDense, AttentionForm::kTile, AttentionForm::kQuery}) {
    if (name == attention_form_name(form)) return form;
  }
  throw UsageError(fmt::format(
      "'{}' is no form of a prompt's attention. Known are dense (over all positions), tile (64 "
      "tokens choose together) and query (each query chooses for itself).",
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
  if (attention.from < PromptAttention::kLeastFrom || attention.from % kAttentionTile != 0) {
    throw UsageError(
        fmt::format("‹attention-from› {} makes no sense; it is a multiple of {}, and at least {}.",
                    attention.from, kAttentionTile, PromptAttention::kLeastFrom));
  }
  if (attention.form == AttentionForm::kTile && plan.chunk() % kAttentionTile != 0) {
    throw UsageError(
        fmt::format("‹chunk› {} divides tiles of {} tokens, which ‹attention› tile computes "
                    "together. Use a multiple of {}.",
                    plan.chunk(), kAttentionTile, kAttentionTile));
  }
}

bool is_sparse(const PromptAttention& attention, int window) {
  return attention.is_sparse() && window == 0;
}

}  // namespace troika::plan
