#include "tune/timing.h"

#include <algorithm>
#include <limits>

#include "measure/measure_drafts.h"

namespace troika::tune {
namespace {

constexpr int kWarmUpTokens = 32;
constexpr int kMostRuns = 3;
constexpr int kStepContext = 64;
constexpr int kSteps = 12;
constexpr int kWidths[] = {1, 2, 4, 8, 16, 32, 64};
constexpr int kWidthRuns = 3;

}  // namespace

std::vector<PromptTime> time_plan(const prepare::Options& options, const plan::Plan& plan,
                                  const std::vector<int>& prompts, bool with_step, Runs runs,
                                  const ProgressFunction& progress) {
  prepare::Options as_planned = options;
  as_planned.plan.exact = plan;
  engine::Engine engine(as_planned);
  engine::Session session(engine);
  measure::prefill_seconds(session, kWarmUpTokens);
  const uint64_t n_parts = prompts.size() + 1;
  std::vector<PromptTime> times;
  for (const int n_tokens : prompts) {
    progress(times.size(), n_parts);
    double best_s = std::numeric_limits<double>::infinity(), spent_s = 0.0;
    for (int run = 0; run < runs.least || (run < kMostRuns && spent_s < runs.patience_s); ++run) {
      const double seconds = measure::prefill_seconds(session, n_tokens);
      best_s = std::min(best_s, seconds);
      spent_s += seconds;
    }
    times.push_back({n_tokens, 1e3 * best_s});
  }
  progress(times.size(), n_parts);
  double most_per_s = 0.0;
  for (int run = 0; with_step && run < kMostRuns; ++run) {
    most_per_s =
        std::max(most_per_s, measure::decode_run(session, kStepContext, kSteps).tokens_per_s);
  }
  if (with_step) times.push_back({1, 1e3 / most_per_s});
  progress(n_parts, n_parts);
  return times;
}

std::vector<PromptTime> best_of(const std::vector<PromptTime>& earlier,
                                const std::vector<PromptTime>& later) {
  std::vector<PromptTime> best = later;
  for (PromptTime& time : best) {
    for (const PromptTime& before : earlier) {
      if (before.n_tokens == time.n_tokens) time.ms = std::min(time.ms, before.ms);
    }
  }
  return best;
}

std::vector<PromptTime> prompts_of(std::vector<PromptTime> times) {
  std::erase_if(times, [](const PromptTime& time) { return time.n_tokens == 1; });
  return times;
}

double prompts_as_fast(const std::vector<PromptTime>& times_of_a, const plan::Plan& a,
                       const std::vector<PromptTime>& times_of_b, const plan::Plan& b) {
  const auto telling = [&](const std::vector<PromptTime>& times) {
    std::vector<PromptTime> left = prompts_of(times);
    std::erase_if(left, [&](const PromptTime& time) {
      return a.n_prompt_phase(time.n_tokens) == 0 || b.n_prompt_phase(time.n_tokens) == 0;
    });
    return left;
  };
  const std::vector<PromptTime> left = telling(times_of_a);
  return left.empty() ? 1.0 : times_as_fast(left, telling(times_of_b));
}

PromptTime longest_of(const std::vector<PromptTime>& times) {
  return *std::max_element(
      times.begin(), times.end(),
      [](const PromptTime& a, const PromptTime& b) { return a.n_tokens < b.n_tokens; });
}

std::vector<plan::StepCost> time_steps(const prepare::Options& options, const plan::Plan& plan,
                                       const ProgressFunction& progress) {
  prepare::Options as_planned = options;
  as_planned.plan.exact = plan;
  engine::Engine engine(as_planned);
  engine::Session session(engine);
  std::vector<int> widths;
  for (const int width : kWidths) {
    if (width <= plan.most_step_rows()) widths.push_back(width);
  }
  const std::vector<double> ms =
      measure::step_ms(session, widths, kStepContext, kWidthRuns, progress);
  std::vector<plan::StepCost> costs;
  for (size_t i = 0; i < widths.size(); ++i) costs.push_back({widths[i], ms[i]});
  return costs;
}

}  // namespace troika::tune
