#include "cli/tune/compare_plans.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "base/clock.h"
#include "base/median.h"
#include "base/progress.h"
#include "cli/column_width.h"
#include "cli/output.h"
#include "cli/tune/busy_machine.h"
#include "cli/tune/cut_notes.h"
#include "engine/session.h"
#include "model/limits.h"

namespace troika::cli {
namespace {

using tune::PlanCandidate;
using tune::PlanChoice;

constexpr double kUsInMs = 1e3;
constexpr int kStepsBehind = 64;  // counts the tokens that are written behind a prompt

// Returns the width of a column in which every candidate's name has room.
size_t name_width(const PlanChoice& choice) {
  return column_width(choice.candidates, &PlanCandidate::name, 18);
}

// An engine that runs as a candidate says.
class CandidateRun {
 public:
  CandidateRun(const EngineFlags& flags, const PlanCandidate& candidate) {
    prepare::Options options = flags.checked();
    options.plan.exact = candidate.plan;
    engine_ = std::make_unique<engine::Engine>(options);
    session_ = std::make_unique<engine::Session>(*engine_);
  }

  double prompt_ms(int n_tokens) {
    session_->truncate(0);
    const std::vector<engine::Token> tokens(static_cast<size_t>(n_tokens), 1);
    const auto start = std::chrono::steady_clock::now();
    session_->prefill(tokens);
    return 1e3 * seconds_since(start);
  }

 private:
  std::unique_ptr<engine::Engine> engine_;
  std::unique_ptr<engine::Session> session_;
};

void print_measured(const PlanChoice& choice, const std::vector<int>& prompts,
                    const std::vector<std::vector<double>>& medians_us, int n_turns) {
  print(fmt::format("\n{:<{}} {:>6} {:>12} {:>12} {:>10}  {}\n", "measured", name_width(choice),
                    "prompt", "median", "predicted", "error", fmt::format("{} turns", n_turns)));
  for (size_t p = 0; p < prompts.size(); ++p) {
    double best_single_us = 0.0;
    for (size_t i = 0; i < choice.candidates.size(); ++i) {
      const PlanCandidate& c = choice.candidates[i];
      const double us = medians_us[i][p];
      if (c.has_single_lane && (best_single_us == 0.0 || us < best_single_us)) best_single_us = us;
      print(fmt::format("{:<{}} {:>6} {:>9.1f} ms {:>9.1f} ms {:>+9.1f}%{}\n", c.name,
                        name_width(choice), prompts[p], us / kUsInMs, c.prompt_us[p] / kUsInMs,
                        100.0 * (c.prompt_us[p] / us - 1.0), i == choice.best ? "  chosen" : ""));
    }
    if (best_single_us == 0.0) continue;  // no candidate has a single lane
    print(fmt::format("{:<{}} {:>6} {:>+9.1f} % against the best single lane\n", "chosen plan",
                      name_width(choice), prompts[p],
                      100.0 * (medians_us[choice.best][p] / best_single_us - 1.0)));
  }
}

}  // namespace

PlanChoice choose_and_print(const EngineFlags& flags, const std::vector<int>& prompts,
                            const plan::Plan* like) {
  tune::ChooseRequest request;
  request.like = like;
  request.options = flags.checked();
  request.prompts = prompts;
  if (request.options.memory.context == 0) {
    const int longest = *std::max_element(prompts.begin(), prompts.end());
    request.options.memory.context = std::min(longest + kStepsBehind, model::kMostContext);
  }
  request.use_cache = request.options.memory.has_side_files;
  request.keeps_profile =
      request.use_cache && !is_machine_busy("the profile that is taken now is not kept");
  std::unique_ptr<Progress> bar;
  PlanChoice choice;
  choice = tune::choose_plan(request, [&](const std::string& name) {
    bar = std::make_unique<Progress>(name);
    return bar->function();
  });
  bar.reset();
  double load = 0.0;
  for (const PlanCandidate& c : choice.candidates) load = std::max(load, c.profile_load);
  note(busy_profile_text(load));
  std::string head = fmt::format("{:<{}} {:>6}", "predicted", name_width(choice), "chunk");
  for (const int n : prompts) head += fmt::format("{:>12}", fmt::format("{} tok", n));
  print(head + fmt::format("{:>12}\n", "a step"));
  for (size_t i = 0; i < choice.candidates.size(); ++i) {
    const PlanCandidate& c = choice.candidates[i];
    std::string row = fmt::format("{:<{}} {:>6}", c.name, name_width(choice), c.plan.chunk());
    for (const double us : c.prompt_us) row += fmt::format("{:>9.1f} ms", us / kUsInMs);
    row += fmt::format("{:>9.1f} ms{}\n", c.step_us / kUsInMs, i == choice.best ? "  chosen" : "");
    print(row);
  }
  for (const PlanCandidate& c : choice.candidates) {
    if (!c.is_bounded) continue;
    print(fmt::format(
        "\n{}: so many lanes have too many placements and cuts to try them all, and a better one "
        "may be; fewer lanes, or rules for some subgraphs (--place), leave fewer\n",
        c.name));
  }
  for (size_t i = 0; i < choice.candidates.size(); ++i) {
    const PlanCandidate& c = choice.candidates[i];
    const bool is_told_by_next =
        i + 1 < choice.candidates.size() && choice.candidates[i + 1].name == c.name + ", cut";
    const std::string notes = cut_notes_text(c.notes, c.length_notes, c.plan);
    if (!notes.empty() && !is_told_by_next) print(fmt::format("\n{}\n{}", c.name, notes));
  }
  return choice;
}

void compare_and_print(const EngineFlags& flags, const std::vector<int>& prompts, int n_turns,
                       PlanChoice* choice) {
  std::vector<std::unique_ptr<CandidateRun>> runs;
  for (const PlanCandidate& candidate : choice->candidates) {
    runs.push_back(std::make_unique<CandidateRun>(flags, candidate));
    // A short prompt warms up. The context holds all that are compared.
    runs.back()->prompt_ms(std::min(8, *std::min_element(prompts.begin(), prompts.end())));
  }
  std::vector<std::vector<double>> medians_us(runs.size());
  for (const int n : prompts) {
    std::vector<std::vector<double>> times_us(runs.size());
    for (int turn = 0; turn < n_turns; ++turn) {
      for (size_t i = 0; i < runs.size(); ++i) {
        times_us[i].push_back(kUsInMs * runs[i]->prompt_ms(n));
      }
    }
    for (size_t i = 0; i < runs.size(); ++i) medians_us[i].push_back(median(times_us[i]));
  }
  const size_t predicted_best = choice->best;
  choice->best = tune::fastest(*choice, medians_us);
  print_measured(*choice, prompts, medians_us, n_turns);
  if (choice->best == predicted_best) return;
  print(fmt::format("\nkept, because it was faster than {}, which was predicted to be: {}\n",
                    choice->candidates[predicted_best].name,
                    choice->candidates[choice->best].name));
}

}  // namespace troika::cli
