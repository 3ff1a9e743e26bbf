// Finds which neurons of a model matter little: thresholds below which an activation of the gate
// counts as 0, so that models without ReLU can skip neurons too (P12), and what that costs on a
// text.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/progress.h"
#include "engine/engine.h"
#include "plan/plan.h"
#include "prepare/options.h"

namespace troika::tune {

inline constexpr int kLeastSparsityTokens = 256;  // fewer would tell too little

struct SparsityOptions {
  prepare::Options engine;
  std::string text;  // the first half gives the thresholds, and the second half is measured
  size_t most_tokens = 4096;                        // limits what is read of the text
  std::vector<double> kept = {1.0, 0.7, 0.5, 0.3};  // the shares of neurons that stay live
  // Limits how many activations of a block give its threshold. They are drawn evenly from all.
  size_t most_magnitudes = size_t{1} << 20;
  // Is told the engine before it reads.
  std::function<void(const engine::Engine& engine)> made{};
  ProgressFunction progress{};
};

struct SparsityRow {
  double kept = 1.0;              // the share that was asked for
  double live = 1.0;              // the share of neurons that were live on the measured half
  std::vector<float> thresholds;  // one threshold for each block
  double perplexity = 0.0;
  // The share of positions whose likeliest token is the same as with all neurons.
  double agreement = 1.0;
  plan::Plan plan;
};

struct SparsityReport {
  size_t n_found = 0;       // counts tokens that gave the thresholds
  size_t n_measured = 0;    // counts tokens that were predicted
  double perplexity = 0.0;  // the perplexity with all neurons, in the same numerics class
  std::vector<SparsityRow> rows;
};

// Computes prompts as steps are computed, so that every token skips neurons. Throws UsageError for
// a model without a gate or a share that makes no sense, Error for a text that is too short.
SparsityReport measure_sparsity(const SparsityOptions& options);

}  // namespace troika::tune
