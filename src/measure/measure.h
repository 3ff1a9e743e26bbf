// Measures a model on this machine: prefill and decode rates, beside the machine's own read rate.
#pragma once

#include <string>
#include <vector>

#include "base/progress.h"
#include "engine/session.h"
#include "measure/peaks.h"
#include "measure/work.h"

namespace troika::measure {

struct Rate {
  int n_tokens = 0;
  double median = 0.0;  // tokens per second
  double lowest = 0.0;
  double highest = 0.0;
  // Prefill: useful operations over the peak of the precision taken; 0 where that is not known.
  double fraction_of_peak = 0.0;
};

struct MeasureOptions {
  std::vector<int> prefill_tokens = {128, 512, 1024};
  int decode_tokens = 64;
  int decode_context = 0;  // tokens in the cache before decoding begins
  int repetitions = 3;
};

struct Measurement {
  std::vector<Rate> prefill;
  Rate decode;
  Peaks peaks;                         // this machine's, with the same threads
  Work work;                           // of the model
  double decode_bytes = 0.0;           // of weights and cache that a step reads, on average
  double fraction_of_bandwidth = 0.0;  // of what the same memory gave a plain reader meanwhile
  bool fits_last_cache = false;        // then the fraction may exceed 1
  double first_token_s = 0.0;          // of the shortest prefill: prompt to first token
  size_t peak_bytes = 0;               // resident, before the read rate was measured
  bool is_cold = false;                // the first pass was much slower: the file was not in memory
};

// Throws Error where a wanted length does not fit the context.
void check_context(const engine::Session& session, const MeasureOptions& options);
// Throws as check_context does.
Measurement measure(engine::Session& session, const MeasureOptions& options,
                    const ProgressFunction& progress);

// One repetition: a prompt of seeded tokens, and its time in seconds; which tokens makes no
// difference to that.
double prefill_seconds(engine::Session& session, int n_tokens);
// Behind a context of at least one token; with a probe also what it read between the steps.
struct DecodeRun {
  double tokens_per_s = 0.0;
  double read_gb_s = 0.0;
};
DecodeRun decode_run(engine::Session& session, int n_context, int n_tokens,
                     ReadProbe* probe = nullptr);

}  // namespace troika::measure
