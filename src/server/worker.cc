#include "server/worker.h"

#include <algorithm>
#include <cmath>

#include "base/clock.h"
#include "base/error.h"

namespace troika::server {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kMostWaitSeconds = 600;
// Limits the time in which texts are saved when the server ends.
constexpr double kMostSavingSeconds = 5.0;
// Is the share that the last answer has in the running mean of the answers' times.
constexpr double kNewest = 0.25;

// Says whether passes give way to clients on this machine, and to the thread that hears all of
// them.
void set_gives_way(engine::Engine& engine, bool gives_way) {
  const std::lock_guard<TurnMutex> lock(engine.passes().mutex);
  engine.passes().batches.set_gives_way(gives_way);
}

}  // namespace

Worker::Worker(engine::Engine& engine, int n_parallel, int n_queue, const KeepOptions& keep,
               double most_pause_seconds)
    : engine_(engine),
      n_parallel_(static_cast<size_t>(n_parallel)),
      n_queue_(static_cast<size_t>(n_queue)),
      // All answers to one request may pause at once.
      n_most_paused_(std::max(kMostPaused, n_parallel_ + n_queue_)),
      most_pause_(std::chrono::duration_cast<Clock::duration>(
          std::chrono::duration<double>(most_pause_seconds))),
      is_shared_(keep.is_shared),
      batcher_(std::in_place, engine_),
      kept_(keep.folder.empty()
                ? nullptr
                : std::make_unique<KeptPrefixes>(engine, keep, [this] { look_again(); })),
      thread_([this] { run(); }) {}

Worker::~Worker() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    is_stopping_ = true;
    changed_.notify_all();
  }
  thread_.join();
  set_gives_way(engine_, false);
  try {
    if (kept_ != nullptr) kept_->save_all(kMostSavingSeconds);
  } catch (const std::exception&) {
    // What memory has no room for is not kept.
  }
  kept_.reset();  // the thread of `kept_` calls the worker, so it ends first
}

bool Worker::submit(const std::vector<std::shared_ptr<Job>>& jobs,
                    const std::function<void()>& accepted) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (n_computing() + waiting_.size() + jobs.size() > n_parallel_ + n_queue_) return false;
  accepted();
  waiting_.insert(waiting_.end(), jobs.begin(), jobs.end());
  ++n_events_;
  changed_.notify_all();
  return true;
}

// Counts the answers that have begun and do not pause. The mutex is held.
size_t Worker::n_computing() const {
  return static_cast<size_t>(std::count_if(running_.begin(), running_.end(),
                                           [](const auto& job) { return !job->is_paused.load(); }));
}

void Worker::cancel(const http::Exchange* exchange) {
  const std::lock_guard<std::mutex> lock(mutex_);
  drop(exchange);
  ++n_events_;
  changed_.notify_all();
}

// Takes the waiting answers of an exchange out of the line, and cancels those that are computed.
// The mutex is held.
void Worker::drop(const http::Exchange* exchange) {
  const auto is_of_it = [&](const auto& job) { return job->exchange.get() == exchange; };
  figures_.n_cancelled += static_cast<int64_t>(std::erase_if(waiting_, is_of_it));
  for (const auto& job : running_) {
    if (is_of_it(job)) job->is_cancelled.store(true);
  }
}

void Worker::end_all() {
  std::vector<std::shared_ptr<Job>> waited;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    ends_all_ = true;
    // The worker's thread tells the clients of requests that have begun.
    const auto has_begun = [&](const std::shared_ptr<Job>& job) {
      return std::any_of(running_.begin(), running_.end(),
                         [&](const auto& other) { return other->exchange == job->exchange; });
    };
    const auto begun = std::stable_partition(waiting_.begin(), waiting_.end(), has_begun);
    waited.assign(begun, waiting_.end());
    waiting_.erase(begun, waiting_.end());
    figures_.n_cancelled += std::ssize(waited);
    ++n_events_;
    changed_.notify_all();
  }
  for (const auto& job : waited) job->reply->on_error(Failure::of_server_that_stops());
}

void Worker::look_again() {
  const std::lock_guard<std::mutex> lock(mutex_);
  ++n_events_;
  changed_.notify_all();
}

Worker::Figures Worker::figures() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  Figures figures = figures_;
  figures.n_waiting = static_cast<int>(waiting_.size());
  for (const auto& job : running_) {
    figures.running.push_back({job->number, static_cast<int>(job->prompt.size()),
                               job->n_tokens.load(), job->is_paused.load()});
  }
  return figures;
}

int Worker::seconds_until_room() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  const double turns =
      1.0 + static_cast<double>(waiting_.size()) / static_cast<double>(n_parallel_);
  return std::clamp(static_cast<int>(std::ceil(turns * answer_seconds_)), 1, kMostWaitSeconds);
}

// Each key owns its texts. A server knows few keys, and only their holders get this far.
Asker Worker::asker_of(const Job& job) {
  const std::string& key = job.exchange->asker();
  if (is_shared_ || key.empty()) return {key};
  const auto next = static_cast<cache::Owner>(owners_.size() + 1);
  return {key, owners_.try_emplace(key, next).first->second};
}

