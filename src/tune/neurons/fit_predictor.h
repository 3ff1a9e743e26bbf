// Fits a predictor of which neurons fire (P3), in closed form: the matrix of low rank whose
// products with inputs like those of a text differ least from the gate's. What the text does not
// say of inputs, the gate's own weights decide, so that a short text is enough for any rank.
#pragma once

#include <span>
#include <vector>

#include "kernels/kernels.h"
#include "weights/neurons/predictor.h"
#include "weights/store.h"

namespace troika::tune {

// The inputs of a feed-forward block.
struct GateSamples {
  std::vector<float> x;  // (n_tokens, width)
  size_t width = 0;
  size_t n_tokens() const { return x.size() / width; }
  std::span<const float> rows(size_t first, size_t n) const {
    return std::span(x).subspan(first * width, n * width);
  }
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

struct LayerFit {
  const kernels::Table& kernels;
  const weights::Matrix& gate;
  LiveRule rule;
  double recall = 0.95;  // the recall that is wanted for each neuron
};

// Fills a layer from the first n_directions tokens and, for the scores, the following n_scores;
// measures it on the rest. REQUIRES: n_directions > 0.
PredictorQuality fit_predictor_layer(const LayerFit& fit, const GateSamples& samples,
                                     size_t n_directions, size_t n_scores,
                                     weights::NeuronPredictor* predictor, uint64_t layer);

}  // namespace troika::tune
