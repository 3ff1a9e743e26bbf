// Counts how often each neuron of a model fires on a text (P8).
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/progress.h"
#include "engine/engine.h"
#include "prepare/options.h"
#include "weights/neurons/heat.h"

namespace troika::tune {

inline constexpr int kLeastHeatTokens = 64;  // fewer would tell too little

struct HeatOptions {
  prepare::Options engine;
  std::string text;
  size_t most_tokens = 4096;  // limits what is read of the text
  // Is told the engine before it reads.
  std::function<void(const engine::Engine& engine)> made{};
  ProgressFunction progress{};
};

struct HeatReport {
  struct Block {
    int layer = 0;
    uint64_t n_tokens = 0;  // counts tokens of the text: all, or those that took this expert
  };

  weights::NeuronHeat heat{1, 1};
  std::vector<Block> blocks;  // in the order of the heat's layers
  size_t n_written = 0;       // counts tokens that the model wrote behind parts of the text
  std::string path;           // the side file, or empty where none may be kept
  std::string problem;        // says why the side file could not be written; empty: it was
};

// Reads the text as steps are computed, lets the model go on from some places of it, counts, and
// writes the side file that runs look for where the options have side files. Throws UsageError for
// a model none of whose neurons are ever dead, Error for a text that is too short, or a side file
// that cannot be written: that before anything is read. What is counted comes with a `problem`
// where the disk becomes full meanwhile.
HeatReport measure_heat(const HeatOptions& options);

}  // namespace troika::tune