// Loads one more block of the kept prompt for the first answer in the line. Then others have a
// turn.
void Worker::load_first() {
  std::shared_ptr<Job> job;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (kept_ == nullptr || waiting_.empty()) return;
    job = waiting_.front();
  }
  if (job->is_looked_up || job->exchange->is_gone()) return;
  try {
    if (!job->loadable) job->loadable = kept_->loadable(job->prompt, asker_of(*job));
    job->is_looked_up = !kept_->load_part(*job->loadable);
  } catch (const std::exception&) {
    job->is_looked_up = true;  // where memory is short, the prompt is computed
  }
  if (job->is_looked_up) job->loadable.reset();
}

// Saves a part of the texts to be kept. Returns false if there is nothing more to save, or no
// memory to do it.
bool Worker::save_some() {
  try {
    return kept_ != nullptr && kept_->save_part();
  } catch (const std::exception&) {
    return false;
  }
}

void Worker::keep(const Job& job, const engine::Generated& generated) {
  if (kept_ == nullptr) return;
  std::vector<engine::Token> text = job.prompt;
  text.insert(text.end(), generated.tokens.begin(), generated.tokens.end());
  kept_->note(std::move(text), static_cast<int>(job.prompt.size()), asker_of(job));
}

// Starts waiting answers where there are places. Returns whether there is a place for an answer
// whose prompt is not looked up yet. Clients are told of failures when the mutex is free again, as
// what is written to them may be large.
bool Worker::start_waiting() {
  std::vector<Failed> failed;
  const bool must_look_up = start_those_that_fit(&failed);
  for (const Failed& one : failed) one.job->reply->on_error(one.failure);
  return must_look_up;
}

bool Worker::start_those_that_fit(std::vector<Failed>* failed) {
  const std::lock_guard<std::mutex> lock(mutex_);
  size_t n_begun = n_computing();
  while (!waiting_.empty() && n_begun < n_parallel_) {
    const bool is_gone = waiting_.front()->exchange->is_gone();
    if (kept_ != nullptr && !waiting_.front()->is_looked_up && !is_gone) return true;
    const std::shared_ptr<Job> job = std::move(waiting_.front());
    waiting_.pop_front();
    if (is_gone) {
      ++figures_.n_cancelled;
      continue;
    }
    engine::AnswerRequest request;
    request.prompt = job->prompt;
    request.sampler = job->sampler;
    request.mask = job->recorder != nullptr ? job->recorder.get() : job->mask.get();
    request.owner = asker_of(*job).owner;
    request.options = job->options;
    request.options.cancel = &job->is_cancelled;
    request.options.pause = &job->is_paused;
    Job* const raw = job.get();
    request.options.on_token = [raw, &tokenizer = engine_.tokenizer()](engine::Token token, bool) {
      raw->n_tokens.fetch_add(1);
      // A token that ends the answer has no text, so nobody is shown how likely it was.
      const bool is_end = tokenizer.is_end(token) && !raw->options.ignore_end;
      raw->reply->on_token(raw->index, token, is_end ? nullptr : raw->recorder.get());
    };
    // A prompt does not pause behind a slow reader, so what is told of it must not pile up.
    request.options.on_prompt = [raw](const engine::PromptProgress& progress) {
      const bool is_last = progress.n_read == progress.n_prompt;
      if (is_last || !raw->exchange->is_full()) raw->reply->on_prompt(raw->index, progress);
    };
    request.sink = [raw](std::string_view text, int n_shown) {
      raw->reply->on_text(raw->index, text, n_shown);
    };
    try {
      if (job->make_drafter) job->drafter = job->make_drafter();
      request.options.drafter = job->drafter.get();
      job->number = batcher_->submit(std::move(request));
      running_.push_back(job);
      ++n_begun;
    } catch (const std::exception& error) {
      ++figures_.n_failed;
      failed->push_back({job, Failure(error)});
      drop(job->exchange.get());  // nobody is told of the request's other answers any more
    }
  }
  return false;
}

// Pauses answers whose clients read too slowly. The batcher sees it before its next pass; it does
// no harm that an answer writes a little more until then.
void Worker::pause_those_unread() {
  for (const auto& job : running_) {
    const bool is_full = job->exchange->is_full();
    if (job->is_paused.exchange(is_full) != is_full) job->paused_since = Clock::now();
  }
}

// Returns the answer that has paused longest, if its pause has an end: at once where too many
// pause, and after a while where an answer that nobody is slow to read waits for slots.
Worker::Overdue Worker::longest_pause() const {
  std::shared_ptr<Job> longest;
  size_t n_paused = 0;
  bool lacks_slots = false;
  for (const auto& job : running_) {
    if (job->is_cancelled.load()) continue;
    if (!job->is_paused.load()) {
      lacks_slots = lacks_slots || batcher_->is_queued(job->number);
      continue;
    }
    ++n_paused;
    if (longest == nullptr || job->paused_since < longest->paused_since) longest = job;
  }
  if (n_paused > n_most_paused_) return {longest, longest->paused_since};
  if (n_paused == 0 || !lacks_slots) return {};
  return {longest, longest->paused_since + most_pause_};
}

