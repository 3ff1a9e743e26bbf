// Writes what the interfaces of OpenAI say at the end of answers.
#pragma once

#include <map>
#include <span>

#include "server/writer.h"
#include "text/tokenizer.h"

namespace troika::server {

// Returns "stop", "length" or "tool_calls".
const char* finish_reason(const Ending& ending);

// Counts the tokens of a request's prompts, each once however many answers it has, and of all the
// answers.
class Usage {
 public:
  // Adds an answer to one of the prompts, which are numbered from 0.
  void add(const engine::Generated& generated, int prompt);
  Json json() const;
  // Returns how long an answer took.
  static Json timings(const engine::Generated& generated);

 private:
  struct Prompt {
    int n_tokens = 0;
    int n_cached = 0;  // counts tokens that were known before any of the answers
  };
  std::map<int, Prompt> prompts_;
  int64_t n_tokens_ = 0;
};

Json likelihood_json(const Likelihood& one, const text::Tokenizer& tokenizer);
// Returns {"content": [...]}, the likelihoods in the form of a chat.
Json logprobs_json(std::span<const TokenLogprobs> tokens, const text::Tokenizer& tokenizer);

}  // namespace troika::server
