// How long a whole pass over a model will take on one lane.
#pragma once

#include "model/blueprint.h"
#include "solve/predict.h"
#include "weights/store.h"

namespace troika::solve {

struct PassShape {
  tensor::Type kv_type = tensor::Type::kF16;
  int n_tokens = 1;
  int n_outputs = 1;
  int context = 1;  // positions that the last token sees
};

// Each subgraph starts once; its ops add what they take beyond a start of their own.
double predict_pass_us(const Predictor& predictor, int lane, const model::Blueprint& blueprint,
                       const weights::Store& weights, const PassShape& pass);

}  // namespace troika::solve
