// Measures a model on this machine: the rates of prefill and decoding, beside the machine's own
// read rate.
#pragma once

#include <string>
#include <vector>

#include "base/progress.h"
#include "engine/session.h"
#include "measure/neuron_work.h"
#include "measure/peaks.h"
#include "measure/work.h"

namespace troika::measure {

struct TokenRate {
  int n_tokens = 0;
  double median = 0.0;  // tokens per second
  double lowest = 0.0;
  double highest = 0.0;
  // Counts the operations of all the tokens, without those that blocks by neuron leave out.
  double operations = 0.0;
  // Says which share of the peak of the precision used these operations reach; 0 where the peak is
  // not known.
  double fraction_of_peak = 0.0;
};

struct MeasureOptions {
  std::vector<int> prefill_tokens = {128, 512, 1024};
  int decode_tokens = 64;
  int decode_context = 0;  // counts tokens in the cache before decoding begins
  int repetitions = 3;
};

struct Measurement {
  std::vector<TokenRate> prefill;
  TokenRate decode;
  Peaks peaks;  // the peaks of this machine with the same threads
  Work work;    // the work of the model
  // The mean bytes of weights and cache that a step reads: of blocks that are computed by neuron,
  // those of the gates and of live neurons.
  double decode_bytes = 0.0;
  double dense_decode_bytes = 0.0;  // those bytes if all neurons were live
  double decode_operations = 0.0;   // of products with weights, in a step
  // A share of the rate at which a plain reader read the same memory meanwhile; 0 where that rate
  // is not known, or a device reads at another one.
  double fraction_of_bandwidth = 0.0;
  bool fits_last_cache = false;  // if set, the fraction may exceed 1
  double first_token_s = 0.0;    // from prompt to first token, for the shortest prefill
  size_t peak_bytes = 0;         // resident memory, before the read rate was measured
  bool is_cold = false;          // the first pass was much slower, so the file was not in memory
};

// Returns the bytes of weights and cache that a step reads behind n_positions positions, if all
// neurons are live.
double bytes_per_step(const engine::Engine& engine, double n_positions);

// Throws Error where the context holds fewer than so many tokens.
void check_context(const engine::Session& session, size_t n_tokens);
// Throws Error where a wanted length does not fit the context.
void check_context(const engine::Session& session, const MeasureOptions& options);
// Throws as check_context does.
Measurement measure(engine::Session& session, const MeasureOptions& options,
                    const ProgressFunction& progress);

// Runs two short prompts: the first pass reads the file into memory and wakes the cores. Returns
// whether it was much slower than the second.
bool warm_up(engine::Session& session);
// Runs one repetition of a prompt of seeded tokens, and returns its time in seconds. Which tokens
// they are makes no difference to the time.
double prefill_seconds(engine::Session& session, int n_tokens);
// Decoding behind a context of at least one token; with a probe, also what the probe read between
// the steps.
struct DecodeRun {
  double tokens_per_s = 0.0;
  double read_gb_s = 0.0;
  NotComputed not_computed;  // by neuron, in a step
};
DecodeRun decode_run(engine::Session& session, int n_context, int n_tokens,
                     ReadProbe* probe = nullptr);

}  // namespace troika::measure
