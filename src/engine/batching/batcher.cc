#include "engine/batching/batcher.h"

#include <algorithm>
#include <mutex>

#include "base/clock.h"
#include "base/error.h"
#include "base/units.h"

namespace troika::engine {
namespace {

// Is the longest time that a part of a prompt should take while an answer waits for a step. Its
// client waits for the step too, some tens of milliseconds, and should see a pause of 150 ms at
// most beside the smallest pass.
constexpr double kMostWaitMs = 140.0;

}  // namespace

struct Batcher::Entry {
  explicit Entry(AnswerRequest wanted)
      : request(std::move(wanted)), sampler(request.sampler, request.mask), likely(coverage()) {}

  int coverage() const {
    return request.options.drafter != nullptr ? request.options.drafter->coverage() : 0;
  }
  PromptObserver* observer() { return coverage() > 0 ? &likely : nullptr; }
  bool is_cancelled() const {
    const std::atomic<bool>* cancel = request.options.cancel;
    return cancel != nullptr && cancel->load(std::memory_order_relaxed);
  }
  // Says whether a step may be taken now: the prompt is read, and no pass has to wait for the mask.
  bool may_step() const {
    const std::atomic<bool>* pause = request.options.pause;
    const bool is_paused = pause != nullptr && pause->load(std::memory_order_relaxed);
    if (state != State::kStepping || is_paused) return false;
    return request.mask == nullptr || request.mask->is_ready(session->history());
  }
  // Returns how many tokens of its prompt are left, as far as anybody can say.
  int n_unread() const {
    return is_begun ? session->n_unread() : static_cast<int>(request.prompt.size());
  }
  void tell_progress(double now_us) {
    if (!request.options.on_prompt) return;
    const Generated& known = answer->result();
    const int n_known = known.n_prompt - known.n_computed;
    const int n_read = known.n_prompt - session->n_unread();
    const double seconds = n_read > n_known ? (now_us - start_us) / kUsPerS : 0.0;
    request.options.on_prompt({known.n_prompt, n_known, n_read, seconds});
  }

