// Holds one answer to a grammar. It forbids every token that must not come next, takes guesses that
// cannot be right out of drafts, and knows text that must come. The model's choice among allowed
// tokens stays as it is.
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
  // Gets work and has it done at another time, by another thread.
  using Elsewhere = std::function<void(std::function<void()> work)>;

  // The answer begins behind `n_prompt` tokens of the history. With `elsewhere`, a mask that takes
  // more than some milliseconds is made there; until it is ready, `apply` throws TooMuchWork.
  // Without `elsewhere` every mask is made at once. Throws Error where the vocabulary has no token
  // with which an answer ends.
  Constraint(std::shared_ptr<grammar::Grammar> grammar, size_t n_prompt, Elsewhere elsewhere = {});
  ~Constraint() override;

  bool is_ready(std::span<const Token> history) override;
  void apply(std::span<const Token> history, std::span<float> logits) override;

  void begin(std::span<const Token> text) override;
  bool enter(Token token) override;
  void leave() override;

  // Finds tokens in which the text that must follow `text` can be written; none where there is a
  // choice.
  void forced(std::span<const Token> text, std::vector<Token>* tokens);

  // Adds up, for people, what masks took while somebody waited for them.
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
  // Tokens that the matcher has followed; entered guesses stand behind them.
  std::vector<Token> answer_;
  grammar::TokenSet allowed_;
  size_t mask_place_ = kNoMask;  // counts the tokens of the answer behind which the mask holds
  Elsewhere elsewhere_;
  std::shared_ptr<Awaited> awaited_;  // null: nothing is made elsewhere
  std::exception_ptr error_;          // ended the work elsewhere
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
  std::vector<Token> tokens_;  // kept between calls for its memory
};

}  // namespace troika::engine
