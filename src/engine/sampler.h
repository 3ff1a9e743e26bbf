// Chooses the next token from logits. The randomness of each token depends on the seed and its
// position alone, so the same seed gives the same text however the tokens were computed.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/error.h"
#include "cache/batch.h"

namespace troika::engine {

using cache::Token;

struct SamplerOptions {
  float temperature = 0.8f;  // 0: always the most likely token
  int top_k = 40;            // 0: off
  float top_p = 0.95f;       // 1: off
  float min_p = 0.05f;       // 0: off; the least share of the most likely token's probability
  float repetition_penalty = 1.0f;  // 1: off; divides the positive logits of tokens seen lately
  float frequency_penalty = 0.0f;   // is taken off a logit for each time its token was seen lately
  float presence_penalty = 0.0f;    // is taken off once if the token was seen lately
  int penalty_window = 64;          // counts the last tokens: those seen lately; -1: all
  std::vector<std::pair<Token, float>> logit_bias{};
  uint64_t seed = 0;
};

// Is thrown where nothing may follow because of a mask or biases, which somebody has asked for.
class NothingMayFollow : public Error {
 public:
  using Error::Error;
};

// A token that may be chosen.
struct Candidate {
  Token token;
  float logit;
  float probability;
};

// Forbids tokens before one is chosen: a grammar does, for instance.
class LogitMask {
 public:
  virtual ~LogitMask() = default;
  // Says whether it is known by now what may follow `history`; if not, it is found out elsewhere
  // meanwhile. Whoever shares passes with others asks this before each step.
  virtual bool is_ready(std::span<const Token>) { return true; }
  // Is told the model's own logits, before biases, penalties and `apply` change them.
  virtual void on_logits(std::span<const Token>, std::span<const float>) {}
  // Sets the logits of tokens that must not follow `history` to minus infinity.
  virtual void apply(std::span<const Token> history, std::span<float> logits) = 0;
  // Is told, after `apply`, the tokens among which the one behind `history` is chosen by chance:
  // the likeliest first, with probabilities that are not divided by their sum.
  virtual void on_choice(std::span<const Token>, std::span<const Candidate>) {}
};

// Throws the Error for logits that are no numbers.
[[noreturn]] void throw_no_numbers();

class Sampler {
 public:
  // Throws UsageError for senseless options. `mask` may be null, and must outlive the sampler.
  explicit Sampler(SamplerOptions options, LogitMask* mask = nullptr);

  const SamplerOptions& options() const { return options_; }

  // Returns the token that follows `history`. Its randomness is that of position history.size().
  // Throws Error where every token is forbidden, and NothingMayFollow where a mask or biases may
  // have forbidden them.
  Token sample(std::span<const Token> history, std::span<const float> logits);

 private:
  [[noreturn]] static void throw_all_forbidden(std::span<const float> logits);
  bool has_penalties() const;
  void penalise(std::span<const Token> history);
  void take_finite(std::span<const float> from);

  SamplerOptions options_;
  LogitMask* mask_;
  std::vector<float> logits_;
  std::vector<Candidate> candidates_;
  std::vector<int> counts_;  // by token, of those seen lately; all are 0 between two calls
  std::vector<Token> seen_;  // has each token once whose count is not 0
};

}  // namespace troika::engine
