#include "engine/session.h"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>

#include "base/error.h"
#include "engine/memory/context_room.h"

namespace troika::engine {
namespace {

// Whoever may cancel is asked again after this many times the chunks in flight.
constexpr size_t kChunksBetweenLooks = 4;

// Refuses a text that the context does not hold. `what` names it.
[[noreturn]] void refuse_length(const Engine& engine, const char* what, size_t n_tokens,
                                int most_answer) {
  throw Error(fmt::format("The {0} has {1} tokens, but {2}. Shorten the {0}, or {3}.", what,
                          n_tokens, context_held(engine),
                          advised_context(engine, n_tokens, most_answer)));
}

}  // namespace

Session::Session(Engine& engine, Reuse reuse, cache::Owner owner)
    : engine_(engine), reuse_(reuse), owner_(owner) {
  const auto most_rows = static_cast<size_t>(engine.plan().most_step_rows());
  history_.reserve(static_cast<size_t>(context()));
  logits_.resize(static_cast<size_t>(engine.blueprint().n_vocab));
  batch_.rows.reserve(most_rows);
  path_.reserve(most_rows);
  kept_.reserve(most_rows);
  rows_.reserve(most_rows);
  predicted_.reserve(most_rows);
  // The text is counted last: where a session cannot be made, nothing takes its text out again.
  const std::lock_guard<TurnMutex> lock(engine_.passes().mutex);
  engine_.passes().count_texts(+1);
}

Session::~Session() {
  const std::lock_guard<TurnMutex> lock(engine_.passes().mutex);
  leave_sequence();
  engine_.passes().end_texts(1);
}

// REQUIRES the pass mutex.
void Session::leave_sequence() {
  if (sequence_ < 0) return;
  if (reuse_ == Reuse::kAll) engine_.passes().sequences.release(sequence_);
  if (reuse_ == Reuse::kOwn) engine_.passes().sequences.forget(sequence_);
  sequence_ = -1;
}

void Session::rest() {
  {
    const std::lock_guard<TurnMutex> lock(engine_.passes().mutex);
    leave_sequence();
  }
  history_.clear();
  prompt_.clear();
  n_read_ = 0;
  n_cached_ = 0;
  has_logits_ = false;
}

size_t Session::kv_bytes() const {
  const std::lock_guard<TurnMutex> lock(engine_.passes().mutex);
  return engine_.passes().kv.bytes();
}

void Session::check_room(size_t n_prompt, int most_answer) const {
  if (n_prompt > static_cast<size_t>(context())) {
    refuse_length(engine_, "prompt", n_prompt, most_answer);
  }
}

void Session::check_text(size_t n_tokens) const {
  if (n_tokens > static_cast<size_t>(context())) refuse_length(engine_, "text", n_tokens, 0);
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

// These functions of the cache REQUIRE the pass mutex.
void Session::need_sequence() {
  if (sequence_ < 0) sequence_ = engine_.passes().sequences.open(owner_);
}

// Makes the part of the tokens that the cache holds this session's own. Returns how many tokens
// these are.
int Session::begin_sequence(std::span<const Token> tokens) {
  const auto n_prompt = static_cast<int>(tokens.size());
  tags_.resize(tokens.size());
  for (int i = 0; i < n_prompt; ++i) {
    tags_[static_cast<size_t>(i)] = engine_.passes().tag_at(i, n_prompt);
  }
  const int granule = engine_.plan().reuse_granule;
  if (reuse_ == Reuse::kAll) {
    const cache::Sequences::Begun begun =
        sequence_ < 0 ? engine_.passes().sequences.begin(tokens, tags_, granule, owner_)
                      : engine_.passes().sequences.begin_again(sequence_, tokens, tags_, granule);
    sequence_ = begun.sequence;
    return begun.n_reused;
  }
  need_sequence();
  const int n_common =
      engine_.passes().kv.n_common(sequence_, tokens.first(tokens.size() - 1), tags_);
  const int n_known = n_common / granule * granule;
  engine_.passes().kv.truncate(sequence_, n_known);
  return n_known;
}

int Session::begin_prompt(std::span<const Token> tokens) {
  if (tokens.empty()) {
    throw Error(
        "The prompt is empty, so there is nothing to continue. Give at least one token of "
        "text.");
  }
  check_room(tokens.size(), -1);
  check_tokens(tokens);
  {
    const std::lock_guard<TurnMutex> lock(engine_.passes().mutex);
    n_cached_ = begin_sequence(tokens);
  }
  prompt_.assign(tokens.begin(), tokens.end());
  n_read_ = static_cast<size_t>(n_cached_);
  is_first_part_ = true;
  history_.assign(tokens.begin(), tokens.begin() + n_cached_);
  has_logits_ = false;
  return n_cached_;
}

void Session::share_prompt(const Session& other) {
  TROIKA_ASSERT(sequence_ < 0 && history_.empty() && other.has_logits_);
  TROIKA_ASSERT(other.n_cached_ == static_cast<int>(other.history_.size()));
  {
    const std::lock_guard<TurnMutex> lock(engine_.passes().mutex);
    sequence_ = engine_.passes().sequences.copy(other.sequence_);
  }
  n_cached_ = other.n_cached_;
  history_ = other.history_;
  keep_logits(other.logits_);
}

int Session::add_prompt(int most_rows, cache::Batch* batch) {
  TROIKA_ASSERT(n_unread() > 0 && most_rows >= 1);
  const int n_rows = std::min(most_rows, n_unread());
  const auto part = std::span<const Token>(prompt_).subspan(n_read_, static_cast<size_t>(n_rows));
  const auto first = static_cast<size_t>(batch->size());
  batch->add_chain(part, static_cast<int>(n_read_), sequence_);
  for (cache::Batch::Row& row : std::span(batch->rows).subspan(first)) {
    row.tag = tags_[static_cast<size_t>(row.position)];
  }
  batch->rows.back().wants_logits = n_rows == n_unread();
  return n_rows;
}

void Session::take_prompt(int n_rows, std::span<const float> logits) {
  const auto begin = prompt_.begin() + static_cast<ptrdiff_t>(n_read_);
  history_.insert(history_.end(), begin, begin + n_rows);
  n_read_ += static_cast<size_t>(n_rows);
  n_cached_ = static_cast<int>(n_read_);
  if (n_unread() == 0) keep_logits(logits);
}

Watch Session::watch_of(PromptObserver* observer) const {
  Watch watch = watch_;
  if (observer != nullptr) watch.prompt = observer;
  return watch;
}

// Returns how many tokens of a prompt, from `position` on, go in no more chunks than have buffers
// of their own: what is observed behind a part must still be there.
int Session::n_in_buffers(int position, int n_prompt) const {
  int end = position;
  for (int i = 0; i < engine_.graphs().n_sets() && end < n_prompt; ++i) {
    end += engine_.plan().prompt_chunk(end, n_prompt).n_rows;
  }
  return end - position;
}

int Session::read_prompt(int most_tokens, PromptObserver* observer) {
  const std::lock_guard<TurnMutex> lock(engine_.passes().mutex);
  const auto n_prompt = static_cast<int>(prompt_.size());
  const auto position = static_cast<int>(n_read_);
  const bool has_lanes = engine_.machine().lanes().size() > 1;
  const plan::Shape shape = engine_.plan().prompt_chunk(position, n_prompt);
  batch_.clear();
  int most = has_lanes ? most_tokens : std::min(most_tokens, shape.n_rows);
  if (observer != nullptr) most = std::min(most, n_in_buffers(position, n_prompt));
  const int n_rows = add_prompt(engine_.plan().whole_granules(position, n_prompt, most), &batch_);
  std::span<const float> logits;
  const auto keep = [&](int, std::span<const float> row) { logits = row; };
  tell_of_prompt(n_prompt, position);
  if (has_lanes) {
    engine_.passes().batches.run_prompt(batch_, n_prompt, keep, watch_of(observer));
  } else {
    engine_.passes().batches.run(batch_, shape.phase, keep, {}, watch_of(observer));
  }
  take_prompt(n_rows, logits);
  return n_unread();
}

int Session::prefill(std::span<const Token> tokens, const std::atomic<bool>* cancel,
                     PromptObserver* observer) {
  const int n_known = begin_prompt(tokens);
  const bool has_lanes = engine_.machine().lanes().size() > 1;
  // With several lanes, several chunks of a prompt are computed at the same time. Reading then
  // stops after some chunks, so that a caller can cancel there.
  const auto chunk = static_cast<size_t>(engine_.plan().chunk());
  const size_t in_flight = chunk * static_cast<size_t>(engine_.graphs().n_sets());
  size_t most = tokens.size();
  if (has_lanes && cancel != nullptr) most = in_flight * kChunksBetweenLooks;
  while (n_unread() > 0) {
    if (cancel != nullptr && cancel->load(std::memory_order_relaxed)) break;
    read_prompt(static_cast<int>(most), observer);
  }
  return static_cast<int>(n_read_) - n_known;
}

// Tells of the part of a prompt that begins at this position whoever watches prompts. REQUIRES the
// pass mutex.
void Session::tell_of_prompt(int n_prompt, int position) {
  const bool is_first = std::exchange(is_first_part_, false);
  schedule::PromptWatch* const watch = engine_.passes().prompt_watch();
  if (watch == nullptr) return;
  const plan::Plan& plan = engine_.plan();
  const int n_left = std::max(0, plan.n_prompt_phase(n_prompt) - position);
  watch->plan_prompt(n_left, plan.chunk(), is_first);
}

// Brings the last token of the history into the cache, unless it is there.
void Session::compute_pending() {
  if (n_cached_ < static_cast<int>(history_.size())) compute_last();
}

void Session::compute_last() {
  const auto position = static_cast<int>(history_.size()) - 1;
  const std::lock_guard<TurnMutex> lock(engine_.passes().mutex);
  engine_.passes().kv.truncate(sequence_, position);
  n_cached_ = position;
  batch_.clear();
  batch_.add_chain(std::span<const Token>(history_).last(1), position, sequence_,
                   /*all_logits=*/true, engine_.passes().tag_of(plan::Phase::kStep));
  has_logits_ = false;
  engine_.passes().batches.run(
      batch_, plan::Phase::kStep, [this](int, std::span<const float> row) { keep_logits(row); }, {},
      watch_);
  n_cached_ = position + 1;
}

std::span<const float> Session::logits() {
  TROIKA_ASSERT(!history_.empty());
  if (!has_logits_) compute_last();
  return logits_;
}

void Session::check_next() const {
  if (history_.size() < static_cast<size_t>(context())) return;
  throw Error(fmt::format("The context of {} tokens is full. To go on, {}.", context(),
                          any_larger_context(engine_)));
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
  check_text(history_.size() + tokens.size());
  check_tokens(tokens);
  compute_pending();
  const auto n_known = static_cast<int>(history_.size());
  const int n_prompt = n_known + static_cast<int>(tokens.size());
  is_first_part_ = true;
  for (size_t n_done = 0; n_done < tokens.size();) {
    const auto position = static_cast<int>(history_.size());
    const plan::Shape shape = engine_.plan().prompt_chunk(position, n_prompt);
    const std::span<const Token> part = tokens.subspan(n_done, static_cast<size_t>(shape.n_rows));
    const auto pass_on = [&](int index, std::span<const float> row) {
      if (sink) sink(static_cast<int>(n_done) + index, row);
      if (static_cast<size_t>(index) + 1 == part.size()) {
        std::copy(row.begin(), row.end(), logits_.begin());
      }
    };
    has_logits_ = false;
    {
      const std::lock_guard<TurnMutex> lock(engine_.passes().mutex);
      need_sequence();
      batch_.clear();
      batch_.add_chain(part, position, sequence_, /*all_logits=*/true);
      for (auto& row : batch_.rows) {
        row.tag = engine_.passes().tag_at(row.position, n_prompt, n_known);
      }
      tell_of_prompt(n_prompt, position);
      engine_.passes().batches.run(batch_, shape.phase, pass_on, {}, watch_);
    }
    history_.insert(history_.end(), part.begin(), part.end());
    n_cached_ = static_cast<int>(history_.size());
    has_logits_ = true;
    n_done += part.size();
  }
}

void Session::run_batch(const cache::Batch& batch, const LogitSink& sink, const ChoosePath& path,
                        plan::Phase phase) {
  check_text(history_.size() + static_cast<size_t>(batch.size()));
  for (const cache::Batch::Row& row : batch.rows) check_tokens({&row.token, 1});
  TROIKA_ASSERT(batch.size() >= 1);
  compute_pending();
  std::vector<int> kept;
  const auto choose = [&]() -> std::span<const int> {
    kept = path();
    for (size_t i = 0; i < kept.size(); ++i) {
      TROIKA_ASSERT(kept[i] >= 0 && kept[i] < batch.size());
      TROIKA_ASSERT(batch.rows[static_cast<size_t>(kept[i])].parent == (i == 0 ? -1 : kept[i - 1]));
    }
    return kept;
  };
  const auto pass_on = [&](int row, std::span<const float> logits) {
    if (sink) sink(row, logits);
  };
  {
    const std::lock_guard<TurnMutex> lock(engine_.passes().mutex);
    need_sequence();
    batch_ = batch;
    for (cache::Batch::Row& row : batch_.rows) {
      row.sequence = sequence_;
      row.tag = engine_.passes().tag_of(phase);
    }
    engine_.passes().batches.run(batch_, phase, pass_on, choose, watch_);
  }
  if (kept.empty()) return;
  for (const int row : kept) history_.push_back(batch.rows[static_cast<size_t>(row)].token);
  n_cached_ = static_cast<int>(history_.size());
  has_logits_ = false;
}

void Session::truncate(int length) {
  TROIKA_ASSERT(length >= 0);
  if (length >= static_cast<int>(history_.size())) return;
  history_.resize(static_cast<size_t>(length));
  has_logits_ = false;
  if (n_cached_ <= length) return;
  const std::lock_guard<TurnMutex> lock(engine_.passes().mutex);
  engine_.passes().kv.truncate(sequence_, length);
  n_cached_ = length;
}

}  // namespace troika::engine
