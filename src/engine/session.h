// One conversation: its tokens, their keys and values, and the logits of what comes next.
#pragma once

#include <atomic>
#include <functional>
#include <span>
#include <vector>

#include "cache/batch.h"
#include "cache/kv_cache.h"
#include "draft/drafter.h"
#include "engine/engine.h"
#include "engine/sampler.h"

namespace troika::engine {

// Sees logits of a prompt's positions while it is read (D2). They are computed many at a time, as
// prompts are and not as generation is: good enough for guesses.
class PromptObserver {
 public:
  virtual ~PromptObserver() = default;
  virtual bool wants(int position) const = 0;
  virtual void see(int position, std::span<const float> logits) = 0;
  // What that took in all: the head, and `see`.
  virtual void took(double ms) = 0;
};

class Session {
 public:
  // The engine must outlive the session. Sessions of one engine may be used from several threads,
  // each session from one at a time; their passes take turns.
  explicit Session(Engine& engine);

  Engine& engine() { return engine_; }
  int context() const { return engine_.plan().context; }

  // Makes `tokens` the whole history. A beginning shared with the present history is never computed
  // twice. Returns how many tokens were computed. Throws Error for an empty or too long prompt.
  // `cancel` may be set from another thread: the call then returns early, after a chunk. What is
  // not computed is not observed either.
  int prefill(std::span<const Token> tokens, const std::atomic<bool>* cancel = nullptr,
              PromptObserver* observer = nullptr);

  // Samples the next token and appends it to the history; its own logits are computed by the next
  // call. REQUIRES: the history is not empty. Throws Error where the context is full.
  Token next(Sampler& sampler);

  // Appends a token that somebody else chose. REQUIRES: it is one, and the context has room.
  void append(Token token);

  // `next` with drafts: verifies one, samples along it, and appends the tokens that are right and
  // the model's own behind them, at most `most_tokens`; the same tokens as that many calls of
  // `next` would give. Ends behind a token for which `is_last` says so. REQUIRES: as `next`, and
  // most_tokens >= 1.
  struct Stepped {
    int n_tokens = 0;     // appended
    int n_drafted = 0;    // the first so many of them came from the draft
    bool is_pass = true;  // false: the logits were there already
  };
  using IsLast = std::function<bool(Token token)>;
  Stepped step(Sampler& sampler, draft::Drafter& drafter, int most_tokens,
               const IsLast& is_last = {});

  // Computes logits for every token of `tokens`, as the continuation of the history, and hands each
  // row over in order: (index, logits of what follows tokens[index]).
  using LogitSink = std::function<void(int index, std::span<const float> logits)>;
  void evaluate(std::span<const Token> tokens, const LogitSink& sink);

  // Runs a batch of any form over sequence 0, the history: a tree of drafts, for instance. Rows
  // without a parent continue the history. Hands over the logits of the rows that want them, in
  // order, as (row, logits). Then `path` says which rows become history: each the child of the one
  // before, the first without a parent; it may be empty, and all other rows are forgotten. Throws
  // Error where the context is too small for all rows, or a token is none of the model.
  using ChoosePath = std::function<std::vector<int>()>;
  void run_batch(const cache::Batch& batch, const LogitSink& sink, const ChoosePath& path);

  // Forgets the history from `length` on.
  void truncate(int length);

  const std::vector<Token>& history() const { return history_; }
  // Logits of what follows the history; computed now where a call before did not leave them.
  // REQUIRES: the history is not empty.
  std::span<const float> logits();
  size_t kv_bytes() const { return kv_.bytes(); }

 private:
  static constexpr cache::SequenceId kSequence = 0;  // the history, in the cache

  void check_next() const;
  void plan_layouts(size_t n_tokens, bool is_first);
  void compute_pending();
  void compute_last();
  int most_draft_nodes(int most_tokens) const;
  void predict(const draft::Tree& tree, std::span<const int> path, Token next);
  void run(const cache::Batch& batch, int first_index, const LogitSink& sink,
           const ChoosePath& path);
  void compute(const cache::Batch& batch, int first_index, const LogitSink& sink);
  // Chunks of at most `chunk` rows each on several lanes; logits of the last row are kept.
  void run_chunks(const cache::Batch& batch, size_t chunk);
  void fill_rows(const cache::Batch& batch);
  lanes::Run run_of_rows(size_t first, size_t n_rows);
  void run_head(const cache::Batch& batch, lanes::Run run, size_t first, int first_index,
                const LogitSink& sink);
  void observe(const cache::Batch& batch, lanes::Run run, size_t first);
  void check_room(size_t n_tokens) const;
  void check_tokens(std::span<const Token> tokens) const;
  void keep_logits(std::span<const float> row);

  Engine& engine_;
  cache::KvCache kv_;
  std::vector<Token> history_;
  // The last token of the history may not be in the cache yet: it is sampled but not computed.
  std::vector<float> logits_;
  bool has_logits_ = false;             // `logits_` are those of what follows the history
  PromptObserver* observer_ = nullptr;  // during a prefill
  // Reused by every pass.
  std::vector<int> path_;  // accepted nodes of a draft
  std::vector<std::span<const float>> rows_;
  std::vector<Token> predicted_;
  cache::Batch batch_;
  cache::Placement placement_;
  std::vector<Token> tokens_;
  std::vector<int> output_rows_;
  std::vector<float> rope_cos_, rope_sin_;
};

}  // namespace troika::engine
