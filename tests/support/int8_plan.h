// Makes plans of int8 prompts without a calibration, with made-up limits.
#pragma once

#include "engine/engine.h"
#include "model/linear_inputs.h"

namespace troika::test_support {

// Returns the plan of `options` with prompts in int8 and limits that some activations exceed.
inline plan::Plan plan_of(const prepare::Options& options, plan::Int8Method method, float limit) {
  const engine::Engine engine(options);
  plan::Plan plan = engine.plan();
  plan.prefill = plan::Prefill::kInt8;
  plan.int8.method = method;
  // Pruned outliers would be clamped, and made-up limits would clamp what matters.
  plan.int8.outlier_prune = method == plan::Int8Method::kShadow ? 0 : 40;
  plan.int8.text = "made up";
  plan.int8.n_tokens = 1;
  plan.int8.smooth_alpha = 0.5;
  float more = 1.0f;
  for (const model::LinearInput& input : model::linear_inputs(engine.blueprint())) {
    plan::Int8Input made;
    made.weight = input.name;
    made.limit = limit;
    made.largest = limit * (more += 0.5f);
    made.limit_alone = made.largest;
    made.channel_largest.assign(static_cast<size_t>(input.width), made.largest);
    plan.int8.inputs.push_back(made);
  }
  return plan;
}

}  // namespace troika::test_support
