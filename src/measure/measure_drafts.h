// What drafts cost and give: passes by width, and an answer replayed with and without them.
#pragma once

#include <vector>

#include "base/progress.h"
#include "engine/generate.h"
#include "measure/peaks.h"

namespace troika::measure {

struct WidthTime {
  int width;           // rows of a pass in the phase of steps, all with logits
  double ms;           // median
  double ratio;        // to one row
  double read_ms;      // its bytes at the machine's read rate
  double multiply_ms;  // its operations at the machine's peak of int8; 0 where that is not known
};

struct WidthTimes {
  std::vector<WidthTime> times;
  Peaks peaks;
};

// What a step of each width takes in ms: chains behind `depth` tokens, each width in turn,
// `repetitions` times, the median. Throws UsageError for widths that a step cannot have.
std::vector<double> step_ms(engine::Session& session, const std::vector<int>& widths, int depth,
                            int repetitions, const ProgressFunction& progress = {});

// The same, and then what the machine allows.
WidthTimes measure_widths(engine::Session& session, const std::vector<int>& widths, int depth,
                          int repetitions, const ProgressFunction& progress = {});

struct Replay {
  int n_prompt = 0;
  int n_tokens = 0;
  double plain_ms = 0.0;    // for each token, median
  double drafted_ms = 0.0;  // with drafts
  double ratio = 0.0;       // of the speeds, median of the pairs
  double lowest = 0.0;
  double highest = 0.0;
};

// Generates `answer` behind `prompt` (teacher forcing), plain and with drafts in alternation. The
// same drafter serves all pairs, but begins each answer knowing the prompt alone. Statistics of the
// drafter are those of the last one.
Replay replay(engine::Session& session, std::span<const cache::Token> prompt,
              const std::vector<cache::Token>& answer, draft::Drafter& drafter, int n_pairs,
              const ProgressFunction& progress = {});

}  // namespace troika::measure
