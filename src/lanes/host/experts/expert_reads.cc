#include "lanes/host/experts/expert_reads.h"

#include <algorithm>
#include <limits>

#include "lanes/host/experts/experts.h"

namespace troika::lanes {
namespace {

using weights::ExpertSource;

// Computes what the next mixture's router makes of a token's state: a logit for each expert.
void guess_logits(const ExpertGuess& guess, const OpContext& context, int token, float* normed,
                  float* logits) {
  const float* state = guess.state + context.set_offset + static_cast<size_t>(token) * guess.width;
  if (guess.is_layer_norm) {
    context.kernels.layer_norm(state, guess.norm_weight, guess.norm_bias, guess.eps, normed,
                               guess.width);
  } else {
    context.kernels.rms_norm(state, guess.norm_weight, guess.eps, normed, guess.width);
  }
  const auto n_experts = static_cast<size_t>(guess.router.n_rows);
  const kernels::MatmulWeight rows = {guess.router.data, guess.router.row_bytes, guess.width, 0,
                                      n_experts};
  guess.matmul(rows, 1, normed, guess.width, logits, n_experts);
  if (guess.router_bias == nullptr) return;
  context.kernels.add(logits, guess.router_bias, logits, n_experts);
}

// Guesses the best experts of all tokens: first the best of each, then the second best.
void guess_next(const BoundOp& bound, const OpContext& context, int worker) {
  const auto& product = bound.as<BoundProduct>();
  const ExpertGuess& guess = product.guess;
  float* const normed = context.scratch + static_cast<size_t>(worker) * context.scratch_floats;
  float* const logits = normed + guess.width;
  const auto n_experts = static_cast<size_t>(guess.router.n_rows);
  const int n_tokens = context.run.n_tokens;
  for (int t = 0; t < n_tokens; ++t) {
    guess_logits(guess, context, t, normed, logits + static_cast<size_t>(t) * n_experts);
  }
  bool is_named[kMostExperts] = {};
  int32_t named[kMostExperts];
  size_t n_named = 0;
  for (int i = 0; i < product.experts.n_used; ++i) {
    for (int t = 0; t < n_tokens; ++t) {
      float* const of_token = logits + static_cast<size_t>(t) * n_experts;
      float* const best = std::max_element(of_token, of_token + n_experts);
      const auto expert = static_cast<size_t>(best - of_token);
      *best = -std::numeric_limits<float>::infinity();
      if (!is_named[expert]) named[n_named++] = static_cast<int32_t>(expert);
      is_named[expert] = true;
    }
  }
  product.experts.source->guess(guess.mixture, {named, n_named});
}

}  // namespace

ExpertCounts experts_of_op(const model::Blueprint& blueprint, const model::Op& op,
                           const weights::Store& weights) {
  ExpertCounts counts = {blueprint.n_experts, blueprint.n_experts_used};
  ExpertSource* const source = weights.experts();
  if (source == nullptr) return counts;
  if (op.weight != model::kNone) {
    const std::optional<ExpertSource::Place> place = source->find(op.weight);
    if (!place) return counts;
    counts.place = *place;
  } else {
    const std::vector<model::Mixture>& all = source->mixtures();
    const auto at = std::find_if(all.begin(), all.end(), [&](const model::Mixture& mixture) {
      return mixture.layer == op.layer;
    });
    if (at == all.end()) return counts;
    counts.place = {static_cast<int>(at - all.begin()), 0};
  }
  counts.source = source;
  return counts;
}

ExpertGuess bind_guess(const model::Blueprint& blueprint, const ExpertCounts& experts,
                       const weights::Store& weights, const Buffers& buffers,
                       const kernels::Table& kernels) {
  if (experts.source == nullptr || !experts.source->takes_guesses()) return {};
  const std::vector<model::Mixture>& mixtures = experts.source->mixtures();
  const auto own = static_cast<size_t>(experts.place.mixture);
  if (experts.place.product != 0 || own + 1 >= mixtures.size()) return {};
  const model::Mixture &here = mixtures[own], &next = mixtures[own + 1];
  const bool has_norms = here.norm != model::kNone && next.norm != model::kNone;
  if (!has_norms || blueprint.n_experts > static_cast<int>(kMostExperts)) return {};
  const auto op = [&](int index) -> const model::Op& {
    return blueprint.ops[static_cast<size_t>(index)];
  };
  const model::Op &norm = op(next.norm), &router = op(next.router);
  const model::ValueId state = op(here.norm).inputs[0];
  ExpertGuess guess;
  guess.mixture = static_cast<int>(own) + 1;
  guess.state = buffers.view(state).floats();
  guess.width = static_cast<size_t>(buffers.width(state));
  guess.is_layer_norm = norm.kind == model::OpKind::kLayerNorm;
  const auto vector_of = [&](model::WeightId id) {
    return id != model::kNone ? weights.vector(id) : nullptr;
  };
  guess.norm_weight = vector_of(norm.weight);
  guess.norm_bias = vector_of(norm.bias);
  guess.eps = norm.eps;
  guess.router = weights.matrix(router.weight);
  guess.router_bias = vector_of(router.bias);
  guess.matmul = kernels::find(kernels.matmul_f32, guess.router.type);
  return guess;
}

size_t guess_floats(const ExpertGuess& guess) {
  if (!guess.is_there()) return 0;
  return guess_floats(guess.width, static_cast<size_t>(guess.router.n_rows));
}

void begin_expert_reads(const BoundOp& bound, const OpContext& context, int worker,
                        std::span<const int32_t> active) {
  const auto& product = bound.as<BoundProduct>();
  ExpertSource& source = *product.experts.source;
  if (worker == 0) source.want(product.experts.place.mixture, active, context.run.phase);
  const bool is_last = worker == context.team.n_active() - 1;
  if (is_last && product.guess.is_there() && context.run.n_tokens <= kMostGuessTokens) {
    guess_next(bound, context, worker);
  }
}

}  // namespace troika::lanes
