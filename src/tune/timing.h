// Measures how fast prompts and steps are under a plan, by running them.
#pragma once

#include <vector>

#include "measure/measure.h"
#include "plan/plan.h"
#include "prepare/options.h"
#include "tune/proof/proof.h"

namespace troika::tune {

// How often a prompt is run: so often at least, and up to three times until so many seconds are
// spent on its length.
struct Runs {
  double patience_s = 0.0;
  int least = 1;
};

// Returns the best times of prompts of these lengths, and if wanted that of a step behind a short
// prompt, as a prompt of one token.
std::vector<PromptTime> time_plan(const prepare::Options& options, const plan::Plan& plan,
                                  const std::vector<int>& prompts, bool with_step, Runs runs,
                                  const ProgressFunction& progress);

// Returns `later`, with the times of `earlier` where they are shorter for the same length.
std::vector<PromptTime> best_of(const std::vector<PromptTime>& earlier,
                                const std::vector<PromptTime>& later);

// Returns the times of prompts without the step.
std::vector<PromptTime> prompts_of(std::vector<PromptTime> times);

// Returns how many times as fast prompts are by plan `a` as by plan `b`. Prompts so short that
// steps compute them, in any precision, tell nothing of it and are left out; 1 where there are no
// others.
double prompts_as_fast(const std::vector<PromptTime>& times_of_a, const plan::Plan& a,
                       const std::vector<PromptTime>& times_of_b, const plan::Plan& b);

// Returns the time of the longest prompt, in whichever order they were asked for. REQUIRES: there
// is one.
PromptTime longest_of(const std::vector<PromptTime>& times);

// Returns what steps of several rows take, for drafts.
std::vector<plan::StepCost> time_steps(const prepare::Options& options, const plan::Plan& plan,
                                       const ProgressFunction& progress);

}  // namespace troika::tune
