#include "engine/generate.h"

#include "base/clock.h"
#include "base/units.h"
#include "engine/prompt_logits.h"

namespace troika::engine {

Generated generate(Session& session, std::span<const Token> prompt, Sampler& sampler,
                   const GenerateOptions& options, const TextSink& sink) {
  const Clock& clock = session.engine().machine().clock();
  Answer answer(session.engine(), options, sink);
  Generated& g = answer.result();
  const double start_us = clock.now_us();
  g.n_prompt = static_cast<int>(prompt.size());
  const int coverage = options.drafter != nullptr ? options.drafter->coverage() : 0;
  PromptLogits likely(coverage);
  session.check_room(prompt.size(), options.most_tokens);
  g.n_computed = session.prefill(prompt, options.cancel, coverage > 0 ? &likely : nullptr);
  g.calibration_seconds = likely.ms() / 1e3;
  if (session.n_unread() > 0) {
    g.prefill_seconds = (clock.now_us() - start_us) / kUsPerS;
    answer.cancel();
    return answer.finish();
  }
  if (options.drafter != nullptr) {
    options.drafter->begin(session.history(), options.cancel);
    options.drafter->calibrate(likely.likely());
  }
  g.prefill_seconds = (clock.now_us() - start_us) / kUsPerS;

  const Session::IsLast is_end = [&](Token token) { return answer.is_end(token); };
  while (!answer.must_stop(session)) {
    answer.take(session, session.step(sampler, options.drafter, answer.most_in_a_step(), is_end));
  }
  return answer.finish();
}

}  // namespace troika::engine
