#include "engine/session.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "base/error.h"
#include "engine/make_plan.h"
#include "schedule/chunks.h"
#include "schedule/run.h"

namespace troika::engine {
namespace {

// Of chunks in flight, times so many, before a caller who may cancel is asked again.
constexpr size_t kChunksBetweenLooks = 4;

template <typename Function>
class ScopeEnd {
 public:
  explicit ScopeEnd(Function function) : function_(function) {}
  ~ScopeEnd() { function_(); }

 private:
  Function function_;
};

// Where nothing is computed, positions count, but keys and values need no room.
cache::KvShape kv_shape_of(const Engine& engine) {
  cache::KvShape shape = kv_shape(engine.plan(), engine.blueprint());
  if (!engine.has_values()) shape.n_layers = 0;
  return shape;
}

}  // namespace

Session::Session(Engine& engine) : engine_(engine), kv_(kv_shape_of(engine)) {
  history_.reserve(static_cast<size_t>(context()));
  logits_.resize(static_cast<size_t>(engine.blueprint().n_vocab));
}

void Session::check_room(size_t n_tokens) const {
  if (n_tokens <= static_cast<size_t>(context())) return;
  throw Error(
      fmt::format("The prompt has {} tokens, but the context holds {}. Shorten the prompt "
                  "or use --context {}.",
                  n_tokens, context(), n_tokens));
}

void Session::check_tokens(std::span<const Token> tokens) const {
  const int n_vocab = engine_.blueprint().n_vocab;
  for (const Token token : tokens) {
    if (token >= 0 && token < n_vocab) continue;
    throw Error(
        fmt::format("{} is no token of this model, which has tokens 0 to {}.", token, n_vocab - 1));
  }
}

void Session::keep_logits(std::span<const float> row) {
  std::copy(row.begin(), row.end(), logits_.begin());
  has_logits_ = true;
}

int Session::prefill(std::span<const Token> tokens, const std::atomic<bool>* cancel,
                     PromptObserver* observer) {
  if (tokens.empty()) {
    throw Error(
        "The prompt is empty, so there is nothing to continue. Give at least one token of "
        "text.");
  }
  check_room(tokens.size());
  check_tokens(tokens);
  const auto shared = static_cast<int>(
      std::mismatch(tokens.begin(), tokens.end(), history_.begin(), history_.end()).first -
      tokens.begin());
  // The last token is computed again where everything is shared: its logits are wanted.
  const int n_reused =
      std::min({shared, kv_.length(kSequence), static_cast<int>(tokens.size()) - 1});
  truncate(n_reused);
  const std::span<const Token> fresh = tokens.subspan(static_cast<size_t>(n_reused));
  const auto chunk = static_cast<size_t>(engine_.plan().chunk());
  const bool has_lanes = engine_.machine().lanes().size() > 1;
  // With several lanes the chunks of a prompt go together. Who may cancel is asked now and then.
  size_t most = fresh.size();
  if (!has_lanes) most = chunk;
  if (has_lanes && cancel != nullptr) {
    most = chunk * kChunksBetweenLooks * static_cast<size_t>(engine_.graphs().n_sets());
  }
  // What is observed must still be in its buffers.
  if (has_lanes && observer != nullptr) {
    most = chunk * static_cast<size_t>(engine_.graphs().n_sets());
  }
  observer_ = observer;
  const ScopeEnd forget([this] { observer_ = nullptr; });
  size_t n_done = 0;
  while (n_done < fresh.size()) {
    if (n_done > 0 && cancel != nullptr && cancel->load(std::memory_order_relaxed)) break;
    const std::span<const Token> part =
        fresh.subspan(n_done, std::min(most, fresh.size() - n_done));
    batch_.clear();
    batch_.add_chain(part, static_cast<int>(history_.size()), kSequence);
    batch_.rows.back().wants_logits = n_done + part.size() == fresh.size();
    has_logits_ = false;
    plan_layouts(fresh.size() - n_done, n_done == 0);
    if (has_lanes) {
      run_chunks(batch_, chunk);
    } else {
      run(batch_, 0, [this](int, std::span<const float> row) { keep_logits(row); }, {});
    }
    history_.insert(history_.end(), part.begin(), part.end());
    n_done += part.size();
  }
  return static_cast<int>(n_done);
}

// Before a chunk, where weights change their layout: so many tokens are left of the prompt.
void Session::plan_layouts(size_t n_tokens, bool is_first) {
  if (engine_.layouts() == nullptr) return;
  const std::lock_guard<std::mutex> lock(engine_.pass_mutex());
  engine_.layouts()->plan_prompt(static_cast<int>(n_tokens), engine_.plan().chunk(), is_first);
}

// Brings the last token of the history into the cache, where it is not there yet.
void Session::compute_pending() {
  if (kv_.length(kSequence) < static_cast<int>(history_.size())) compute_last();
}

void Session::compute_last() {
  kv_.truncate(kSequence, static_cast<int>(history_.size()) - 1);
  batch_.clear();
  batch_.add_chain(std::span<const Token>(history_).last(1), static_cast<int>(history_.size()) - 1,
                   kSequence);
  has_logits_ = false;
  run(batch_, 0, [this](int, std::span<const float> row) { keep_logits(row); }, {});
}

std::span<const float> Session::logits() {
  TROIKA_ASSERT(!history_.empty());
  if (!has_logits_) compute_last();
  return logits_;
}

void Session::check_next() const {
  if (history_.size() < static_cast<size_t>(context())) return;
  throw Error(fmt::format("The context of {} tokens is full. Use a larger --context.", context()));
}

Token Session::next(Sampler& sampler) {
  check_next();
  const Token token = sampler.sample(history_, logits());
  append(token);
  return token;
}

void Session::append(Token token) {
  TROIKA_ASSERT(history_.size() < static_cast<size_t>(context()));
  history_.push_back(token);
  has_logits_ = false;
}

void Session::evaluate(std::span<const Token> tokens, const LogitSink& sink) {
  check_room(history_.size() + tokens.size());
  check_tokens(tokens);
  compute_pending();
  const auto chunk = static_cast<size_t>(engine_.plan().chunk());
  for (size_t n_done = 0; n_done < tokens.size();) {
    const std::span<const Token> part =
        tokens.subspan(n_done, std::min(chunk, tokens.size() - n_done));
    batch_.clear();
    batch_.add_chain(part, static_cast<int>(history_.size()), kSequence, /*all_logits=*/true);
    has_logits_ = false;
    plan_layouts(tokens.size() - n_done, n_done == 0);
    const auto last = static_cast<int>(n_done + part.size()) - 1;
    const auto pass_on = [&](int index, std::span<const float> row) {
      if (sink) sink(index, row);
      if (index == last) std::copy(row.begin(), row.end(), logits_.begin());
    };
    run(batch_, static_cast<int>(n_done), pass_on, {});
    history_.insert(history_.end(), part.begin(), part.end());
    has_logits_ = true;
    n_done += part.size();
  }
}

void Session::run_batch(const cache::Batch& batch, const LogitSink& sink, const ChoosePath& path) {
  check_room(history_.size() + static_cast<size_t>(batch.size()));
  for (const cache::Batch::Row& row : batch.rows) check_tokens({&row.token, 1});
  TROIKA_ASSERT(batch.size() >= 1 && batch.size() <= engine_.plan().chunk());
  compute_pending();
  std::vector<int> kept;
  const auto choose = [&] {
    kept = path();
    for (size_t i = 0; i < kept.size(); ++i) {
      TROIKA_ASSERT(kept[i] >= 0 && kept[i] < batch.size());
      TROIKA_ASSERT(batch.rows[static_cast<size_t>(kept[i])].parent == (i == 0 ? -1 : kept[i - 1]));
    }
    return kept;
  };
  run(batch, 0, sink, choose);
  if (kept.empty()) return;
  for (const int row : kept) history_.push_back(batch.rows[static_cast<size_t>(row)].token);
  has_logits_ = false;
}

void Session::truncate(int length) {
  TROIKA_ASSERT(length >= 0);
  if (length >= static_cast<int>(history_.size())) return;
  history_.resize(static_cast<size_t>(length));
  kv_.truncate(kSequence, length);
  has_logits_ = false;
}

// Computes a batch and keeps the rows of the path, all where no path is given. Whatever is thrown
// on the way, the cache is as it was before.
void Session::run(const cache::Batch& batch, int first_index, const LogitSink& sink,
                  const ChoosePath& path) {
  const std::lock_guard<std::mutex> lock(engine_.pass_mutex());
  kv_.place(batch, &placement_);
  std::vector<int> kept;
  try {
    compute(batch, first_index, sink);
    // Nothing read from a file that was cut short meanwhile may be believed.
    engine_.file().check_intact();
    if (path) kept = path();
  } catch (...) {
    kv_.drop(placement_);
    throw;
  }
  if (path) {
    kv_.keep(batch, placement_, kept);
  } else {
    kv_.keep_all(batch, placement_);
  }
}

// The parts of a run that follow from tokens and positions.
void Session::fill_rows(const cache::Batch& batch) {
  const auto n_pairs = static_cast<size_t>(engine_.rope_angles().n_pairs());
  const auto n_rows = batch.rows.size();
  tokens_.resize(n_rows);
  rope_cos_.resize(n_rows * n_pairs);
  rope_sin_.resize(n_rows * n_pairs);
  for (size_t row = 0; row < n_rows; ++row) {
    tokens_[row] = batch.rows[row].token;
    TROIKA_ASSERT(tokens_[row] >= 0 && tokens_[row] < engine_.blueprint().n_vocab);
    engine_.rope_angles().fill(batch.rows[row].position, rope_cos_.data() + row * n_pairs,
                               rope_sin_.data() + row * n_pairs);
  }
}

lanes::Run Session::run_of_rows(size_t first, size_t n_rows) {
  const auto n_pairs = static_cast<size_t>(engine_.rope_angles().n_pairs());
  lanes::Run run;
  run.n_tokens = static_cast<int>(n_rows);
  run.tokens = std::span<const Token>(tokens_).subspan(first, n_rows);
  run.rope_cos = rope_cos_.data() + first * n_pairs;
  run.rope_sin = rope_sin_.data() + first * n_pairs;
  run.slots = std::span<const cache::Slot>(placement_.slots).subspan(first, n_rows);
  run.visible = std::span<const cache::VisibleSlots>(placement_.visible).subspan(first, n_rows);
  run.kv = &kv_;
  run.observer = engine_.observer();
  return run;
}

void Session::compute(const cache::Batch& batch, int first_index, const LogitSink& sink) {
  fill_rows(batch);
  const lanes::Run run = run_of_rows(0, batch.rows.size());
  schedule::run_in_order(engine_.graphs().body(batch.size()), run, engine_.machine(),
                         engine_.trace(), engine_.layouts());
  observe(batch, run, 0);
  run_head(batch, run, 0, first_index, sink);
}

// The head for the rows that the observer wants, of a run of the rows from `first` on.
void Session::observe(const cache::Batch& batch, lanes::Run run, size_t first) {
  if (observer_ == nullptr) return;
  using Clock = std::chrono::steady_clock;
  const Clock::time_point start = Clock::now();
  const schedule::Graphs& graphs = engine_.graphs();
  const auto most_outputs = static_cast<size_t>(engine_.plan().output_shapes.back());
  const auto n_vocab = static_cast<size_t>(engine_.blueprint().n_vocab);
  const int n_rows = run.n_tokens;
  const auto position = [&](int row) {
    return batch.rows[first + static_cast<size_t>(row)].position;
  };
  for (int row = 0; row < n_rows;) {
    output_rows_.clear();
    for (; row < n_rows && output_rows_.size() < most_outputs; ++row) {
      if (observer_->wants(position(row))) output_rows_.push_back(row);
    }
    if (output_rows_.empty()) break;
    run.output_rows = output_rows_;
    run.n_outputs = static_cast<int>(output_rows_.size());
    schedule::run_in_order(graphs.head(run.n_outputs), run, engine_.machine(), engine_.trace());
    const float* logits = graphs.logits(run.buffer_set);
    for (size_t i = 0; i < output_rows_.size(); ++i) {
      observer_->see(position(output_rows_[i]), {logits + i * n_vocab, n_vocab});
    }
  }
  observer_->took(std::chrono::duration<double, std::milli>(Clock::now() - start).count());
}

// The head runs for as many rows at a time as its largest executable of the numerics class of
// decoding takes. `run` is that of the rows from `first` on.
void Session::run_head(const cache::Batch& batch, lanes::Run run, size_t first, int first_index,
                       const LogitSink& sink) {
  const schedule::Graphs& graphs = engine_.graphs();
  const auto most_outputs =
      static_cast<size_t>(std::min(engine_.plan().output_shapes.back(), plan::kMostDecodeTokens));
  const auto n_vocab = static_cast<size_t>(engine_.blueprint().n_vocab);
  const auto n_rows = static_cast<size_t>(run.n_tokens);
  for (size_t row = 0; row < n_rows;) {
    output_rows_.clear();
    for (; row < n_rows && output_rows_.size() < most_outputs; ++row) {
      if (batch.rows[first + row].wants_logits) output_rows_.push_back(static_cast<int>(row));
    }
    if (output_rows_.empty()) break;
    run.output_rows = output_rows_;
    run.n_outputs = static_cast<int>(output_rows_.size());
    schedule::run_in_order(graphs.head(run.n_outputs), run, engine_.machine(), engine_.trace());
    const float* logits = graphs.logits(run.buffer_set);
    for (size_t i = 0; i < output_rows_.size(); ++i) {
      if (sink) sink(first_index + output_rows_[i], {logits + i * n_vocab, n_vocab});
    }
  }
}

// All rows are placed before the first chunk begins, so each of them sees those of the chunks
// before it as part of its own chain.
void Session::run_chunks(const cache::Batch& batch, size_t chunk) {
  const std::lock_guard<std::mutex> lock(engine_.pass_mutex());
  kv_.place(batch, &placement_);
  try {
    fill_rows(batch);
    const schedule::Graphs& graphs = engine_.graphs();
    const plan::Order order = engine_.plan().order;
    std::vector<schedule::ChunkRun> chunks;
    for (size_t first = 0; first < batch.rows.size(); first += chunk) {
      const size_t n_rows = std::min(chunk, batch.rows.size() - first);
      const int set = schedule::buffer_set_of(chunks.size(), graphs.n_sets());
      chunks.push_back({&graphs.body(static_cast<int>(n_rows)), run_of_rows(first, n_rows)});
      chunks.back().run.buffer_set = set;
    }
    schedule::ExpectedTimes& times = engine_.expected_times();
    const schedule::ChunksPass pass =
        schedule::pass_of_chunks(chunks, order, graphs.n_sets(), times);
    const std::unique_ptr<schedule::Policy> policy = schedule::make_policy(order);
    schedule::Scheduler scheduler(engine_.machine(), *policy, engine_.trace());
    scheduler.run(pass.pass);
    engine_.scheduler_statistics().add(scheduler.statistics());
    for (size_t i = 0; i < pass.tasks.size(); ++i) {
      times.learn(*pass.tasks[i], *pass.pass.nodes[i].run, scheduler.node_us()[i]);
    }
    for (size_t i = 0; i < chunks.size(); ++i) observe(batch, chunks[i].run, i * chunk);
    run_head(batch, chunks.back().run, (chunks.size() - 1) * chunk, 0,
             [this](int, std::span<const float> row) { keep_logits(row); });
    // Nothing read from a file that was cut short meanwhile may be believed.
    engine_.file().check_intact();
  } catch (...) {
    kv_.drop(placement_);
    throw;
  }
  kv_.keep_all(batch, placement_);
}

}  // namespace troika::engine
