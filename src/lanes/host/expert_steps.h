// Steps of a mixture of experts: which experts a token takes, their products, and the sum. The rows
// of all tokens that an expert takes are multiplied together.
#pragma once

#include "lanes/host/steps.h"

namespace troika::lanes {

bool is_of_experts(const model::Op& op);

// What a step needs beside the blueprint's values: whole numbers for each worker.
size_t expert_scratch_length(const Step& step, int n_tokens);

// Chooses the best experts of one row, with their shares.
void run_route(const Step& step, const StepContext& context, int row);
void run_expert_linear(const Step& step, const StepContext& context, int step_index, int worker);
// The tokens that fall to this worker.
void run_expert_sum(const Step& step, const StepContext& context, int worker);

}  // namespace troika::lanes
