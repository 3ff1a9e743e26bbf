// One conversation: its tokens, and the logits of what comes next. It is the client of a sequence
// in the engine's cache.
#pragma once

#include <atomic>
#include <functional>
#include <span>
#include <vector>

#include "cache/batch.h"
#include "draft/drafter.h"
#include "engine/batch_runner.h"
#include "engine/engine.h"
#include "engine/sampler.h"

namespace troika::engine {

// What a session takes over from the cache when a prompt begins: only what a computation of the
// whole prompt would give to the bit, so that no text depends on who was served before.
enum class Reuse : uint8_t {
  kOwn,  // what it has cached itself; nothing is left behind for others
  kAll,  // of whatever text begins alike, those of closed sessions too
};

class Session {
 public:
  // The engine must outlive the session. Sessions of one engine may be used from several threads,
  // each session from one at a time; their passes take turns.
  explicit Session(Engine& engine, Reuse reuse = Reuse::kOwn);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  Engine& engine() { return engine_; }
  // Every pass of this session alone is seen by these from now on.
  void watch(const Watch& watch) { watch_ = watch; }
  int context() const { return engine_.plan().context; }

  // Makes `tokens` the whole history. Of what the cache holds of it nothing is computed again but
  // the last token. Returns how many tokens were computed. Throws Error for an empty or too long
  // prompt. `cancel` may be set from another thread: the call then returns early, after a chunk.
  // What is not computed is not observed either.
  int prefill(std::span<const Token> tokens, const std::atomic<bool>* cancel = nullptr,
              PromptObserver* observer = nullptr);
  // The same in parts, for whoever has other things to do between them. `begin_prompt` returns how
  // many tokens are known already. Each `read_prompt` computes some more, at least one and no more
  // than wanted or than whole granules of the plan hold, and returns how many are left.
  int begin_prompt(std::span<const Token> tokens);
  int read_prompt(int most_tokens, PromptObserver* observer = nullptr);
  // In place of `begin_prompt` and all that follows: takes over the prompt that another session has
  // just read, with its keys, values and logits. REQUIRES: this session has no text yet; the other
  // one has logits, and all of its history is in the cache.
  void share_prompt(const Session& other);
  // Tokens of the prompt that are not read yet.
  int n_unread() const { return static_cast<int>(prompt_.size() - n_read_); }
  // `read_prompt` in two halves, so that steps of other sessions share its pass where the plan has
  // one class of arithmetic for both. The first adds at most `most_rows` rows to the batch and
  // returns how many; the second is told that they are kept, and the logits of the last row if it
  // wanted them. Both REQUIRE that the pass mutex is held.
  int add_prompt(int most_rows, cache::Batch* batch);
  void take_prompt(int n_rows, std::span<const float> logits);

  // Samples the next token and appends it to the history; its own logits are computed by the next
  // call. REQUIRES: the history is not empty. Throws Error where the context is full.
  Token next(Sampler& sampler);

  // Appends a token that somebody else chose. REQUIRES: it is one, and the context has room.
  void append(Token token);

  // `next` with drafts: verifies one, samples along it, and appends the tokens that are right and
  // the model's own behind them, at most `most_tokens`; the same tokens as that many calls of
  // `next` would give. Ends behind a token for which `is_last` says so. Without a drafter there is
  // one token. REQUIRES: as `next`, and most_tokens >= 1.
  struct Stepped {
    int n_tokens = 0;     // appended
    int n_drafted = 0;    // the first so many of them came from the draft
    bool is_pass = true;  // false: the logits were there already
  };
  using IsLast = std::function<bool(Token token)>;
  Stepped step(Sampler& sampler, draft::Drafter* drafter, int most_tokens,
               const IsLast& is_last = {});

  // A step in two halves, so that several sessions share a pass. The first adds at most `most_rows`
  // rows to its batch: the last token, and a draft. The second is told the logits of these rows, in
  // order, appends what they give, and says which rows are kept. Whatever it throws, the history
  // stays. Both REQUIRE that the engine's pass mutex is held, and the first what `step` does, and
  // that no logits are there. `company` shares the pass; returns how many tokens this session may
  // expect of it.
  double add_step(draft::Drafter* drafter, int most_tokens, int most_rows, draft::Company company,
                  cache::Batch* batch);
  Stepped take_step(Sampler& sampler, draft::Drafter* drafter,
                    std::span<const std::span<const float>> logits, double pass_ms, int n_rows,
                    const IsLast& is_last, std::vector<int>* kept);
  // What `step` does where logits are there already, as behind a prompt.
  bool has_logits() const { return has_logits_; }

  // Computes logits for every token of `tokens`, as the continuation of the history, and hands each
  // row over in order: (index, logits of what follows tokens[index]).
  using LogitSink = std::function<void(int index, std::span<const float> logits)>;
  void evaluate(std::span<const Token> tokens, const LogitSink& sink);

  // Runs a batch of any form over the history: a tree of drafts, for instance. Rows without a
  // parent continue the history; which sequence and tag they name makes no difference. Hands over
  // the logits of the rows that want them, in order, as (row, logits). Then `path` says which rows
  // become history: each the child of the one before, the first without a parent; it may be empty,
  // and all other rows are forgotten. Throws Error where the context is too small for all rows, or
  // a token is none of the model.
  using ChoosePath = std::function<std::vector<int>()>;
  void run_batch(const cache::Batch& batch, const LogitSink& sink, const ChoosePath& path,
                 plan::Phase phase = plan::Phase::kStep);

  // Forgets the history from `length` on.
  void truncate(int length);

  const std::vector<Token>& history() const { return history_; }
  // Logits of what follows the history; computed now where a call before did not leave them.
  // REQUIRES: the history is not empty.
  std::span<const float> logits();
  // The bytes that the keys and values of all sessions take.
  size_t kv_bytes() const;

 private:
  void check_next() const;
  void check_room(size_t n_tokens) const;
  void check_tokens(std::span<const Token> tokens) const;
  void need_sequence();
  int begin_sequence(std::span<const Token> tokens);
  void plan_layouts(int n_prompt, int position);
  void compute_pending();
  void compute_last();
  int most_draft_nodes(int most_tokens, int most_rows) const;
  void predict(std::span<const std::span<const float>> logits, Token next);
  void keep_logits(std::span<const float> row);

  Watch watch_of(PromptObserver* observer) const;

  Engine& engine_;
  Reuse reuse_;
  Watch watch_;
  cache::SequenceId sequence_ =
      -1;             // in the engine's cache; none before there is something to keep
  int n_cached_ = 0;  // tokens that it holds, from the first one on
  // The last token of the history may not be in the cache yet: it is sampled but not computed.
  std::vector<Token> history_;
  std::vector<Token> prompt_;  // that is being read
  size_t n_read_ = 0;
  bool is_first_part_ = false;  // the next one that is computed of a prompt
  std::vector<float> logits_;
  bool has_logits_ = false;  // `logits_` are those of what follows the history
  // Reused by every pass.
  cache::Batch batch_;
  std::vector<cache::Tag> tags_;
  std::vector<int> path_;  // accepted nodes of a draft
  std::vector<int> kept_;
  std::vector<std::span<const float>> rows_;
  std::vector<Token> predicted_;
  draft::Tree no_draft_;
  const draft::Tree* tree_ = nullptr;  // of the step that was added last
};

}  // namespace troika::engine
