// Runs a model over a text to find out how its prompts can be computed in int8: limits and outliers
// of every product's input, and what each method loses.
#pragma once

#include <string>

#include "base/progress.h"
#include "plan/plan.h"
#include "prepare/options.h"

namespace troika::tune {

struct CalibrateOptions {
  prepare::Options engine;  // lanes, threads and kernels
  std::string text;         // the text that is run
  std::string text_name;    // for people
  size_t most_tokens = 8192;
  bool alternatives = false;  // measures SmoothQuant, LLM.int8() and groups too (N11)
  // Finds limits and outliers alone, from few passes in the class that prompts usually have; the
  // caller measures the methods.
  bool is_brief = false;
  // Keeps passes that are done until all are; empty: nothing is kept.
  std::string folder;
  ProgressFunction progress;  // counts tokens of all passes
};

struct Calibration {
  plan::Int8Plan int8;  // has the method that was chosen
  plan::Prefill prefill = plan::Prefill::kBf16;
  std::string reason;
  size_t n_passes = 0;
  // Counts passes that a calibration made which was cut off.
  size_t n_found_earlier = 0;
};

// Is the share of perplexity that a method of int8 may lose.
inline constexpr double kMostInt8Loss = 0.005;
// Is the share of an input's outliers that its hot channels have (N5).
inline constexpr double kHotShare = 0.8;

// Throws Error for a text that is too short.
Calibration calibrate(const CalibrateOptions& options);

}  // namespace troika::tune
