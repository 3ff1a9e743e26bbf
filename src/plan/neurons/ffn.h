// Says how feed-forward blocks that have a gate are computed in steps.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace troika::plan {

struct Plan;

enum class FfnForm : uint8_t {
  kByOutput,     // computes each output as a row of the last matrix times all activations
  kByNeuron,     // sums up the columns of live neurons (P1): a numerics class of its own
  kEveryNeuron,  // computes as kByNeuron with all neurons, live or not, and so judges it
};

const char* ffn_form_name(FfnForm form);
// Throws UsageError that lists the names.
FfnForm ffn_form_from_name(std::string_view name);

// The predictor that says which rows of the gate are computed (P3). It is kept in a side file.
struct FfnPredictor {
  // The key of the side file's content. 0: there is no predictor, and all rows are computed.
  uint64_t key = 0;
  int rank = 0;
  size_t bytes = 0;

  bool is_there() const { return key != 0; }
  bool operator==(const FfnPredictor&) const = default;
};

// Says where the rows of gates are, in blocks that have a predictor and read live neurons from the
// disk.
enum class FfnGates : uint8_t {
  kInMemory,   // gates stay in memory: only neurons that are live are read
  kInBundles,  // gates are read with the neurons that the predictor names
};
const char* ffn_gates_name(FfnGates gates);
// Throws UsageError that lists the names.
FfnGates ffn_gates_from_name(std::string_view name);

// The neurons of each block that fire most often are computed densely, as a task of their own, and
// the others by neuron beside them (P1, P3).
struct FfnHot {
  int percent = 0;   // the share of a block's neurons; 0: none are hot
  int lane = 0;      // computes them
  uint64_t key = 0;  // tells which ones they are

  bool is_there() const { return percent > 0; }
  bool operator==(const FfnHot&) const = default;
};
inline constexpr int kMostHotPercent = 90;

struct FfnPlan {
  FfnForm form = FfnForm::kByOutput;
  // One limit for each block: an activation of the gate that is less in magnitude counts as 0
  // (P12). Empty: only an activation of 0 does.
  std::vector<float> thresholds = {};
  FfnPredictor predictor = {};
  FfnGates gates = FfnGates::kInMemory;  // changes no bit
  FfnHot hot = {};

  bool is_by_neuron() const { return form != FfnForm::kByOutput; }
  bool operator==(const FfnPlan&) const = default;
};

// Returns where gates are that were asked for so, and else where the plan's predictor has them.
// With a predictor that is new to the plan they lie with the neurons: what memory they would take
// keeps more neurons.
inline FfnGates gates_for(std::optional<FfnGates> asked, const FfnPlan& ffn) {
  return asked.value_or(ffn.predictor.is_there() ? ffn.gates : FfnGates::kInBundles);
}

// Throws UsageError where the plan's blocks cannot be computed as it says.
void check_ffn(const Plan& plan);

}  // namespace troika::plan
