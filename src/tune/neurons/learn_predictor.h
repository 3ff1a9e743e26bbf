// Makes a predictor for all feed-forward blocks of a model (P3) on a text, and says what it loses.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/progress.h"
#include "engine/engine.h"
#include "prepare/options.h"
#include "tune/neurons/fit_predictor.h"

namespace troika::tune {

struct PredictorOptions {
  prepare::Options engine;
  std::string text;  // one half gives the matrices, a quarter the scores, and the rest judges
  size_t most_tokens = 4096;  // limits what is read of the text
  int rank = 0;               // 0: a quarter of the width
  double recall = 0.95;       // the recall that is wanted for each neuron
  // The memory that learning may take beside the model; none: what is free.
  std::optional<size_t> free_bytes = {};
  ProgressFunction progress{};
};

// What a predictor is worth in a layer of the model; in a mixture, in all its experts together.
struct PredictedLayer : PredictorQuality {
  int layer = 0;
};

struct PredictorReport {
  std::string path;  // the side file
  size_t bytes = 0;
  int rank = 0;
  size_t n_directions = 0, n_scores = 0, n_judged = 0;  // count tokens
  std::vector<PredictedLayer> layers;  // those that have blocks which are computed by neuron
  double perplexity = 0.0;  // the perplexity with the exact gate, on the tokens that judge
  double predicted_perplexity = 0.0;  // the perplexity with the predictor
  double agreement = 1.0;             // the share of positions with the same likeliest token
  double seconds = 0.0;
};

// Throws UsageError for options that make no sense, whatever the model.
void check_predictor_options(const PredictorOptions& options);

// Throws UsageError for a model that predictors are not for, or options that make no sense; Error
// for a text that is too short, memory that does not hold what is learned from, or a side file that
// cannot be written. `engine` is one of the model's that computes by neuron.
void check_predictor(const PredictorOptions& options, const engine::Engine& engine);

// Writes the side file that runs with ‹neuron-predictor› read. Throws as check_predictor() does.
PredictorReport learn_predictor(const PredictorOptions& options);

}  // namespace troika::tune
