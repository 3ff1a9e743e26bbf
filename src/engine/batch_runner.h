// Runs batches over the graphs of an engine: batch and cache go in, rows come out. A runner knows
// no history and no sampler, so several sequences may share a batch. Its memory is used again by
// every pass.
#pragma once

#include <span>
#include <vector>

#include "base/function_ref.h"
#include "base/trace.h"
#include "cache/batch.h"
#include "cache/kv_cache.h"
#include "lanes/lane.h"
#include "model/rope.h"
#include "plan/plan.h"

namespace troika::schedule {
class Graphs;
}

namespace troika::engine {

class Engine;

// Is shown logits of a prompt's positions while the prompt is read (D2). These logits follow from a
// body that was computed as prompts are, not as generation is, which is good enough for guesses.
class PromptObserver {
 public:
  virtual ~PromptObserver() = default;
  virtual bool wants(int position) const = 0;
  virtual void see(int position, std::span<const float> logits) = 0;
  // Is told what the head and `see` took in all. Where passes take modelled time only, neither is
  // called.
  virtual void took(double ms) = 0;
};

// Who watches what a pass does; each may be null.
struct Watch {
  PromptObserver* prompt = nullptr;
  lanes::InputObserver* inputs = nullptr;  // watches inputs of products
  Trace* trace = nullptr;  // records every task; it has the rows that the engine names
};

// Runs batches as passes. Every function REQUIRES that the mutex of the engine's passes is held.
class BatchRunner {
 public:
  explicit BatchRunner(Engine& engine);

  // Gets the logits of each row that wants them, in order. They stay until the next pass if no more
  // rows want them than the largest shape of outputs has.
  using RowSink = FunctionRef<void(int row, std::span<const float> logits)>;
  // Returns the rows that become part of their sequences, in that order; all other rows are
  // forgotten.
  using ChooseRows = FunctionRef<std::span<const int>()>;

  // Computes a batch as one pass of a phase. Without `choose` all rows are kept. Where it throws,
  // the cache is as it was before. REQUIRES: the batch fits into an executable of the phase, and
  // its sequences are open.
  void run(const cache::Batch& batch, plan::Phase phase, RowSink sink, ChooseRows choose = {},
           const Watch& watch = {});
  // Computes consecutive rows of a prompt of n_prompt tokens in the plan's chunks, several chunks
  // at once where the machine has several lanes, and keeps all rows. REQUIRES: only the last row
  // may want logits.
  void run_prompt(const cache::Batch& batch, int n_prompt, RowSink sink, const Watch& watch = {});

  // Says whether cores that compute go to other threads now and then, as programs need that talk
  // with this one.
  void set_gives_way(bool gives_way) { gives_way_ = gives_way; }
  bool gives_way() const { return gives_way_; }

 private:
  template <typename Compute>
  void run_placed(const cache::Batch& batch, const Watch& watch, ChooseRows choose,
                  Compute compute);
  void begin(const cache::Batch& batch, const Watch& watch);
  void fill_rows(const cache::Batch& batch);
  lanes::Run run_of_rows(plan::Phase phase, size_t first, size_t n_rows);
  void run_head(const cache::Batch& batch, const lanes::Run& run, size_t first, RowSink sink);
  void observe(const cache::Batch& batch, const lanes::Run& run, size_t first);
  template <typename Wants, typename Take>
  void for_outputs(lanes::Run run, Wants wants, Take take);
  // Computes the head for the rows of `output_rows_`. Returns where their logits lie.
  const float* run_outputs(lanes::Run* run);

  Engine& engine_;
  model::RopeAngles rope_angles_;
  bool gives_way_ = false;
  Watch watch_;  // watches the current pass
  cache::PlacedBatch placed_;
  std::vector<cache::Token> tokens_;
  std::vector<float> rope_cos_, rope_sin_;
  std::vector<int> output_rows_;  // rows of the part of a batch at hand
};

}  // namespace troika::engine
