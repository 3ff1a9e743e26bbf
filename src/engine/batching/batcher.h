// Runs many answers at once, in common steps with parts of prompts between them. An answer in
// company has the same bits as alone.
#pragma once

#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "engine/answer.h"
#include "engine/batching/part_costs.h"
#include "engine/prompt_logits.h"
#include "engine/sampler.h"
#include "engine/session.h"

namespace troika::engine {

struct AnswerRequest {
  std::vector<Token> prompt;
  SamplerOptions sampler{};
  LogitMask* mask = nullptr;  // must outlive the answer; no step is taken before it is ready
  GenerateOptions options{};  // a drafter in it serves this answer alone
  TextSink sink{};
  cache::Owner owner = cache::kAnybody;  // answers of different owners share no prompts
};

// Counts what was done for all answers together.
struct BatcherStatistics {
  int64_t n_steps = 0;         // counts passes with a step of some answer
  int64_t n_step_answers = 0;  // adds up how many answers had a step in each pass
  int64_t n_step_rows = 0;     // counts rows of those answers, drafts included
  int64_t n_prompt_parts = 0;
  int64_t n_prompt_rows = 0;
  int most_together = 0;  // the most answers in one step
};

// Runs many answers. One thread at a time uses it.
class Batcher {
 public:
  // The engine must outlive the batcher.
  explicit Batcher(Engine& engine);
  ~Batcher();

  // Lets these watch every pass from now on. Logits of prompts are not shown to them.
  void watch(const Watch& watch) { watch_ = watch; }
  // Queues an answer and returns its number; numbers count up. Where something is wrong with the
  // request, `take` throws it; wrong options of sampling are thrown at once.
  int submit(AnswerRequest request);
  // Does one pass: a step of all answers that have read their prompts, or a part of a prompt, in
  // turns. While an answer waits for a step, no part takes longer than 140 ms or than the smallest
  // part, as far as the times of earlier parts can tell. Of several prompts the one with the least
  // left goes first; each turn that a prompt waits counts as a chunk less of it. Returns false
  // where nothing is left to do, except for answers that pause or whose masks are made elsewhere.
  bool step();

  bool is_done(int answer) const;
  // Says that an answer has not begun: there are not slots yet for all that it may need.
  bool is_queued(int answer) const;
  // Returns an answer that has ended; called once. Throws the Error that ended it.
  Generated take(int answer);

  const BatcherStatistics& statistics() const { return statistics_; }

 private:
  enum class State : uint8_t { kQueued, kPrompt, kStepping, kDone };
  struct Entry;

  double now_us() const { return engine_.machine().clock().now_us(); }
  // Returns the answers that somebody still waits for; some of them may have been taken already.
  std::span<const std::unique_ptr<Entry>> live() const { return entries_; }
  void admit();
  int64_t n_slots_wanted() const;
  void look_for_ends();
  Entry* next_prompt() const;
  void count_turn(Entry& read);
  void read_prompt(Entry& entry, bool has_company);
  void share_prompts();
  int rows_in_time(const Entry& entry) const;
  void begin_prompt(Entry& entry);
  void end_prompt(Entry& entry);
  void take_first_tokens();
  void run_steps();
  void add_steps();
  void add_prompt_beside();
  void learn_part_costs(double pass_ms);
  void take_steps(double pass_ms);
  void end(Entry& entry);
  void fail(Entry& entry);
  void drop_sessions();
  template <typename Body>
  void guarded(Entry& entry, Body body);

  Engine& engine_;
  Watch watch_;
  std::vector<std::unique_ptr<Entry>> entries_;  // by number, from `first_` on; null once taken
  int first_ = 0;                                // answers with smaller numbers are all taken
  bool may_admit_ = false;
  bool is_turn_of_prompts_ = false;
  size_t next_step_ = 0;  // says who is first in a step that has no room for all
  PartCosts part_costs_;
  BatcherStatistics statistics_;
  // The rows that an answer has in the current step.
  struct Share {
    Entry* entry;
    int first_row;
    int n_rows;
    bool is_prompt;
  };
  std::vector<Share> shares_;
  struct Taken {
    Entry* entry;
    Session::Stepped stepped;
  };
  std::vector<Taken> taken_;
  std::vector<Entry*> ready_;
  cache::Batch batch_;
  // One entry for each row; empty where no logits were wanted.
  std::vector<std::span<const float>> logits_;
  std::vector<int> kept_, kept_of_one_;
};

}  // namespace troika::engine
