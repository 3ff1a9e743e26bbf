// One conversation: its tokens, and the logits of what comes next. Its keys and values are a
// sequence in the engine's cache.
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

// What a session takes over from the cache when a prompt begins. It takes only what computing the
// whole prompt would give to the bit, so that no text depends on who was served before.
enum class Reuse : uint8_t {
  kOwn,  // what the session has cached itself; it leaves nothing behind for others
  kAll,  // what any text of the owner that begins alike has cached, closed sessions among them
};

class Session {
 public:
  // The engine must outlive the session. Sessions of one engine may be used from several threads,
  // each session from one at a time; their passes take turns.
  // The session takes over and leaves behind texts of this owner alone.
  explicit Session(Engine& engine, Reuse reuse = Reuse::kOwn, cache::Owner owner = cache::kAnybody);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  Engine& engine() { return engine_; }
  const Engine& engine() const { return engine_; }
  // Lets these watch every pass of this session alone from now on.
  void watch(const Watch& watch) { watch_ = watch; }
  int context() const { return engine_.plan().context; }

  // Throws Error where the context does not hold a prompt of so many tokens; the sentence advises
  // one that has room for the answer, too. -1: nobody has limited the answer's length.
  void check_room(size_t n_prompt, int most_answer) const;
  // Makes `tokens` the whole history. What the cache holds of it is not computed again, except for
  // the last token. Returns how many tokens were computed. Throws Error for an empty or too long
  // prompt. `cancel` may be set from another thread: then the call returns early, between chunks.
  // Tokens that are not computed are not observed.
  int prefill(std::span<const Token> tokens, const std::atomic<bool>* cancel = nullptr,
              PromptObserver* observer = nullptr);
  // Do what `prefill` does in parts, for callers with other things to do between them.
  // `begin_prompt` returns how many tokens are known already. Each `read_prompt` computes at least
  // one more token, and no more than wanted or than whole granules of the plan hold; with an
  // observer also no more than lie in the buffers together. It returns how many are left.
  int begin_prompt(std::span<const Token> tokens);
  int read_prompt(int most_tokens, PromptObserver* observer = nullptr);
  // Takes over the prompt that another session has just read, with its keys, values and logits;
  // called in place of `begin_prompt` and all that follows it. REQUIRES: this session has no text
  // yet; the other one has logits, and all of its history is in the cache.
  void share_prompt(const Session& other);
  // Returns how many tokens of the prompt are not read yet.
  int n_unread() const { return static_cast<int>(prompt_.size() - n_read_); }
  // Do what `read_prompt` does in two halves, so that steps of other sessions share its pass where
  // the plan has one class of arithmetic for both. The first adds at most `most_rows` rows to the
  // batch and returns how many. The second is called when these rows are kept, with the logits of
  // the last row if that wanted them. Both REQUIRE that the pass mutex is held.
  int add_prompt(int most_rows, cache::Batch* batch);
  void take_prompt(int n_rows, std::span<const float> logits);

  // Samples the next token and appends it to the history; the token's own logits are computed by
  // the next call. REQUIRES: the history is not empty. Throws Error where the context is full.
  Token next(Sampler& sampler);

  // Appends a token that somebody else chose. REQUIRES: the session has begun a prompt, the model
  // has this token, and the context has room.
  void append(Token token);

  // Does what `next` does, with drafts: verifies a draft, samples along it, and appends the tokens
  // that are right and the model's own token behind them. It appends at most `most_tokens`, which
  // are the tokens that as many calls of `next` would give. It ends behind a token for which
  // `is_last` says so. Without a drafter it appends one token. REQUIRES: what `next` requires, and
  // most_tokens >= 1.
  struct Stepped {
    int n_tokens = 0;   // counts appended tokens
    int n_drafted = 0;  // counts those that came from the draft: they are the first ones
  };
  using IsLast = std::function<bool(Token token)>;
  Stepped step(Sampler& sampler, draft::Drafter* drafter, int most_tokens,
               const IsLast& is_last = {});

