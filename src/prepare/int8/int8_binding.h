// Brings what a plan says of prompts in int8 to the weights of a model.
#pragma once

#include <vector>

#include "lanes/int8_rule.h"
#include "model/blueprint.h"
#include "plan/plan.h"
#include "prepare/options.h"
#include "weights/store.h"

namespace troika::prepare {

class Int8Binding {
 public:
  Int8Binding() = default;  // has no rules: prompts are not in int8
  // Puts the options' int8 part into the plan. Throws UsageError where the options ask for what was
  // not calibrated, and Error where the plan's inputs are not those of the model.
  Int8Binding(const Options& options, const model::Blueprint& blueprint,
              const weights::Store& weights, plan::Plan* plan);

  // Returns null where every token has its own scale.
  const lanes::Int8Rules* rules() const { return rules_.empty() ? nullptr : &rules_; }
  const weights::Int8Packing& packing() const { return packing_; }

 private:
  void smooth(const model::Blueprint& blueprint, const weights::Store& weights,
              const plan::Int8Plan& int8);

  lanes::Int8Rules rules_;
  weights::Int8Packing packing_;
  // SmoothQuant's factors of weights and of activations, one list for each input.
  std::vector<std::vector<float>> weight_factors_, activation_factors_;
};

}  // namespace troika::prepare
