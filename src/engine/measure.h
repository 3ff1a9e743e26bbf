// Measures a model on this machine: prefill and decode rates, beside the machine's own read rate.
#pragma once

#include <string>
#include <vector>

#include "base/progress.h"
#include "engine/session.h"

namespace troika::engine {

struct Rate {
  int n_tokens = 0;
  double median = 0.0;  // tokens per second
  double lowest = 0.0;
  double highest = 0.0;
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
  double read_gb_s = 0.0;     // this machine's, with the same threads
  double decode_bytes = 0.0;  // of weights and cache that a step reads, on average
  double fraction_of_bandwidth = 0.0;
  bool fits_last_cache = false;  // then the fraction may exceed 1
  double first_token_s = 0.0;    // of the shortest prefill: prompt to first token
  size_t peak_bytes = 0;         // resident, before the read rate was measured
  bool is_cold = false;          // the first pass was much slower: the file was not in memory
};

// Throws Error where a wanted length does not fit the context.
Measurement measure(Session& session, const MeasureOptions& options,
                    const ProgressFunction& progress);

// Bytes per second / 1e9 that so many threads read from a buffer far larger than the last cache,
// the median of a few runs.
double measure_read_gb_s(int n_threads);

}  // namespace troika::engine
