// How the queries of a prompt choose what they see.
#pragma once

#include <string_view>

namespace troika::plan {

enum class AttentionForm : unsigned char {
  kDense,  // everything
  kTile,   // 64 tokens choose together, by an estimate in int8 (S1, S2)
  kQuery,  // each query of each head chooses for itself, as shadowAttn has it (S1, S2)
};

const char* attention_form_name(AttentionForm form);
// Throws UsageError that lists the names.
AttentionForm attention_form_from_name(std::string_view name);

struct PromptAttention {
  AttentionForm form = AttentionForm::kDense;
  // At most this share of the positions is kept.
  double share = 0.2;
  // Tokens before this position see everything: a multiple of 64. No bit depends on the length of
  // the prompt.
  int from = kUsualFrom;

  bool is_sparse() const { return form != AttentionForm::kDense; }
  bool operator==(const PromptAttention&) const = default;

  static constexpr int kUsualFrom = 1024;
  // Fewer positions are too few to estimate from.
  static constexpr int kLeastFrom = 512;
};

// Whether a layer chooses: one that sees a window of positions only, 0 is none, sees all of those.
bool is_sparse(const PromptAttention& attention, int window);

// Tokens of a tile, from multiples of it on.
inline constexpr int kAttentionTile = 64;

}  // namespace troika::plan
