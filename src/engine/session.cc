#include "engine/session.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "engine/make_plan.h"
#include "schedule/run.h"

namespace troika::engine {
namespace {

constexpr cache::SequenceId kSequence = 0;

}  // namespace

Session::Session(Engine& engine)
    : engine_(engine), kv_(kv_shape(engine.plan(), engine.blueprint())) {
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

int Session::prefill(std::span<const Token> tokens, const std::atomic<bool>* cancel) {
  if (tokens.empty()) {
    throw Error(
        "The prompt is empty, so there is nothing to continue. Give at least one token of "
        "text.");
  }
  check_room(tokens.size());
  const auto shared = static_cast<int>(
      std::mismatch(tokens.begin(), tokens.end(), history_.begin(), history_.end()).first -
      tokens.begin());
  // The last token is computed again where everything is shared: its logits are wanted.
  const int n_reused =
      std::min({shared, kv_.length(kSequence), static_cast<int>(tokens.size()) - 1});
  truncate(n_reused);
  const auto keep_last = [this](int, std::span<const float> row) {
    std::copy(row.begin(), row.end(), logits_.begin());
  };
  const std::span<const Token> fresh = tokens.subspan(static_cast<size_t>(n_reused));
  const auto chunk = static_cast<size_t>(engine_.plan().chunk());
  size_t n_done = 0;
  while (n_done < fresh.size()) {
    if (n_done > 0 && cancel != nullptr && cancel->load(std::memory_order_relaxed)) break;
    const std::span<const Token> part =
        fresh.subspan(n_done, std::min(chunk, fresh.size() - n_done));
    batch_.clear();
    batch_.add_chain(part, static_cast<int>(history_.size()), kSequence);
    batch_.rows.back().wants_logits = n_done + part.size() == fresh.size();
    run(batch_, 0, keep_last);
    history_.insert(history_.end(), part.begin(), part.end());
    n_done += part.size();
  }
  return static_cast<int>(n_done);
}

void Session::compute_pending() {
  if (!is_last_pending_) return;
  batch_.clear();
  const Token token = history_.back();
  batch_.add_chain({&token, 1}, static_cast<int>(history_.size()) - 1, kSequence);
  is_last_pending_ = false;
  run(batch_, 0, [this](int, std::span<const float> row) {
    std::copy(row.begin(), row.end(), logits_.begin());
  });
}

std::span<const float> Session::logits() {
  TROIKA_ASSERT(!history_.empty());
  compute_pending();
  return logits_;
}

Token Session::next(Sampler& sampler) {
  if (history_.size() >= static_cast<size_t>(context())) {
    throw Error(
        fmt::format("The context of {} tokens is full. Use a larger --context.", context()));
  }
  const Token token = sampler.sample(history_, logits());
  history_.push_back(token);
  is_last_pending_ = true;
  return token;
}

void Session::evaluate(std::span<const Token> tokens, const LogitSink& sink) {
  compute_pending();
  check_room(history_.size() + tokens.size());
  const auto chunk = static_cast<size_t>(engine_.plan().chunk());
  for (size_t n_done = 0; n_done < tokens.size();) {
    const std::span<const Token> part =
        tokens.subspan(n_done, std::min(chunk, tokens.size() - n_done));
    batch_.clear();
    batch_.add_chain(part, static_cast<int>(history_.size()), kSequence, /*all_logits=*/true);
    const bool is_last = n_done + part.size() == tokens.size();
    run(batch_, static_cast<int>(n_done), [&](int index, std::span<const float> row) {
      if (sink) sink(index, row);
      if (is_last) std::copy(row.begin(), row.end(), logits_.begin());
    });
    history_.insert(history_.end(), part.begin(), part.end());
    n_done += part.size();
  }
}

void Session::truncate(int length) {
  TROIKA_ASSERT(length >= 0);
  if (length >= static_cast<int>(history_.size())) return;
  history_.resize(static_cast<size_t>(length));
  kv_.truncate(kSequence, length);
  is_last_pending_ = false;
}

void Session::run(const cache::Batch& batch, int first_index, const LogitSink& sink) {
  const std::lock_guard<std::mutex> lock(engine_.pass_mutex());
  const schedule::Graphs& graphs = engine_.graphs();
  const auto n_pairs = static_cast<size_t>(engine_.rope_angles().n_pairs());
  const auto n_rows = batch.rows.size();
  kv_.place(batch, &placement_);

  tokens_.resize(n_rows);
  rope_cos_.resize(n_rows * n_pairs);
  rope_sin_.resize(n_rows * n_pairs);
  for (size_t row = 0; row < n_rows; ++row) {
    tokens_[row] = batch.rows[row].token;
    TROIKA_ASSERT(tokens_[row] >= 0 && tokens_[row] < engine_.blueprint().n_vocab);
    engine_.rope_angles().fill(batch.rows[row].position, rope_cos_.data() + row * n_pairs,
                               rope_sin_.data() + row * n_pairs);
  }
  lanes::Run run;
  run.n_tokens = batch.size();
  run.tokens = tokens_;
  run.rope_cos = rope_cos_.data();
  run.rope_sin = rope_sin_.data();
  run.slots = placement_.slots;
  run.visible = placement_.visible;
  run.kv = &kv_;
  schedule::run_in_order(graphs.body(batch.size()), run, engine_.machine(), engine_.trace());

  // The head runs for as many rows at a time as its largest executable takes.
  const auto most_outputs = static_cast<size_t>(engine_.plan().output_shapes.back());
  const auto n_vocab = static_cast<size_t>(engine_.blueprint().n_vocab);
  for (size_t row = 0; row < n_rows;) {
    output_rows_.clear();
    for (; row < n_rows && output_rows_.size() < most_outputs; ++row) {
      if (batch.rows[row].wants_logits) output_rows_.push_back(static_cast<int>(row));
    }
    if (output_rows_.empty()) break;
    run.output_rows = output_rows_;
    run.n_outputs = static_cast<int>(output_rows_.size());
    schedule::run_in_order(graphs.head(run.n_outputs), run, engine_.machine(), engine_.trace());
    for (size_t i = 0; i < output_rows_.size(); ++i) {
      sink(first_index + output_rows_[i], {graphs.logits() + i * n_vocab, n_vocab});
    }
  }
  // Nothing read from a file that was cut short meanwhile may be believed.
  engine_.file().check_intact();
  kv_.keep_all(batch, placement_);
}

}  // namespace troika::engine
