// Writes what the interfaces of OpenAI say at the end of answers.
#pragma once

#include <vector>

#include "server/writer.h"
#include "text/tokenizer.h"

namespace troika::server {

// Returns "stop", "length" or "tool_calls".
const char* finish_reason(const Ending& ending);

// Counts the tokens of a request's prompts and of all its answers.
class Usage {
 public:
  void add(const engine::Generated& generated);
  Json json() const;
  // Returns how long an answer took.
  static Json timings(const engine::Generated& generated);

 private:
  int64_t n_prompt_ = 0, n_cached_ = 0, n_tokens_ = 0;
};

Json likelihood_json(const Likelihood& one, const text::Tokenizer& tokenizer);
// Returns {"content": [...]}, the likelihoods in the form of a chat.
Json logprobs_json(const std::vector<TokenLogprobs>& tokens, const text::Tokenizer& tokenizer);

}  // namespace troika::server
