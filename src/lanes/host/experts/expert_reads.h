// Experts that are read by route (P10): products of a mixture tell what reads them which ones they
// need, and which ones the next mixture may.
#pragma once

#include <span>

#include "lanes/host/op_context.h"

namespace troika::lanes {

// Limits the tokens whose next experts are guessed; of more, nearly all experts are needed anyway.
inline constexpr int kMostGuessTokens = 8;

// Returns what an op of a mixture knows of its experts.
ExpertCounts experts_of_op(const model::Blueprint& blueprint, const model::Op& op,
                           const weights::Store& weights);
// Returns an empty one where nothing is guessed: behind the last mixture, and behind a first
// product.
ExpertGuess bind_guess(const model::Blueprint& blueprint, const ExpertCounts& experts,
                       const weights::Store& weights, const Buffers& buffers,
                       const kernels::Table& kernels);
// Returns how many floats a worker needs to guess: a state, and logits of all experts for each
// token.
constexpr size_t guess_floats(size_t width, size_t n_experts) {
  return width + size_t{kMostGuessTokens} * n_experts;
}
size_t guess_floats(const ExpertGuess& guess);

// Says which experts are `active`, on one worker, and guesses the next ones on another. Is called
// by all workers before the first product of a mixture; they meet behind it.
void begin_expert_reads(const BoundOp& bound, const OpContext& context, int worker,
                        std::span<const int32_t> active);

}  // namespace troika::lanes
