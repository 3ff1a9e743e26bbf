// How feed-forward blocks of a gate are computed in steps.
#pragma once

#include <cstddef>
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

// What says which rows of the gate are computed (P3), a side file: the key of its content, and what
// it takes.
struct FfnPredictor {
  uint64_t key = 0;  // 0: there is none, and all are
  int rank = 0;
  size_t bytes = 0;

  bool is_there() const { return key != 0; }
  bool operator==(const FfnPredictor&) const = default;
};

// Where gates are in blocks that have a predictor and read the neurons that live.
enum class FfnGates : uint8_t {
  kInMemory,   // beside the neurons: what is read is live
  kInBundles,  // read with the neurons that the predictor names
};
const char* ffn_gates_name(FfnGates gates);
// Throws UsageError that lists the names.
FfnGates ffn_gates_from_name(std::string_view name);

struct FfnPlan {
  FfnForm form = FfnForm::kByOutput;
  // By block: an activation of the gate less than this in magnitude counts as 0 (P12). Empty: only
  // what is 0.
  std::vector<float> thresholds = {};
  FfnPredictor predictor = {};
  FfnGates gates = FfnGates::kInMemory;  // changes no bit

  bool is_by_neuron() const { return form != FfnForm::kByOutput; }
  bool operator==(const FfnPlan&) const = default;
};

// Throws UsageError where the plan's blocks cannot be computed as it says.
void check_ffn(const Plan& plan);

}  // namespace troika::plan
