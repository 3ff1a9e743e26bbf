// Steps of a mixture of experts: which experts a token takes, their products, and the sum. The rows
// of all tokens that an expert takes are multiplied together.
#pragma once

#include <cstdint>
#include <cstring>

#include "lanes/host/op_context.h"

namespace troika::lanes {

// An expert that a token takes, and its share of the sum. It fills two floats of the value that the
// router writes and the other ops of a mixture read.
struct Route {
  int32_t expert;
  float share;
};
static_assert(sizeof(Route) == 2 * sizeof(float));

inline Route read_route(const float* routes, size_t i) {
  Route route;
  std::memcpy(&route, routes + 2 * i, sizeof(route));
  return route;
}
inline void write_route(float* routes, size_t i, const Route& route) {
  std::memcpy(routes + 2 * i, &route, sizeof(route));
}

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
