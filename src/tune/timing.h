// How fast prompts and steps are under a plan, by running them.
#pragma once

#include <vector>

#include "measure/measure.h"
#include "plan/plan.h"
#include "prepare/options.h"
#include "tune/proof/proof.h"

namespace troika::tune {

// Prompts of these lengths, each at its best, and if wanted a step behind a short one, as the
// prompt of one token. A prompt is run again, three times in all at most, until `patience_s` is
// spent on its length.
std::vector<PromptTime> time_plan(const prepare::Options& options, const plan::Plan& plan,
                                  const std::vector<int>& prompts, bool with_step,
                                  double patience_s, const ProgressFunction& progress);

// What `later` holds, or less where `earlier` has a shorter time of the same length.
std::vector<PromptTime> best_of(const std::vector<PromptTime>& earlier,
                                const std::vector<PromptTime>& later);

// Returns the times of prompts without the step.
std::vector<PromptTime> prompts_of(std::vector<PromptTime> times);

// What steps of several rows take, for drafts.
std::vector<plan::StepCost> time_steps(const prepare::Options& options, const plan::Plan& plan,
                                       const ProgressFunction& progress);

}  // namespace troika::tune
