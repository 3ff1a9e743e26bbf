// Holds one answer to a grammar: forbids every token that must not come next, takes guesses that
// cannot be right out of drafts, and knows the text that must come. None of this changes what the
// model chooses among what is allowed.
#pragma once

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
  // The answer begins behind `n_prompt` tokens of the history. Throws Error where the vocabulary
  // has no token with which an answer ends.
  Constraint(std::shared_ptr<grammar::Grammar> grammar, size_t n_prompt);

  void apply(std::span<const Token> history, std::span<float> logits) override;

  void begin(std::span<const Token> text) override;
  bool enter(Token token) override;
  void leave() override;

  // Tokens in which the text that must follow `text` can be written; none where there is a choice.
  void forced(std::span<const Token> text, std::vector<Token>* tokens);

  // What masks took, to be shown.
  struct Statistics {
    int64_t n_masks = 0;
    double sum_us = 0.0;
    double longest_us = 0.0;
  };
  const Statistics& statistics() const { return statistics_; }

 private:
  void follow(std::span<const Token> text);

  grammar::Matcher matcher_;
  size_t n_prompt_;
  std::vector<Token> answer_;  // that the matcher has followed; what was entered stands behind it
  grammar::TokenSet allowed_;
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