  AnswerRequest request;
  Sampler sampler;
  PromptLogits likely;
  State state = State::kQueued;
  std::unique_ptr<Session> session;
  std::optional<Answer> answer;
  Session::IsLast is_last;
  bool is_begun = false;  // reading the prompt was begun
  int64_t n_slots = 0;    // counts slots that the answer may need
  int n_turns_waited = 0;
  double start_us = 0.0;  // when reading the prompt was begun
  Generated result;
  std::exception_ptr error;
};

Batcher::Batcher(Engine& engine) : engine_(engine) {
  const auto most_rows = static_cast<size_t>(engine.plan().most_rows());
  for (auto* rows : {&kept_, &kept_of_one_}) rows->reserve(most_rows);
  shares_.reserve(static_cast<size_t>(engine.plan().most_step_rows()));
  batch_.rows.reserve(most_rows);
  logits_.reserve(most_rows);
}

Batcher::~Batcher() = default;

int Batcher::submit(AnswerRequest request) {
  entries_.push_back(std::make_unique<Entry>(std::move(request)));
  may_admit_ = true;
  return first_ + static_cast<int>(entries_.size()) - 1;
}

bool Batcher::is_done(int answer) const {
  if (answer < first_) return true;
  const std::unique_ptr<Entry>& entry = entries_[static_cast<size_t>(answer - first_)];
  return entry == nullptr || entry->state == State::kDone;
}

bool Batcher::is_queued(int answer) const {
  if (answer < first_) return false;
  const std::unique_ptr<Entry>& entry = entries_[static_cast<size_t>(answer - first_)];
  return entry != nullptr && entry->state == State::kQueued;
}

Generated Batcher::take(int answer) {
  TROIKA_ASSERT(answer >= first_);
  std::unique_ptr<Entry>& entry = entries_[static_cast<size_t>(answer - first_)];
  TROIKA_ASSERT(entry != nullptr && entry->state == State::kDone);
  const std::unique_ptr<Entry> taken = std::move(entry);
  // The session of an answer that ended in the last step ends here, and makes room for another.
  may_admit_ = may_admit_ || taken->session != nullptr;
  const auto kept = std::find_if(entries_.begin(), entries_.end(),
                                 [](const auto& one) { return one != nullptr; });
  first_ += static_cast<int>(kept - entries_.begin());
  entries_.erase(entries_.begin(), kept);
  if (taken->error) std::rethrow_exception(taken->error);
  return std::move(taken->result);
}

// Runs a body. What the body throws ends one answer and no other.
template <typename Body>
void Batcher::guarded(Entry& entry, Body body) {
  try {
    body();
  } catch (...) {
    fail(entry);
  }
}

void Batcher::fail(Entry& entry) {
  entry.error = std::current_exception();
  entry.state = State::kDone;
}

void Batcher::end(Entry& entry) {
  guarded(entry, [&] { entry.result = entry.answer->finish(); });
  entry.state = State::kDone;
}

// Ends the sessions of answers that are done, once no pass is under way, because a session that
// ends gives its sequence back.
void Batcher::drop_sessions() {
  for (const auto& entry : live()) {
    if (entry == nullptr || entry->state != State::kDone || entry->session == nullptr) continue;
    entry->session.reset();
    may_admit_ = true;
  }
}

int64_t Batcher::n_slots_wanted() const {
  int64_t n = 0;
  for (const auto& entry : live()) {
    if (entry != nullptr && entry->session != nullptr) n += entry->n_slots;
  }
  return n;
}

// Lets queued answers begin, in the order of their numbers, as long as there are slots for all that
// they may need: so whoever has begun can go on to its end. A single answer always fits.
void Batcher::admit() {
  if (!may_admit_) return;
  may_admit_ = false;
  for (const auto& queued : live()) {
    if (queued == nullptr || queued->state != State::kQueued) continue;
    Entry& entry = *queued;
    const int64_t n_wanted = n_slots_wanted();
    auto session = std::make_unique<Session>(engine_, Reuse::kAll, entry.request.owner);
    session->watch(watch_);
    const int64_t n_context = session->context();
    const int most = entry.request.options.most_tokens;
    const auto n_prompt = static_cast<int64_t>(entry.request.prompt.size());
    entry.n_slots = most < 0 ? n_context : std::min<int64_t>(n_context, n_prompt + most);
    int64_t n_limit = 0;
    {
      const std::lock_guard<TurnMutex> lock(engine_.passes().mutex);
      n_limit = engine_.passes().kv.n_limit();
    }
    if (n_wanted > 0 && n_wanted + entry.n_slots > n_limit) return;
    entry.session = std::move(session);
    entry.answer.emplace(engine_, entry.request.options, entry.request.sink);
    entry.is_last = [&entry](Token token) { return entry.answer->is_end(token); };
    entry.state = State::kPrompt;
  }
}

void Batcher::look_for_ends() {
  for (const auto& entry : live()) {
    if (entry == nullptr) continue;
    if (entry->state == State::kQueued && entry->is_cancelled()) {
      entry->result.stop = Stop::kCancelled;
      entry->state = State::kDone;
    } else if (entry->state == State::kPrompt && entry->is_cancelled()) {
      entry->answer->cancel();
      end(*entry);
    } else if (entry->state == State::kStepping && entry->answer->must_stop(*entry->session)) {
      end(*entry);
    }
  }
}

Batcher::Entry* Batcher::next_prompt() const {
  Entry* next = nullptr;
  int64_t least = 0;
  for (const auto& entry : live()) {
    if (entry == nullptr || entry->state != State::kPrompt) continue;
    const int64_t key = entry->n_unread() - int64_t{engine_.plan().chunk()} * entry->n_turns_waited;
    if (next != nullptr && key >= least) continue;
    next = entry.get();
    least = key;
  }
  return next;
}

// Notes that a part of this prompt is read, for which the others wait.
void Batcher::count_turn(Entry& read) {
  for (const auto& entry : live()) {
    if (entry != nullptr && entry->state == State::kPrompt) ++entry->n_turns_waited;
  }
  read.n_turns_waited = 0;
}

// Returns the longest part of a prompt that is expected to end in time.
int Batcher::rows_in_time(const Entry& entry) const {
  const plan::Plan& plan = engine_.plan();
  return part_costs_.rows_within(kMostWaitMs, static_cast<int>(entry.session->history().size()),
                                 plan.prompt_shapes.front(), plan.chunk());
}

void Batcher::begin_prompt(Entry& entry) {
  if (entry.is_begun) return;
  entry.start_us = now_us();
  Generated& result = entry.answer->result();
  result.n_prompt = static_cast<int>(entry.request.prompt.size());
  entry.session->check_room(entry.request.prompt.size(), entry.request.options.most_tokens);
  result.n_computed = result.n_prompt - entry.session->begin_prompt(entry.request.prompt);
  entry.is_begun = true;
  entry.tell_progress(now_us());
}

void Batcher::end_prompt(Entry& entry) {
  draft::Drafter* const drafter = entry.request.options.drafter;
  Generated& result = entry.answer->result();
  result.calibration_seconds = entry.likely.ms() / 1e3;
  if (drafter != nullptr) {
    drafter->begin(entry.session->history(), entry.request.options.cancel);
    drafter->calibrate(entry.likely.likely());
  }
  result.prefill_seconds = (now_us() - entry.start_us) / kUsPerS;
  entry.state = State::kStepping;
}

void Batcher::read_prompt(Entry& entry, bool has_company) {
  count_turn(entry);
  guarded(entry, [&] {
    begin_prompt(entry);
    const auto n_sets = engine_.graphs().n_sets();
    const int most = has_company ? rows_in_time(entry) : engine_.plan().chunk() * n_sets;
    const auto n_known = static_cast<int>(entry.session->history().size());
    const int n_before = entry.session->n_unread();
    const double start_us = now_us();
    const int n_left = entry.session->read_prompt(most, entry.observer());
    const int n_rows = n_before - n_left;
    // Longer parts went through the lanes in several chunks at once.
    if (n_rows <= engine_.plan().most_rows()) {
      part_costs_.learn(n_rows, n_known, (now_us() - start_us) / kUsPerMs);
    }
    ++statistics_.n_prompt_parts;
    statistics_.n_prompt_rows += n_rows;
    entry.tell_progress(now_us());
    if (n_left == 0) end_prompt(entry);
  });
}

// Lets an answer take over the prompt of another one that asks for the same and has just read it.
// The bits are those that it would compute itself, and it saves the pass over the last tokens,
// which no cache gives back.
void Batcher::share_prompts() {
  for (const auto& to : live()) {
    if (to == nullptr || to->state != State::kPrompt || to->is_begun) continue;
    for (const auto& from : live()) {
      if (from == nullptr || from->state != State::kStepping || !from->session->has_logits() ||
          from->request.owner != to->request.owner || from->coverage() != to->coverage() ||
          from->session->history() != to->request.prompt) {
        continue;
      }
      guarded(*to, [&] {
        to->start_us = now_us();
        to->session->share_prompt(*from->session);
        to->likely.share(from->likely);
        to->is_begun = true;
        to->answer->result().n_prompt = static_cast<int>(to->request.prompt.size());
        to->tell_progress(now_us());
        end_prompt(*to);
      });
      break;
    }
  }
}

// Takes the first token of each answer whose prompt was just read: its logits are there already.
void Batcher::take_first_tokens() {
  for (const auto& entry : live()) {
    if (entry == nullptr || !entry->may_step()) continue;
    if (!entry->session->has_logits() || entry->answer->must_stop(*entry->session)) continue;
    guarded(*entry, [&] {
      draft::Drafter* const drafter = entry->request.options.drafter;
      const int most = entry->answer->most_in_a_step();
      entry->answer->take(*entry->session,
                          entry->session->step(entry->sampler, drafter, most, entry->is_last));
      if (entry->answer->must_stop(*entry->session)) end(*entry);
    });
  }
}

// Adds the rows of all answers, in turns where there is no room for all. Each may draft in its
// share of the rows.
void Batcher::add_steps() {
  ready_.clear();
  for (const auto& entry : live()) {
    // An answer takes its first token as soon as its prompt is read. One that still has the logits
    // behind the prompt was cancelled meanwhile, and takes no step.
    const bool is_ready = entry != nullptr && entry->may_step() && !entry->session->has_logits();
    if (is_ready) ready_.push_back(entry.get());
  }
  const plan::Plan& plan = engine_.plan();
  const int most_rows = std::min(plan.most_step_rows(), plan.output_shapes.back());
  const auto n_together = std::min(ready_.size(), static_cast<size_t>(most_rows));
  const int share = n_together > 0 ? most_rows / static_cast<int>(n_together) : 0;
  double n_expected = 0.0;
  for (size_t i = 0; i < n_together; ++i) {
    // Each answer that comes later has at least one row and one token.
    const auto n_later = static_cast<int>(n_together - i) - 1;
    const draft::Company company = {batch_.size() + n_later, n_expected + n_later};
    Entry& entry = *ready_[(next_step_ + i) % ready_.size()];
    const int first = batch_.size();
    guarded(entry, [&] {
      n_expected += entry.session->add_step(
          entry.request.options.drafter, entry.answer->most_in_a_step(), share, company, &batch_);
    });
    if (entry.state == State::kDone) {
      batch_.rows.resize(static_cast<size_t>(first));
    } else {
      shares_.push_back({&entry, first, batch_.size() - first, false});
    }
  }
  if (ready_.size() > n_together) next_step_ = (next_step_ + n_together) % ready_.size();
  statistics_.most_together = std::max(statistics_.most_together, static_cast<int>(shares_.size()));
  statistics_.n_step_answers += std::ssize(shares_);
  statistics_.n_step_rows += batch_.size();
}

// Adds part of a prompt where steps and prompts are computed alike: the weights are read once for
// both.
void Batcher::add_prompt_beside() {
  const plan::Plan& plan = engine_.plan();
  if (!plan.has_one_class() || engine_.machine().lanes().size() > 1) return;
  const bool has_output = batch_.size() < plan.output_shapes.back();
  if (plan.most_rows() <= batch_.size() || !has_output || shares_.empty()) return;
  Entry* const entry = next_prompt();
  if (entry == nullptr || !entry->is_begun || entry->observer() != nullptr) return;
  const int room = std::min(rows_in_time(*entry), plan.most_rows() - batch_.size());
  count_turn(*entry);
  const int first = batch_.size();
  const int n_rows = entry->session->add_prompt(room, &batch_);
  shares_.push_back({.entry = entry, .first_row = first, .n_rows = n_rows, .is_prompt = true});
  ++statistics_.n_prompt_parts;
  statistics_.n_prompt_rows += n_rows;
}

// Learns from a pass in which a prompt has a part beside steps. Both are computed alike there, so a
// row of a step takes what a row of the part takes behind as many tokens.
void Batcher::learn_part_costs(double pass_ms) {
  PassRows rows;
  for (const Share& share : shares_) {
    rows.add(share.n_rows, batch_.rows[static_cast<size_t>(share.first_row)].position);
  }
  part_costs_.learn(rows, pass_ms);
}

void Batcher::take_steps(double pass_ms) {
  const int n_step_rows = shares_.back().is_prompt ? 0 : batch_.size();
  if (shares_.back().is_prompt) learn_part_costs(pass_ms);
  kept_.clear();
  for (const Share& share : shares_) {
    Entry& entry = *share.entry;
    const auto first = static_cast<size_t>(share.first_row);
    const auto logits = std::span<const std::span<const float>>(logits_).subspan(
        first, static_cast<size_t>(share.n_rows));
    if (share.is_prompt) {
      for (int row = 0; row < share.n_rows; ++row) kept_.push_back(share.first_row + row);
      guarded(entry, [&] {
        entry.session->take_prompt(share.n_rows, logits.back());
        entry.tell_progress(now_us());
        if (entry.session->n_unread() == 0) end_prompt(entry);
      });
      continue;
    }
    guarded(entry, [&] {
      const Session::Stepped stepped =
          entry.session->take_step(entry.sampler, entry.request.options.drafter, logits, pass_ms,
                                   n_step_rows, entry.is_last, &kept_of_one_);
      for (const int row : kept_of_one_) kept_.push_back(share.first_row + row);
      taken_.push_back({&entry, stepped});
    });
  }
}

void Batcher::run_steps() {
  shares_.clear();
  taken_.clear();
  batch_.clear();
  {
    const std::lock_guard<TurnMutex> lock(engine_.passes().mutex);
    add_steps();
    add_prompt_beside();
    if (shares_.empty()) return;
    logits_.assign(batch_.rows.size(), {});
    const auto keep_row = [&](int row, std::span<const float> logits) {
      logits_[static_cast<size_t>(row)] = logits;
    };
    const double start_us = now_us();
    const auto choose = [&]() -> std::span<const int> {
      take_steps((now_us() - start_us) / kUsPerMs);
      return kept_;
    };
    const bool is_mixed = shares_.back().is_prompt;
    const plan::Phase phase = is_mixed ? plan::Phase::kPrompt : plan::Phase::kStep;
    try {
      engine_.passes().batches.run(batch_, phase, keep_row, choose, watch_);
    } catch (...) {
      // The pass itself failed, so every answer in it ends.
      for (const Share& share : shares_) fail(*share.entry);
      return;
    }
    // A prompt has had its part in this pass, so steps have the next turn.
    if (is_mixed) is_turn_of_prompts_ = false;
  }
  ++statistics_.n_steps;
  for (const Taken& taken : taken_) {
    if (taken.entry->state != State::kStepping) continue;
    guarded(*taken.entry, [&] { taken.entry->answer->take(*taken.entry->session, taken.stepped); });
  }
}

bool Batcher::step() {
  look_for_ends();
  drop_sessions();
  admit();
  share_prompts();
  bool has_steps = false, has_prompts = false, has_begun = false, has_queued = false;
  for (const auto& entry : live()) {
    if (entry == nullptr) continue;
    has_steps = has_steps || entry->may_step();
    has_prompts = has_prompts || entry->state == State::kPrompt;
    has_begun = has_begun || entry->state == State::kStepping;
    has_queued = has_queued || entry->state == State::kQueued;
  }
  // Answers in the queue also wait for those that pause.
  if (!has_steps && !has_prompts) return has_queued && !has_begun;
  if (has_prompts && (is_turn_of_prompts_ || !has_steps)) {
    read_prompt(*next_prompt(), has_steps);
    is_turn_of_prompts_ = false;
    return true;
  }
  is_turn_of_prompts_ = true;
  take_first_tokens();
  run_steps();
  return true;
}

}  // namespace troika::engine
