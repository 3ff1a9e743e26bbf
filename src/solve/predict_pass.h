// Predicts how long a whole pass over a model will take: on one lane, or as a plan places it.
#pragma once

#include "model/blueprint.h"
#include "plan/plan.h"
#include "solve/time_model.h"
#include "weights/store.h"

namespace troika::solve {

struct PassShape {
  tensor::Type kv_type;
  int n_tokens;
  int n_outputs;
  int context;  // counts positions that the last token sees
  plan::Phase phase;
};

// Starts each subgraph once; the ops add what they take beyond a start of their own.
double predict_pass_us(const CostPredictor& predictor, int lane, const model::Blueprint& blueprint,
                       const weights::Store& weights, const PassShape& pass);

// Returns the time of a prompt in the plan's chunks, with the logits of its last token.
double predict_prompt_us(const TimeModel& times, const plan::Plan& plan,
                         const model::Blueprint& blueprint, int n_tokens);
// Returns the time of a step of decoding whose token sees `context` positions.
double predict_step_us(const TimeModel& times, const plan::Plan& plan,
                       const model::Blueprint& blueprint, int context);

}  // namespace troika::solve
