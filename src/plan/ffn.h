// How feed-forward blocks of a gate are computed in steps.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace troika::plan {

struct Plan;

enum class FfnForm : uint8_t {
  kByOutput,     // every output is a row of the last matrix times all activations
  kByNeuron,     // the sum of the columns of live neurons (P1): a numerics class of its own
  kEveryNeuron,  // the same class with all neurons, live or not: its judge
};

const char* ffn_form_name(FfnForm form);
// Throws UsageError that lists the names.
FfnForm ffn_form_from_name(std::string_view name);

struct FfnPlan {
  FfnForm form = FfnForm::kByOutput;
  // By block: an activation of the gate less than this in magnitude counts as 0 (P12). Empty: only
  // what is 0.
  std::vector<float> thresholds = {};

  bool is_by_neuron() const { return form != FfnForm::kByOutput; }
  bool operator==(const FfnPlan&) const = default;
};

// Throws UsageError where the plan's blocks cannot be computed as it says.
void check_ffn(const Plan& plan);

}  // namespace troika::plan
