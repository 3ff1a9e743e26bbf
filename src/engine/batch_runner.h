// Runs batches over the graphs of an engine: batch and cache in, rows out. It knows no history and
// no sampler, so several sequences may share a batch. Its memory is reused by every pass.
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

// Sees logits of a prompt's positions while it is read (D2). They follow from a body that was
// computed as prompts are and not as generation is: good enough for guesses.
class PromptObserver {
 public:
  virtual ~PromptObserver() = default;
  virtual bool wants(int position) const = 0;
  virtual void see(int position, std::span<const float> logits) = 0;
  // What that took in all: the head, and `see`. Where only time is taken, neither is called.
  virtual void took(double ms) = 0;
};

// Who sees what a pass does; each may be null.
struct Watch {
  PromptObserver* prompt = nullptr;
  lanes::InputObserver* inputs = nullptr;  // of products
  Trace* trace = nullptr;                  // of every task; it has the rows that the engine names
};

// All of it REQUIRES that the mutex of the engine's passes is held.
class BatchRunner {
 public:
  explicit BatchRunner(Engine& engine);

  // Gets the logits of each row that wants them, in order. They stay until the next pass where no
  // more rows want them than the largest shape of outputs has.
  using RowSink = FunctionRef<void(int row, std::span<const float> logits)>;
  // Says which rows become part of their sequences, in the order in which they do; the others are
  // forgotten.
  using ChooseRows = FunctionRef<std::span<const int>()>;

  // Computes a batch as one pass of a phase. Without `choose` all rows are kept. Whatever is
  // thrown, the cache is as it was before. REQUIRES: it fits into an executable of the phase, and
  // its sequences are open.
  void run(const cache::Batch& batch, plan::Phase phase, RowSink sink, ChooseRows choose = {},
           const Watch& watch = {});
  // Computes rows that follow each other in a prompt of n_prompt tokens, in the plan's chunks,
  // several of them at once where the machine has several lanes, and keeps all. REQUIRES: only the
  // last row may want logits.
  void run_prompt(const cache::Batch& batch, int n_prompt, RowSink sink, const Watch& watch = {});

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
  // The head for the rows of `output_rows_`, and where their logits lie.
  const float* run_outputs(lanes::Run* run);
  void keep_all(const cache::Batch& batch);

  Engine& engine_;
  model::RopeAngles rope_angles_;
  Watch watch_;  // of the present pass
  cache::PlacedBatch placed_;
  std::vector<cache::Token> tokens_;
  std::vector<float> rope_cos_, rope_sin_;
  std::vector<int> output_rows_;  // of the part of a batch at hand
  std::vector<int> all_rows_;
};

}  // namespace troika::engine
