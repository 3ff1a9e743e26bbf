// Finds which share of the positions each head of a model keeps in long prompts (S3), what that
// loses, and whether it is worth it on this machine.
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

// Says how shares are found.
enum class ShareRule : uint8_t {
  kWeight,      // positions go by their weight; heads of which weight says too little keep all
  kKeptMass,    // makes the softmax weight that all heads keep largest
  kImportance,  // goes by what the model loses without a head: eq. (1) to (3) of shadowAttn
  kEqual,       // gives all heads the same share
};

const char* share_rule_name(ShareRule rule);
// Throws UsageError that lists the names.
ShareRule share_rule_from_name(std::string_view name);

struct AttentionRequest {
  prepare::Options options;
  plan::Plan plan;          // the plan of prompts
  std::string calibration;  // the text that shares are found on
  std::string held_out;
  std::string text_name;
  double share = plan::PromptAttention::kUsualShare;  // the mean of all heads that choose
  ShareRule rule = ShareRule::kWeight;
  double seconds = 0;            // limits the time of tuning
  double seconds_per_token = 0;  // a prompt's time for each token, about
  int trained_context = 0;
  measure::StageFunction stage;
};

struct AttentionTuning {
  // Has the form that is best here, and the reason.
  plan::PromptAttention attention;
  // The loss of sparse attention, from its first position on; none: it was not measured.
  std::optional<Loss> loss;
  double gain = 0;  // says how many times as fast a prompt of a whole window is
  int window = 0;   // counts tokens
};

// Keeps what was measured in `state`.
AttentionTuning tune_attention(const AttentionRequest& request, CalibrationState* state);

}  // namespace troika::tune
