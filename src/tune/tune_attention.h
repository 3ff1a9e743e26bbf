// Which share of the positions each head of a model keeps in long prompts (S3), what that loses,
// and whether it is worth it here.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "measure/profile_here.h"
#include "plan/plan.h"
#include "prepare/options.h"
#include "tune/calibration_state.h"
#include "tune/proof/proof.h"

namespace troika::tune {

// How shares are found.
enum class ShareRule : uint8_t {
  kWeight,      // positions go by their weight, and heads of which it says too little keep all
  kKeptMass,    // so that the softmax weight that all heads keep is most
  kImportance,  // by what the model loses without a head: eq. (1) to (3) of shadowAttn
  kEqual,       // all the same
};

const char* share_rule_name(ShareRule rule);
// Throws UsageError that lists the names.
ShareRule share_rule_from_name(std::string_view name);

struct AttentionRequest {
  prepare::Options options;
  plan::Plan plan;          // of prompts
  std::string calibration;  // texts: for the shares, and to judge them by
  std::string held_out;
  std::string text_name;
  double share = plan::PromptAttention::kUsualShare;  // the mean of all heads
  ShareRule rule = ShareRule::kWeight;
  double seconds = 0;            // that it may take
  double seconds_per_token = 0;  // of a prompt, about
  int trained_context = 0;
  measure::StageFunction stage;
};

struct AttentionTuning {
  plan::PromptAttention attention;  // with the form that is best here, and why
  std::optional<Loss> loss;  // of sparse attention, from its first position on; none: not measured
  double gain = 0;           // how many times as fast a prompt of a whole window is
  int window = 0;            // tokens
};

// What was measured is kept in `state`.
AttentionTuning tune_attention(const AttentionRequest& request, CalibrationState* state);

}  // namespace troika::tune
