// Steps of a mixture of experts: which experts a token takes, their products, and the sum. The rows
// of all tokens that an expert takes are multiplied together.
#pragma once

#include "lanes/host/op_context.h"

namespace troika::lanes {

// Null for an op that has nothing to do with experts.
const ExpertCounts* experts_of(const BoundOp& bound);

// What an op needs beside the blueprint's values: whole numbers for each worker.
size_t expert_scratch_length(const ExpertCounts& experts, int n_tokens);

// Chooses the best experts of one row, with their shares.
void run_route(const BoundOp& bound, const OpContext& context, int row);
void run_expert_linear(const BoundOp& bound, const OpContext& context, int index, int worker);
// The tokens that fall to this worker.
void run_expert_sum(const BoundOp& bound, const OpContext& context, int worker);

}  // namespace troika::lanes