// Makes room for others: an answer that pauses keeps its keys and values, and whoever lets many
// pause and reads none of them would lock everybody else out.
void Worker::end_longest_pause() {
  const Overdue overdue = longest_pause();
  if (overdue.job == nullptr || Clock::now() < overdue.since) return;
  overdue.job->reply->on_error(
      Failure(Error("The answer was not read while others waited for its room. Ask again, and read "
                    "it as it comes.")));
  cancel(overdue.job->exchange.get());
}

void Worker::end(Job& job) {
  try {
    engine::Generated generated = batcher_->take(job.number);
    const bool is_cancelled = generated.stop == engine::Stop::kCancelled;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      ++(is_cancelled ? figures_.n_cancelled : figures_.n_answers);
      figures_.n_prompt_tokens += generated.n_prompt;
      figures_.n_computed_tokens += generated.n_computed;
      figures_.n_tokens += static_cast<int64_t>(generated.tokens.size());
      figures_.prompt_seconds += generated.prefill_seconds;
      figures_.answer_seconds += generated.decode_seconds;
      if (job.drafter != nullptr) {
        const draft::Statistics& drafts = job.drafter->statistics();
        figures_.n_drafts += drafts.n_with_draft;
        figures_.n_draft_tokens += drafts.n_verified;
        figures_.n_accepted_tokens += drafts.n_accepted;
      }
      const int64_t n_all = generated.n_prompt + std::ssize(generated.tokens);
      figures_.n_most_tokens = std::max(figures_.n_most_tokens, n_all);
      const double seconds = generated.prefill_seconds + generated.decode_seconds;
      answer_seconds_ += kNewest * (seconds - answer_seconds_);
    }
    keep(job, generated);
    if (!is_cancelled) job.reply->on_end(job.index, std::move(generated));
  } catch (const std::exception& error) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      ++figures_.n_failed;
    }
    job.is_cancelled.store(true);
    job.reply->on_error(Failure(error));
    cancel(job.exchange.get());
  }
}

bool Worker::take_ended() {
  std::vector<std::shared_ptr<Job>> ended;
  for (const auto& job : running_) {
    if (batcher_->is_done(job->number)) ended.push_back(job);
  }
  count_passes();
  {
    // Ended answers leave the list before their clients hear of the end and may look at the list.
    const std::lock_guard<std::mutex> lock(mutex_);
    for (const auto& job : ended) std::erase(running_, job);
  }
  for (const auto& job : ended) end(*job);
  return !ended.empty();
}

// Ends all answers after an error that belongs to none of them, as where there is no memory. The
// server goes on.
void Worker::begin_anew(const std::exception& error) {
  for (const auto& job : running_) job->reply->on_error(Failure(error));
  const std::lock_guard<std::mutex> lock(mutex_);
  figures_.n_failed += static_cast<int64_t>(running_.size());
  for (const auto& job : running_) drop(job->exchange.get());
  batcher_.emplace(engine_);
  running_.clear();
}

// Tells the clients of all answers, begun or not, that the server stops, and cancels them.
void Worker::say_that_all_ends() {
  std::vector<std::shared_ptr<Job>> all;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!ends_all_) return;
    all.assign(running_.begin(), running_.end());
    all.insert(all.end(), waiting_.begin(), waiting_.end());
    for (const auto& job : all) drop(job->exchange.get());
  }
  const Failure failure = Failure::of_server_that_stops();
  for (const auto& job : all) job->reply->on_error(failure);
}

void Worker::count_passes() {
  const engine::BatcherStatistics& statistics = batcher_->statistics();
  const std::lock_guard<std::mutex> lock(mutex_);
  figures_.n_steps = statistics.n_steps;
  figures_.n_step_answers = statistics.n_step_answers;
  figures_.n_passes = statistics.n_steps + statistics.n_prompt_parts;
}

void Worker::count_busy(double seconds) {
  const std::lock_guard<std::mutex> lock(mutex_);
  figures_.busy_seconds += seconds;
}

void Worker::run() {
  set_gives_way(engine_, true);
  while (true) {
    uint64_t n_seen = 0;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (is_stopping_) return;
      n_seen = n_events_;
    }
    say_that_all_ends();
    pause_those_unread();
    end_longest_pause();
    load_first();
    const bool must_look_up = start_waiting();
    const auto start = std::chrono::steady_clock::now();
    bool has_more = true;
    try {
      has_more = batcher_->step();
    } catch (const std::exception& error) {
      begin_anew(error);
    }
    count_busy(seconds_since(start));
    const bool has_ended = take_ended();
    const bool has_saved = save_some();
    if (has_ended || has_saved || has_more || must_look_up) continue;
    const Overdue overdue = longest_pause();
    const auto has_news = [&] { return n_events_ != n_seen || is_stopping_; };
    std::unique_lock<std::mutex> lock(mutex_);
    if (overdue.job != nullptr) {
      changed_.wait_until(lock, overdue.since, has_news);
    } else {
      changed_.wait(lock, has_news);
    }
  }
}

}  // namespace troika::server
