// The thread that computes: it runs a batcher, in which answers share passes, and a line of answers
// that wait for a place in it.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "engine/batcher.h"
#include "http/exchange.h"
#include "server/kept/kept_prefixes.h"
#include "server/logprobs.h"

namespace troika::server {

// Who is told what comes of a request's answers. Called by the worker's thread.
class Reply {
 public:
  virtual ~Reply() = default;
  virtual void on_prompt(int index, const engine::PromptProgress& progress) = 0;
  // A token comes, before its text does. `recorder` may be null.
  virtual void on_token(int index, engine::Token token, LogprobRecorder* recorder) = 0;
  virtual void on_text(int index, std::string_view text) = 0;
  virtual void on_end(int index, engine::Generated generated) = 0;
  virtual void on_error(const std::string& why) = 0;
};

// One answer.
struct Job {
  std::shared_ptr<http::Exchange> exchange;
  std::shared_ptr<Reply> reply;
  int index = 0;  // among the request's answers
  std::vector<engine::Token> prompt;
  engine::SamplerOptions sampler;
  engine::GenerateOptions options;            // the worker sets cancel, pause and drafter
  std::shared_ptr<engine::LogitMask> mask;    // a grammar, or a text that is given; null: none
  std::unique_ptr<LogprobRecorder> recorder;  // in front of the mask; null where nobody asks
  // Made when the answer begins: a drafter takes memory, and many answers may wait.
  std::function<std::unique_ptr<draft::Drafter>()> make_drafter;
  std::unique_ptr<draft::Drafter> drafter;

  std::atomic<bool> is_cancelled = false;
  std::atomic<bool> is_paused = false;
  std::atomic<int> n_tokens = 0;  // so far
  int number = -1;                // in the batcher
  bool is_looked_up = false;      // what the disk knew of the prompt is there
};

class Worker {
 public:
  // So many answers are computed at once, and so many wait. The engine must outlive the worker.
  // Throws Error where what is to be kept on disk cannot be.
  Worker(engine::Engine& engine, int n_parallel, int n_queue, const KeepOptions& keep);
  // Cancels what is left; their replies hear nothing more.
  ~Worker();

  // Takes all of a request's answers and calls `accepted` before any of them begins, or returns
  // false where there is no room for them.
  bool submit(const std::vector<std::shared_ptr<Job>>& jobs, const std::function<void()>& accepted);
  // Nobody waits for the answers of this exchange any more.
  void cancel(const http::Exchange* exchange);
  // Something has changed that paused answers wait for.
  void look_again();

  struct View {
    int number = 0;
    int n_prompt = 0;
    int n_tokens = 0;
    bool is_paused = false;
  };
  struct Figures {
    int64_t n_answers = 0;  // that have ended
    int64_t n_cancelled = 0;
    int64_t n_failed = 0;
    int64_t n_prompt_tokens = 0;
    int64_t n_computed_tokens = 0;  // of prompts
    int64_t n_tokens = 0;
    int64_t n_passes = 0;
    int64_t n_steps = 0;         // passes with steps of answers
    int64_t n_step_answers = 0;  // answers in each, summed up
    int64_t n_drafts = 0, n_draft_tokens = 0, n_accepted_tokens = 0;  // of answers that have ended
    int64_t n_most_tokens = 0;                                        // of a prompt and its answer
    double prompt_seconds = 0.0;                                      // until prompts were read
    double answer_seconds = 0.0;  // of answers behind their first token
    double busy_seconds = 0.0;    // in passes
    int n_waiting = 0;
    std::vector<View> running;
  };
  // Never waits for a pass.
  Figures figures() const;
  // Null where nothing is kept on disk.
  const KeptPrefixes* kept() const { return kept_.get(); }
  // How long it may take until one more answer has room, as far as the last ones tell; in seconds.
  int seconds_until_room() const;

 private:
  void run();
  void keep(const Job& job, const engine::Generated& generated);
  void load_first();
  bool start_waiting();
  void pause_those_unread();
  bool take_ended();
  void end(Job& job);
  void begin_anew(const std::string& why);
  void count_passes();
  void count_busy(double seconds);

  engine::Engine& engine_;
  const size_t n_parallel_, n_queue_;
  std::optional<engine::Batcher> batcher_;  // of the thread
  std::unique_ptr<KeptPrefixes> kept_;      // of the thread too
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  uint64_t n_events_ = 0;
  bool is_stopping_ = false;
  std::deque<std::shared_ptr<Job>> waiting_;
  std::vector<std::shared_ptr<Job>> running_;  // changed by the thread alone, with the mutex held
  Figures figures_;
  double answer_seconds_ = 1.0;  // that the last answers took, about
  std::thread thread_;
};

}  // namespace troika::server
