#include "server/llama/settings.h"

#include <algorithm>

namespace troika::server {

Json settings_json(const Wanted& wanted) {
  const engine::SamplerOptions& s = wanted.sampler;
  return {{"n_predict", wanted.most_tokens},
          {"seed", s.seed},
          {"temperature", decimal_of(s.temperature)},
          {"top_k", s.top_k},
          {"top_p", decimal_of(s.top_p)},
          {"min_p", decimal_of(s.min_p)},
          {"repeat_last_n", s.penalty_window},
          {"repeat_penalty", decimal_of(s.repetition_penalty)},
          {"presence_penalty", decimal_of(s.presence_penalty)},
          {"frequency_penalty", decimal_of(s.frequency_penalty)},
          {"stop", wanted.stops},
          {"ignore_eos", wanted.ignores_end},
          {"stream", wanted.is_stream},
          {"n_probs", std::max(wanted.n_logprobs, 0)},
          {"post_sampling_probs", wanted.likelihoods == engine::Likelihoods::kOfChoice},
          {"timings_per_token", wanted.wants_timings}};
}

std::string text_of(const std::vector<engine::Token>& tokens, const text::Tokenizer& tokenizer) {
  std::string text;
  for (const engine::Token token : tokens) text += tokenizer.piece(token, true);
  return text;
}

Json verbose_json(const Wanted& wanted, const text::Tokenizer& tokenizer) {
  return {{"prompt", text_of(wanted.prompts.front(), tokenizer)},
          {"tokens_evaluated", wanted.prompts.front().size()},
          {"generation_settings", settings_json(wanted)}};
}

}  // namespace troika::server
