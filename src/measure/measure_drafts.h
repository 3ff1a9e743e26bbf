// Measures what drafts cost and give: passes by width, and an answer that is replayed with and
// without drafts.
#pragma once

#include <vector>

#include "base/progress.h"
#include "engine/generate.h"
#include "measure/peaks.h"
#include "measure/prompt_peak.h"

namespace troika::measure {

struct WidthTime {
  int width = 0;       // counts rows of a pass in the phase of steps, all with logits
  double ms = 0.0;     // the median time
  double ratio = 0.0;  // the time divided by that of one row; 0 where one row was not timed
  // The time of its bytes, the cache's too, at the machine's read rate; 0 where that is not known.
  double read_ms = 0.0;
  // The time of its operations at the machine's peak in their precision; 0 where it is not known.
  double multiply_ms = 0.0;
  bool fits_last_cache = false;  // if set, the step may take less than read_ms
};

struct WidthTimes {
  std::vector<WidthTime> times;
  Peaks peaks;
  NamedPeak multiplying;  // the one of them that bounds steps
};

// Returns the median time of a step of each width, in ms. Steps verify chains behind `depth`
// tokens; widths take turns, `repetitions` times. Throws UsageError for widths that a step cannot
// have, and Error where the context has no room.
std::vector<double> step_ms(engine::Session& session, const std::vector<int>& widths, int depth,
                            int repetitions, const ProgressFunction& progress = {});

// Measures what step_ms measures, and then what the machine allows.
WidthTimes measure_widths(engine::Session& session, const std::vector<int>& widths, int depth,
                          int repetitions, const ProgressFunction& progress = {});

struct Replay {
  int n_prompt = 0;
  int n_tokens = 0;
  double plain_ms = 0.0;    // the median time of a token
  double drafted_ms = 0.0;  // the median time of a token with drafts
  double ratio = 0.0;       // the ratio of the speeds: the median over the pairs
  double lowest = 0.0;
  double highest = 0.0;
};

// Generates `answer` behind `prompt` (teacher forcing), in turn without and with drafts. One
// drafter serves all pairs, but begins each answer knowing the prompt alone. The statistics are
// those of the last answer.
Replay replay(engine::Session& session, std::span<const cache::Token> prompt,
              const std::vector<cache::Token>& answer, draft::Drafter& drafter, int n_pairs,
              const ProgressFunction& progress = {});

}  // namespace troika::measure
