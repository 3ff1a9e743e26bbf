#include "server/openai/usage.h"

#include <algorithm>

namespace troika::server {

Json likelihood_json(const Likelihood& one, const text::Tokenizer& tokenizer) {
  const std::string piece(tokenizer.piece(one.token, true));
  Json bytes = Json::array();
  for (const char c : piece) bytes.push_back(static_cast<unsigned char>(c));
  return {{"token", piece}, {"logprob", one.logprob}, {"bytes", bytes}};
}

const char* finish_reason(const Ending& ending) {
  const bool is_cut = ending.generated.stop == engine::Stop::kLength ||
                      ending.generated.stop == engine::Stop::kContext;
  if (is_cut) return "length";
  return ending.n_calls > 0 && !ending.cuts_call ? "tool_calls" : "stop";
}

void Usage::add(const engine::Generated& generated, int prompt) {
  const int n_cached = generated.n_prompt - generated.n_computed;
  const auto [known, is_new] = prompts_.try_emplace(prompt, Prompt{generated.n_prompt, n_cached});
  // One answer's prompt is known to the next ones, which says nothing of what was known before.
  if (!is_new) known->second.n_cached = std::min(known->second.n_cached, n_cached);
  n_tokens_ += static_cast<int64_t>(generated.tokens.size());
}

Json Usage::json() const {
  int64_t n_prompt = 0, n_cached = 0;
  for (const auto& [number, prompt] : prompts_) {
    n_prompt += prompt.n_tokens;
    n_cached += prompt.n_cached;
  }
  return {{"prompt_tokens", n_prompt},
          {"completion_tokens", n_tokens_},
          {"total_tokens", n_prompt + n_tokens_},
          {"prompt_tokens_details", {{"cached_tokens", n_cached}}}};
}

Json Usage::timings(const engine::Generated& generated) {
  return timings_json({.n_cached = generated.n_prompt - generated.n_computed,
                       .n_computed = generated.n_computed,
                       .prompt_seconds = generated.prefill_seconds,
                       .n_tokens = static_cast<int>(generated.tokens.size()),
                       .answer_seconds = generated.decode_seconds});
}

Json logprobs_json(std::span<const TokenLogprobs> tokens, const text::Tokenizer& tokenizer) {
  Json content = Json::array();
  for (const TokenLogprobs& token : tokens) {
    Json one = likelihood_json(token.taken, tokenizer);
    one["top_logprobs"] = Json::array();
    for (const Likelihood& other : token.top) {
      one["top_logprobs"].push_back(likelihood_json(other, tokenizer));
    }
    content.push_back(one);
  }
  return {{"content", content}, {"refusal", nullptr}};
}

}  // namespace troika::server
