#include "engine/batch_runner.h"

#include <algorithm>

#include "base/clock.h"
#include "base/error.h"
#include "base/units.h"
#include "engine/engine.h"
#include "machines/phone_neurons.h"
#include "machines/phone_prompts.h"
#include "schedule/chunks.h"

namespace troika::engine {

BatchRunner::BatchRunner(Engine& engine)
    : engine_(engine), rope_angles_(engine.blueprint().ropes, engine.plan().context) {
  // Reserves memory so that steps allocate nothing. A longer prompt takes more memory when it
  // comes.
  const plan::Plan& plan = engine.plan();
  const int most_rows = plan.most_step_rows();
  placed_.reserve(most_rows, most_rows);
  const auto n_rows = static_cast<size_t>(most_rows);
  const auto n_pairs = static_cast<size_t>(rope_angles_.n_pairs());
  tokens_.reserve(n_rows);
  rope_cos_.reserve(n_rows * n_pairs);
  rope_sin_.reserve(n_rows * n_pairs);
  output_rows_.reserve(static_cast<size_t>(plan.output_shapes.back()));
}

// Places the rows. Slots that only idle sequences hold are free for whoever needs them.
void BatchRunner::begin(const cache::Batch& batch, const Watch& watch) {
  watch_ = watch;
  engine_.passes().sequences.evict_until(batch.size());
  engine_.passes().kv.place(batch, &placed_);
}

// Runs any pass: places its rows, calls `compute`, and keeps the chosen rows.
template <typename Compute>
void BatchRunner::run_placed(const cache::Batch& batch, const Watch& watch, ChooseRows choose,
                             Compute compute) {
  begin(batch, watch);
  std::span<const int> kept;
  try {
    fill_rows(batch);
    compute();
    // If the file was cut short meanwhile, nothing that was read from it can be trusted.
    engine_.file().check_intact();
    if (choose) kept = choose();
  } catch (...) {
    engine_.passes().kv.drop(placed_);
    throw;
  }
  if (choose) {
    engine_.passes().kv.keep(batch, placed_, kept);
  } else {
    engine_.passes().kv.keep_all(batch, placed_);
  }
}

void BatchRunner::run(const cache::Batch& batch, plan::Phase phase, RowSink sink, ChooseRows choose,
                      const Watch& watch) {
  const EnginePhone phone = engine_.phone();
  if (phase == plan::Phase::kStep && phone.prompts != nullptr) {
    phone.prompts->finish({watch.trace, engine_.machine().lanes().size()});
  }
  run_placed(batch, watch, choose, [&] {
    const lanes::Run run = run_of_rows(phase, 0, batch.rows.size());
    schedule::RunOptions how;
    how.trace = watch_.trace;
    if (phone.neurons != nullptr && phase == plan::Phase::kStep) {
      how.policy = &phone.neurons->policy();
    }
    engine_.passes().runner.run(engine_.graphs().body(phase, batch.size()).pass, run, how);
    if (watch_.prompt != nullptr) observe(batch, run, 0);
    run_head(batch, run, 0, sink);
  });
}

// Computes a prompt in chunks. All rows are placed before the first chunk begins, so each row sees
// those of earlier chunks as part of its own chain.
void BatchRunner::run_prompt(const cache::Batch& batch, int n_prompt, RowSink sink,
                             const Watch& watch) {
  run_placed(batch, watch, {}, [&] {
    const schedule::Graphs& graphs = engine_.graphs();
    std::vector<const schedule::TaskList*> chunks;
    std::vector<lanes::Run> runs;
    std::vector<size_t> firsts;  // the first row of each chunk
    for (size_t first = 0; first < batch.rows.size();) {
      const plan::Shape part = engine_.plan().prompt_chunk(batch.rows[first].position, n_prompt);
      const size_t n_rows = std::min(static_cast<size_t>(part.n_rows), batch.rows.size() - first);
      chunks.push_back(&graphs.body(part.phase, static_cast<int>(n_rows)));
      runs.push_back(run_of_rows(part.phase, first, n_rows));
      runs.back().buffer_set = schedule::buffer_set_of(runs.size() - 1, graphs.n_sets());
      firsts.push_back(first);
      first += n_rows;
    }
    const schedule::Pass pass =
        schedule::pass_of_chunks(chunks, engine_.plan().order, graphs.n_sets());
    Passes& passes = engine_.passes();
    passes.runner.run(pass, runs, {passes.chunk_policy.get(), &passes.statistics, watch_.trace});
    for (size_t i = 0; watch_.prompt != nullptr && i < runs.size(); ++i) {
      observe(batch, runs[i], firsts[i]);
    }
    run_head(batch, runs.back(), firsts.back(), sink);
  });
}

// Fills in those parts of a run that follow from tokens and positions.
void BatchRunner::fill_rows(const cache::Batch& batch) {
  const auto n_pairs = static_cast<size_t>(rope_angles_.n_pairs());
  const auto n_rows = batch.rows.size();
  tokens_.resize(n_rows);
  rope_cos_.resize(n_rows * n_pairs);
  rope_sin_.resize(n_rows * n_pairs);
  for (size_t row = 0; row < n_rows; ++row) {
    tokens_[row] = batch.rows[row].token;
    TROIKA_ASSERT(tokens_[row] >= 0 && tokens_[row] < engine_.blueprint().n_vocab);
    // Without values nobody reads angles, and thousands of simulated prompts would wait for them.
    if (!engine_.has_values()) continue;
    rope_angles_.fill(batch.rows[row].position, rope_cos_.data() + row * n_pairs,
                      rope_sin_.data() + row * n_pairs);
  }
}

lanes::Run BatchRunner::run_of_rows(plan::Phase phase, size_t first, size_t n_rows) {
  const auto n_pairs = static_cast<size_t>(rope_angles_.n_pairs());
  lanes::Run run;
  run.phase = phase;
  run.n_tokens = static_cast<int>(n_rows);
  run.tokens = std::span<const cache::Token>(tokens_).subspan(first, n_rows);
  run.rope_cos = rope_cos_.data() + first * n_pairs;
  run.rope_sin = rope_sin_.data() + first * n_pairs;
  run.slots = std::span<const cache::Slot>(placed_.slots).subspan(first, n_rows);
  run.visible = std::span<const cache::VisibleSlots>(placed_.visible).subspan(first, n_rows);
  run.kv = &engine_.passes().kv;
  run.observer = watch_.inputs;
  run.gives_way = gives_way_;
  return run;
}

const float* BatchRunner::run_outputs(lanes::Run* run) {
  run->output_rows = output_rows_;
  run->n_outputs = static_cast<int>(output_rows_.size());
  schedule::RunOptions how;
  how.trace = watch_.trace;
  engine_.passes().runner.run(engine_.graphs().head(run->n_outputs).pass, *run, how);
  return engine_.graphs().logits(run->buffer_set);
}

// Computes the head for wanted rows, as many at a time as its largest executable takes. `take` is
// told each row and its logits.
template <typename Wants, typename Take>
void BatchRunner::for_outputs(lanes::Run run, Wants wants, Take take) {
  const auto most_outputs = static_cast<size_t>(engine_.plan().output_shapes.back());
  const auto n_vocab = static_cast<size_t>(engine_.blueprint().n_vocab);
  for (int row = 0; row < run.n_tokens;) {
    output_rows_.clear();
    for (; row < run.n_tokens && output_rows_.size() < most_outputs; ++row) {
      if (wants(row)) output_rows_.push_back(row);
    }
    if (output_rows_.empty()) break;
    const float* logits = run_outputs(&run);
    for (size_t i = 0; i < output_rows_.size(); ++i) {
      take(output_rows_[i], std::span<const float>(logits + i * n_vocab, n_vocab));
    }
  }
}

// Shows the observer the logits that it wants, for a run of the rows from `first` on.
void BatchRunner::observe(const cache::Batch& batch, const lanes::Run& run, size_t first) {
  const Clock& clock = engine_.machine().clock();
  const double start_us = clock.now_us();
  PromptObserver& observer = *watch_.prompt;
  const auto position = [&](int row) {
    return batch.rows[first + static_cast<size_t>(row)].position;
  };
  if (!engine_.has_values()) {
    int n_wanted = 0;
    for (int row = 0; row < run.n_tokens; ++row) n_wanted += observer.wants(position(row));
    engine_.phone().prompts->calibrate(n_wanted);
    return;
  }
  for_outputs(
      run, [&](int row) { return observer.wants(position(row)); },
      [&](int row, std::span<const float> logits) { observer.see(position(row), logits); });
  observer.took((clock.now_us() - start_us) / kUsPerMs);
}

// Hands the head's rows to whoever runs the batch.
void BatchRunner::run_head(const cache::Batch& batch, const lanes::Run& run, size_t first,
                           RowSink sink) {
  for_outputs(
      run, [&](int row) { return batch.rows[first + static_cast<size_t>(row)].wants_logits; },
      [&](int row, std::span<const float> logits) {
        if (sink) sink(static_cast<int>(first) + row, logits);
      });
}

}  // namespace troika::engine
