// Steps of a mixture of experts: the choice of experts for a token, their products, and the sum.
// The rows of all tokens that take an expert are multiplied together.
#pragma once

#include <cstdint>
#include <cstring>

#include "lanes/host/op_context.h"
#include "model/limits.h"

namespace troika::lanes {

// An expert that a token takes, and its share of the sum. A Route fills two floats of the value
// that the router writes and the other ops of a mixture read.
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

// Returns null for an op that has nothing to do with experts.
const ExpertCounts* experts_of(const BoundOp& bound);

// A mixture has no more experts than this, and the lane keeps room for so many on its stack.
inline constexpr size_t kMostExperts = model::kMostExperts;

// Returns how many whole numbers each worker needs beside the blueprint's values.
size_t expert_scratch_length(const ExpertCounts& experts, int n_tokens);

// Chooses the best experts for one row, with their shares.
void run_route(const BoundOp& bound, const OpContext& context, int row);
void run_expert_linear(const BoundOp& bound, const OpContext& context, int index, int worker);
// Sums the experts' parts of the tokens that fall to this worker.
void run_expert_sum(const BoundOp& bound, const OpContext& context, int worker);

}  // namespace troika::lanes
