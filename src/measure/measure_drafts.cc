#include "measure/measure_drafts.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "base/clock.h"
#include "base/error.h"
#include "base/median.h"
#include "engine/memory/context_room.h"
#include "measure/forced_text.h"
#include "measure/measure.h"
#include "measure/step_bounds.h"

namespace troika::measure {
namespace {

using Clock = std::chrono::steady_clock;

cache::Token some_token(engine::Session& session, size_t i) {
  const auto n_vocab = static_cast<size_t>(session.engine().blueprint().n_vocab);
  return static_cast<cache::Token>((7 + i * 131) % n_vocab);
}

double ms_of_answer(engine::Session& session, std::span<const cache::Token> prompt,
                    const std::vector<cache::Token>& answer, draft::Drafter* drafter) {
  ForcedText forced(prompt.size(), answer);
  engine::SamplerOptions greedy;
  greedy.temperature = 0.0f;
  engine::Sampler sampler(greedy, &forced);
  engine::GenerateOptions options;
  options.most_tokens = static_cast<int>(answer.size());
  options.ignore_end = true;
  options.drafter = drafter;
  const engine::Generated g = engine::generate(session, prompt, sampler, options, {});
  return 1e3 * g.decode_seconds / static_cast<double>(answer.size() - 1);
}

}  // namespace

std::vector<double> step_ms(engine::Session& session, const std::vector<int>& widths, int depth,
                            int repetitions, const ProgressFunction& progress) {
  const int most = session.engine().plan().most_step_rows();
  std::vector<std::vector<double>> ms(widths.size());
  const size_t n_context = static_cast<size_t>(depth) + 1;
  for (const int width : widths) {
    if (width < 1 || width > most) {
      throw UsageError(fmt::format("{} is no width of a step; use 1 to {}.", width, most));
    }
    check_context(session, n_context + static_cast<size_t>(width));
  }
  std::vector<cache::Token> context;
  for (size_t i = 0; i < n_context; ++i) context.push_back(some_token(session, i));
  session.prefill(context);
  const auto n_all = static_cast<size_t>(repetitions + 1) * widths.size();
  for (size_t i = 0; i < n_all; ++i) {
    if (progress) progress(i, n_all);
    const size_t which = i % widths.size();
    cache::Batch batch;
    std::vector<cache::Token> chain;
    chain.reserve(static_cast<size_t>(widths[which]));
    for (int j = 0; j < widths[which]; ++j) {
      chain.push_back(some_token(session, i + static_cast<size_t>(j)));
    }
    batch.add_chain(chain, static_cast<int>(context.size()), 0, /*all_logits=*/true);
    const Clock::time_point start = Clock::now();
    session.run_batch(batch, {}, [] { return std::vector<int>(); });
    const double taken = ms_since(start);
    if (i >= widths.size()) ms[which].push_back(taken);  // the first round only warms up
  }
  std::vector<double> medians;
  medians.reserve(ms.size());
  for (const std::vector<double>& times : ms) medians.push_back(median(times));
  return medians;
}

WidthTimes measure_widths(engine::Session& session, const std::vector<int>& widths, int depth,
                          int repetitions, const ProgressFunction& progress) {
  const std::vector<double> ms = step_ms(session, widths, depth, repetitions, progress);
  engine::Engine& engine = session.engine();
  WidthTimes found{{}, measure_peaks(engine.plan().n_threads()), {}};
  found.multiplying = step_peak(found.peaks, engine.plan(), engine.weights().main_type());
  double one = 0.0;
  for (size_t i = 0; i < widths.size(); ++i) {
    const StepBounds bounds = step_bounds(engine, found.peaks, widths[i], depth);
    found.times.push_back(
        {widths[i], ms[i], 0.0, bounds.read_ms, bounds.multiply_ms, bounds.fits_last_cache});
    if (widths[i] == 1) one = ms[i];
  }
  for (WidthTime& time : found.times) time.ratio = one > 0 ? time.ms / one : 0.0;
  return found;
}

Replay replay(engine::Session& session, std::span<const cache::Token> prompt,
              const std::vector<cache::Token>& answer, draft::Drafter& drafter, int n_pairs,
              const ProgressFunction& progress) {
  if (answer.size() < 2) throw UsageError("A replay needs an answer of at least two tokens.");
  if (prompt.size() + answer.size() > static_cast<size_t>(session.context())) {
    const size_t n_wanted = prompt.size() + answer.size();
    throw Error(fmt::format("Prompt and answer have {} tokens, but {}. Shorten them, or {}.",
                            n_wanted, engine::context_held(session.engine()),
                            engine::advised_context(session.engine(), n_wanted, 0)));
  }
  std::vector<double> plain, drafted, ratios;
  for (int pair = 0; pair < n_pairs; ++pair) {
    if (progress) progress(static_cast<size_t>(pair), static_cast<size_t>(n_pairs));
    // The order changes from pair to pair, so that neither always finds the machine warmer.
    drafter.clear_statistics();
    double with_ms = 0.0;
    if (pair % 2 == 1) with_ms = ms_of_answer(session, prompt, answer, &drafter);
    plain.push_back(ms_of_answer(session, prompt, answer, nullptr));
    if (pair % 2 == 0) with_ms = ms_of_answer(session, prompt, answer, &drafter);
    drafted.push_back(with_ms);
    ratios.push_back(plain.back() / with_ms);
  }
  return {static_cast<int>(prompt.size()),
          static_cast<int>(answer.size()),
          median(plain),
          median(drafted),
          median(ratios),
          *std::min_element(ratios.begin(), ratios.end()),
          *std::max_element(ratios.begin(), ratios.end())};
}

}  // namespace troika::measure
