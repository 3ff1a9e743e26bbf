// Holds one answer to a grammar: forbids every token that must not come next, takes guesses that
// cannot be right out of drafts, and knows the text that must come. None of this changes what the
// model chooses among what is allowed.
#pragma once

#include <atomic>
#include <exception>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "draft/rules.h"
#include "draft/source.h"
#include "engine/sampler.h"
#include "grammar/grammar.h"

namespace troika::engine {

class Constraint : public LogitMask, public draft::Rules {
 public:
  // Has work done at another time, by another thread.
  using Elsewhere = std::function<void(std::function<void()> work)>;

  // The answer begins behind `n_prompt` tokens of the history. With `elsewhere` a mask that takes
  // more than some milliseconds is made there: it is ready some time after that work was done, and
  // `apply` throws TooMuchWork before. Without it every mask is made at once. Throws Error where
  // the vocabulary has no token with which an answer ends.
  Constraint(std::shared_ptr<grammar::Grammar> grammar, size_t n_prompt, Elsewhere elsewhere = {});
  ~Constraint() override;

  bool is_ready(std::span<const Token> history) override;
  void apply(std::span<const Token> history, std::span<float> logits) override;

  void begin(std::span<const Token> text) override;
  bool enter(Token token) override;
  void leave() override;

  // Tokens in which the text that must follow `text` can be written; none where there is a choice.
  void forced(std::span<const Token> text, std::vector<Token>* tokens);

  // What masks took while somebody waited for them, to be shown.
  struct Statistics {
    int64_t n_masks = 0;
    double sum_us = 0.0;
    double longest_us = 0.0;
  };
  const Statistics& statistics() const { return statistics_; }

 private:
  struct Awaited;
  static constexpr size_t kNoMask = ~size_t{0};

  void follow(std::span<const Token> text);
  void make_mask(std::span<const Token> history);
  void ask_elsewhere(std::span<const Token> history);
  void take_awaited();

  grammar::Matcher matcher_;
  size_t n_prompt_;
  std::vector<Token> answer_;  // that the matcher has followed; what was entered stands behind it
  grammar::TokenSet allowed_;
  size_t mask_place_ = kNoMask;  // behind so many tokens of the answer that is the mask
  Elsewhere elsewhere_;
  std::shared_ptr<Awaited> awaited_;  // null: nothing is made elsewhere
  std::exception_ptr error_;          // that has ended such work
  Statistics statistics_;
};

// Drafts the text that must come.
class ForcedSource : public draft::Source {
 public:
  explicit ForcedSource(std::shared_ptr<Constraint> constraint);
  const char* name() const override { return "grammar"; }
  void reserve(int most_text, int most_nodes) override;
  void reset() override { text_.clear(); }
  void observe(std::span<const Token> tokens) override;
  void propose(int most, draft::Tree* tree) override;

 private:
  std::shared_ptr<Constraint> constraint_;
  std::vector<Token> text_;
  std::vector<Token> tokens_;  // scratch
};

}  // namespace troika::engine