  // Do what `step` does in two halves, so that several sessions share a pass. The first adds at
  // most `most_rows` rows to the batch: the last token, and a draft. `company` says who else shares
  // the pass. It returns how many tokens this session may expect of it. The second is told the
  // logits of these rows, in order, appends the tokens that they give, and says which rows are
  // kept. `n_step_rows` counts the rows of the pass, and is 0 where some were a prompt's. Where it
  // throws, the history stays. Both REQUIRE that the engine's pass mutex is held.
  // The first REQUIRES what `step` does, and that there are no logits yet.
  double add_step(draft::Drafter* drafter, int most_tokens, int most_rows, draft::Company company,
                  cache::Batch* batch);
  Stepped take_step(Sampler& sampler, draft::Drafter* drafter,
                    std::span<const std::span<const float>> logits, double pass_ms, int n_step_rows,
                    const IsLast& is_last, std::vector<int>* kept);
  // Says whether there are logits already, as behind a prompt; then `step` needs no pass.
  bool has_logits() const { return has_logits_; }

  // Computes logits for every token of `tokens` as a continuation of the history, and hands each
  // row over in order: (index, logits of what follows tokens[index]).
  using LogitSink = std::function<void(int index, std::span<const float> logits)>;
  void evaluate(std::span<const Token> tokens, const LogitSink& sink);

  // Runs a batch of any form over the history, for instance a tree of drafts. Rows without a parent
  // continue the history; it makes no difference which sequence and tag they name. Hands over the
  // logits of the rows that want them, in order, as (row, logits). Then `path` returns the rows
  // that become history: the first has no parent, and each other one is a child of the one before.
  // The path may be empty; all other rows are forgotten. Throws Error where the context is too
  // small for all rows, or the model has no such token.
  using ChoosePath = std::function<std::vector<int>()>;
  void run_batch(const cache::Batch& batch, const LogitSink& sink, const ChoosePath& path,
                 plan::Phase phase = plan::Phase::kStep);

  // Forgets the history from `length` on.
  void truncate(int length);
  // Lets others have the room of this text, and forgets its history. As long as nobody needs the
  // room, a session that takes over all that is cached finds the text again.
  void rest();

  const std::vector<Token>& history() const { return history_; }
  // Returns logits of what follows the history, and computes them where no earlier call left them.
  // REQUIRES: the history is not empty.
  std::span<const float> logits();
  // Returns the bytes that the keys and values of all sessions take.
  size_t kv_bytes() const;

 private:
  void check_next() const;
  // Throws Error where the context does not hold a text of so many tokens.
  void check_text(size_t n_tokens) const;
  void check_tokens(std::span<const Token> tokens) const;
  void need_sequence();
  void leave_sequence();
  int begin_sequence(std::span<const Token> tokens);
  void tell_of_prompt(int n_prompt, int position);
  int n_in_buffers(int position, int n_prompt) const;
  void compute_pending();
  void compute_last();
  int most_draft_nodes(int most_tokens, int most_rows, int n_rows) const;
  void predict(std::span<const std::span<const float>> logits, Token next);
  void keep_logits(std::span<const float> row);

  Watch watch_of(PromptObserver* observer) const;

  Engine& engine_;
  Reuse reuse_;
  cache::Owner owner_;
  Watch watch_;
  cache::SequenceId sequence_ =
      -1;             // the number in the engine's cache; none before there is something to keep
  int n_cached_ = 0;  // counts the tokens that the cache holds, from the first one on
  // The last token of the history may be sampled but not yet computed; then it is not in the cache.
  std::vector<Token> history_;
  std::vector<Token> prompt_;  // the prompt that is being read
  size_t n_read_ = 0;
  bool is_first_part_ = false;  // the next part is the first one computed of a prompt
  std::vector<float> logits_;
  bool has_logits_ = false;  // says whether `logits_` are those of what follows the history
  // The memory of `batch_` is used again by every pass.
  cache::Batch batch_;
  std::vector<cache::Tag> tags_;
  std::vector<int> path_;  // the accepted nodes of a draft
  std::vector<int> kept_;
  std::vector<std::span<const float>> rows_;
  std::vector<Token> predicted_;
  draft::Tree no_draft_;
  const draft::Tree* tree_ = nullptr;  // the draft of the step that was added last
};

}  // namespace troika::engine
