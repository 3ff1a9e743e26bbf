// Fits a predictor of which neurons fire (P3), in closed form: the matrix of low rank whose
// products with inputs like those of a text differ least from the gate's. What the text does not
// say of inputs, the gate's own weights decide, so that a short text is enough for any rank.
#pragma once

#include "kernels/kernels.h"
#include "tune/neurons/float_rows.h"
#include "weights/neurons/predictor.h"
#include "weights/store.h"

namespace troika::tune {

// The inputs of a feed-forward block, of different tokens.
struct BlockInputs {
  Rows varying;  // inputs that say how inputs vary
  Rows scored;   // inputs that give scores
  Rows judged;   // inputs that say how well all that does
};

struct LiveRule {
  model::Activation activation = model::Activation::kRelu;
  float threshold = 0.0f;  // 0: every activation but 0 is live
};

// Says how well a layer's predictor does on tokens that it was not made of.
struct PredictorQuality {
  double live = 0.0;       // the share of neurons that are live
  double predicted = 0.0;  // the share of neurons that are predicted
  double recall = 1.0;     // the share of live neurons that were predicted
  double mass = 1.0;       // the share of the sum of live activations that was predicted
};

// What quality is reckoned from, so that experts of a mixture can be judged together. A neuron
// counts once for each token.
struct PredictorCounts {
  double all = 0.0, live = 0.0, predicted = 0.0;
  double found = 0.0;  // counts those that are live and were predicted
  double mass = 0.0;   // sums up the activations of those that are live
  double found_mass = 0.0;

  void add(const PredictorCounts& other);
  PredictorQuality quality() const;
};

struct LayerFit {
  const kernels::Table& kernels;
  const weights::Matrix& gate;
  LiveRule rule;
  double recall = 0.95;  // the recall that is wanted for each neuron
};

// Fills a layer, and judges it. REQUIRES: there are inputs that say how inputs vary.
PredictorCounts fit_predictor_layer(const LayerFit& fit, BlockInputs inputs,
                                    weights::NeuronPredictor* predictor, uint64_t layer);

}  // namespace troika::tune
