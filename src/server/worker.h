// The worker is the thread that computes. It runs a batcher, in which answers share passes, and
// keeps a line of answers that wait for a place in the batcher.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "engine/batching/batcher.h"
#include "http/exchange.h"
#include "server/failure.h"
#include "server/kept/kept_prefixes.h"
#include "server/logprobs.h"

namespace troika::server {

// Is told what comes of a request's answers. The worker's thread calls it.
class Reply {
 public:
  virtual ~Reply() = default;
  virtual void on_prompt(int index, const engine::PromptProgress& progress) = 0;
  // Is called for each token, before the token's text comes. `recorder` is null where nobody asks
  // how likely tokens were, and for a token that ends the answer.
  virtual void on_token(int index, engine::Token token, LogprobRecorder* recorder) = 0;
  // `n_shown` counts the answer's tokens of whose text something has come, this text included.
  virtual void on_text(int index, std::string_view text, int n_shown) = 0;
  virtual void on_end(int index, engine::Generated generated) = 0;
  virtual void on_error(const Failure& failure) = 0;
};

// One answer that the worker computes.
struct Job {
  std::shared_ptr<http::Exchange> exchange;
  std::shared_ptr<Reply> reply;
  int index = 0;  // the answer's number among the request's answers
  std::vector<engine::Token> prompt;
  engine::SamplerOptions sampler;
  engine::GenerateOptions options;            // the worker sets cancel, pause and drafter
  std::shared_ptr<engine::LogitMask> mask;    // a grammar or a given text; may be null
  std::unique_ptr<LogprobRecorder> recorder;  // sees logits before the mask; may be null
  // Makes the drafter when the answer begins: drafters take memory, and many answers may wait.
  std::function<std::unique_ptr<draft::Drafter>()> make_drafter;
  std::unique_ptr<draft::Drafter> drafter;

  std::atomic<bool> is_cancelled = false;
  std::atomic<bool> is_paused = false;
  std::chrono::steady_clock::time_point paused_since;  // only the worker's thread uses it
  std::atomic<int> n_tokens = 0;                       // counts the answer's tokens so far
  int number = -1;                                     // the answer's number in the batcher
  bool is_looked_up = false;                   // says that the kept part of the prompt is loaded
  std::optional<KeptPrefixes::Text> loadable;  // the prompt, while its kept part is being loaded
};

class Worker {
 public:
  // Limits the answers that pause behind slow readers, where `n_parallel` and `n_queue` together
  // are less: each keeps its keys and values, and its drafter.
  static constexpr size_t kMostPaused = 64;
  // Is how long an answer may pause, in seconds, before it ends where another finds no room for its
  // keys and values.
  static constexpr double kMostPauseSeconds = 10.0;

  // Computes `n_parallel` answers at once and lets `n_queue` wait. The engine must outlive the
  // worker. Throws Error if texts are to be kept on disk but cannot be.
  Worker(engine::Engine& engine, int n_parallel, int n_queue, const KeepOptions& keep,
         double most_pause_seconds = kMostPauseSeconds);
  // Cancels the answers that are left. Their replies hear nothing more.
  ~Worker();

  // Takes all of a request's answers and calls `accepted` before any of them begins, or returns
  // false where there is no room for them. Answers that pause take none.
  bool submit(const std::vector<std::shared_ptr<Job>>& jobs, const std::function<void()>& accepted);
  // Cancels the answers of this exchange, for which nobody waits any more.
  void cancel(const http::Exchange* exchange);
  // Tells the clients of all answers that the server stops, and ends the answers: those that wait
  // at once, those that have begun, and those that are submitted later, behind the present pass.
  void end_all();
  // Lets the worker look whether answers that are paused may go on.
  void look_again();

  struct View {
    int number = 0;
    int n_prompt = 0;
    int n_tokens = 0;
    bool is_paused = false;
  };
  struct Figures {
    int64_t n_answers = 0;  // counts answers that have ended
    int64_t n_cancelled = 0;
    int64_t n_failed = 0;
    int64_t n_prompt_tokens = 0;
    int64_t n_computed_tokens = 0;  // counts tokens of prompts that were computed
    int64_t n_tokens = 0;
    int64_t n_passes = 0;
    int64_t n_steps = 0;         // counts passes with steps of answers
    int64_t n_step_answers = 0;  // sums up the answers in each of these passes
    int64_t n_drafts = 0, n_draft_tokens = 0, n_accepted_tokens = 0;  // of ended answers
    int64_t n_most_tokens = 0;    // the most tokens of a prompt and its answer together
    double prompt_seconds = 0.0;  // the time until prompts were read
    double answer_seconds = 0.0;  // the time of answers behind their first token
    double busy_seconds = 0.0;    // the time in passes
    int n_waiting = 0;
    std::vector<View> running;
  };
  // Returns the figures so far, without waiting for a pass.
  Figures figures() const;
  // Returns the texts that are kept on disk; null if none are to be kept.
  const KeptPrefixes* kept() const { return kept_.get(); }
  // Estimates from the last answers how many seconds it takes until one more has room.
  int seconds_until_room() const;

 private:
  void run();
  Asker asker_of(const Job& job);
  void keep(const Job& job, const engine::Generated& generated);
  void load_first();
  bool save_some();
  struct Failed {
    std::shared_ptr<Job> job;
    Failure failure;
  };
  bool start_waiting();
  bool start_those_that_fit(std::vector<Failed>* failed);
  void drop(const http::Exchange* exchange);
  size_t n_computing() const;
  void pause_those_unread();
  struct Overdue {
    std::shared_ptr<Job> job;  // null if no pause has an end
    std::chrono::steady_clock::time_point since;
  };
  Overdue longest_pause() const;
  void end_longest_pause();
  bool take_ended();
  void end(Job& job);
  void begin_anew(const std::exception& error);
  void say_that_all_ends();
  void count_passes();
  void count_busy(double seconds);

  engine::Engine& engine_;
  const size_t n_parallel_, n_queue_, n_most_paused_;
  const std::chrono::steady_clock::duration most_pause_;
  const bool is_shared_;                        // clients with different keys share texts
  std::map<std::string, cache::Owner> owners_;  // by key; only the worker's thread uses it
  std::optional<engine::Batcher> batcher_;      // only the worker's thread uses it
  std::unique_ptr<KeptPrefixes> kept_;          // other threads may call its figures() alone
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  uint64_t n_events_ = 0;
  bool is_stopping_ = false;
  bool ends_all_ = false;
  std::deque<std::shared_ptr<Job>> waiting_;
  std::vector<std::shared_ptr<Job>>
      running_;  // only the worker's thread changes it, with the mutex held
  Figures figures_;
  double answer_seconds_ = 1.0;  // about what the last answers took
  std::thread thread_;
};

}  // namespace troika::server
