// Text in, text out: a prompt, an answer that streams, and what it took.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/session.h"

namespace troika::engine {

enum class Stop : uint8_t {
  kEnd,      // the model ended its answer
  kLength,   // the wanted number of tokens
  kString,   // one of the stop strings
  kContext,  // the context is full
  kCancelled,
};

const char* stop_name(Stop stop);

struct GenerateOptions {
  int most_tokens = -1;            // -1: until the model ends its answer or the context is full
  std::vector<std::string> stops;  // the text ends before the first of them
  bool ignore_end = false;         // go on after the model's end token
  const std::atomic<bool>* cancel = nullptr;
  // Guesses what comes, to verify several tokens in one pass; the tokens stay the same. May be null
  // and must outlive the call.
  draft::Drafter* drafter = nullptr;
  // Called for each token before its text is shown; `is_drafted`: it was guessed.
  std::function<void(Token token, bool is_drafted)> on_token{};
};

struct Generated {
  std::string text;
  std::vector<Token> tokens;
  Stop stop = Stop::kLength;
  int n_prompt = 0;    // tokens of the prompt
  int n_computed = 0;  // of them not known from before
  double prefill_seconds = 0;
  double calibration_seconds = 0;  // of these, for logits of the prompt's positions (D2)
  double decode_seconds = 0;       // all tokens but the first
  int n_steps = 0;  // passes after the prefill: each gives a token, or more with drafts

  double prefill_tokens_per_s() const;
  double decode_tokens_per_s() const;
};

// Called with whole characters of UTF-8.
using TextSink = std::function<void(std::string_view text)>;

Generated generate(Session& session, std::span<const Token> prompt, Sampler& sampler,
                   const GenerateOptions& options, const TextSink& sink);

}  // namespace troika::engine
