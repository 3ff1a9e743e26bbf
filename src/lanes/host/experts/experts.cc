#include "lanes/host/experts/experts.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "lanes/host/experts/expert_groups.h"
#include "lanes/host/experts/expert_reads.h"
#include "lanes/host/products.h"

namespace troika::lanes {
namespace {

// Shares are divided by their sum, or by this number where the sum is smaller. It is the smallest
// normal number of half precision.
constexpr float kLeastSum = 6.103515625e-5f;

// Returns the product of one expert, whose rows lie at `rows`, with the tokens that take it.
ProductWork of_expert(const ProductWork& all, const ExpertGroups& groups, size_t expert,
                      const std::byte* rows) {
  ProductWork one = all;
  const size_t n_rows = all.output_width();
  weights::Matrix& matrix = one.weight.matrix;
  matrix.data = rows;
  matrix.n_rows = all.bound.output_width;
  matrix.n_strip_rows = std::min(matrix.n_strip_rows, matrix.n_rows);
  if (one.weight.row_largest != nullptr) one.weight.row_largest += expert * n_rows;
  const size_t first = groups.start(expert);
  one.prepared += first * prepared_row_bytes(all.bound);
  one.floats += first * all.k();
  one.n_rows = groups.size(expert);
  one.output += first * n_rows;
  return one;
}

// Returns the expert that is computed as the i-th, and its rows.
weights::ExpertSource::Rows rows_of_expert(const ProductWork& all, const ExpertGroups& groups,
                                           int64_t i) {
  const ExpertCounts& experts = all.product.experts;
  if (experts.source != nullptr) {
    return experts.source->take(experts.place, static_cast<int>(i));
  }
  const size_t expert = groups.active(static_cast<size_t>(i));
  const weights::Matrix& matrix = all.weight.matrix;
  return {static_cast<int>(expert), matrix.data + expert * all.output_width() * matrix.row_bytes};
}

}  // namespace

const ExpertCounts* experts_of(const BoundOp& bound) {
  const BoundProduct* const product = bound.product();
  if (product == nullptr) return std::get_if<ExpertCounts>(&bound.own);
  return product->experts.n > 0 ? &product->experts : nullptr;
}

void prepare_parts(const BoundOp& bound, const OpContext& context, int worker,
                   const ExpertGroups& groups) {
  const auto k = static_cast<size_t>(bound.input_width);
  const size_t stride = prepared_row_bytes(bound);
  const auto n_parts =
      static_cast<int64_t>(context.run.n_tokens) * bound.as<BoundProduct>().experts.n_used;
  const Share share = share_of(n_parts, worker, context.team.n_active());
  for (auto row = static_cast<size_t>(share.begin); row < static_cast<size_t>(share.end); ++row) {
    const size_t from = bound.op.takes_parts ? row : groups.token_at(row);
    prepare_row(bound, context, worker, row, context.input(bound) + from * k,
                context.prepared + row * stride);
  }
}

size_t expert_scratch_length(const ExpertCounts& experts, int n_tokens) {
  return ExpertGroups::length(static_cast<size_t>(experts.n),
                              static_cast<size_t>(n_tokens) * static_cast<size_t>(experts.n_used));
}

void run_route(const BoundOp& bound, const OpContext& context, int row) {
  const auto& experts = bound.as<ExpertCounts>();
  const auto n_experts = static_cast<size_t>(experts.n);
  const auto n_used = static_cast<size_t>(experts.n_used);
  const float* logits = context.input(bound) + static_cast<size_t>(row) * n_experts;
  float* routes = context.output(bound) + static_cast<size_t>(row) * 2 * n_used;
  float shares[kMostExperts];
  Route chosen[kMostExperts];
  bool is_taken[kMostExperts] = {};
  TROIKA_ASSERT(n_experts <= kMostExperts && n_used <= n_experts);
  context.kernels.softmax(logits, shares, n_experts);
  float sum = 0.0f;
  for (size_t i = 0; i < n_used; ++i) {
    // The first of equal logits wins. Where a logit is no number, no share is a number either: then
    // the first experts are taken, and the token's results show it.
    size_t best = n_experts;
    for (size_t e = 0; e < n_experts; ++e) {
      if (is_taken[e]) continue;
      if (best == n_experts || shares[e] > shares[best]) best = e;
    }
    is_taken[best] = true;
    chosen[i] = {static_cast<int32_t>(best), shares[best]};
    sum += shares[best];
  }
  float factor = bound.op.scale;
  if (bound.op.normalizes_shares) factor /= std::max(sum, kLeastSum);
  for (size_t i = 0; i < n_used; ++i) {
    write_route(routes, i, {chosen[i].expert, factor * chosen[i].share});
  }
}

void run_expert_linear(const BoundOp& bound, const OpContext& context, int index, int worker) {
  const auto& product = bound.as<BoundProduct>();
  const ExpertCounts& experts = product.experts;
  const ExpertGroups groups(experts, context, worker, context.input(bound, 1));
  const bool begins_reads = experts.source != nullptr && experts.place.product == 0;
  if (begins_reads) begin_expert_reads(bound, context, worker, groups.all_active());
  if (product.prepares_input) prepare_parts(bound, context, worker, groups);
  if (begins_reads || product.prepares_input) context.team.barrier().wait();
  ProductWork all = whole_product(bound, context, worker);
  const bool is_gathered = product.form == InputForm::kFloat && !bound.op.takes_parts;
  if (is_gathered) all.floats = reinterpret_cast<const float*>(context.prepared);
  const auto n_active = static_cast<int64_t>(groups.n_active());
  const ProductItems items = items_of(all, n_active);
  share_items(context, index, worker, items.n * n_active, [&](int64_t i) {
    const weights::ExpertSource::Rows rows = rows_of_expert(all, groups, i / items.n);
    const auto expert = static_cast<size_t>(rows.expert);
    run_item(of_expert(all, groups, expert, rows.data), items, i % items.n);
  });
}

void run_expert_sum(const BoundOp& bound, const OpContext& context, int worker) {
  const float* routes = context.input(bound, 1);
  const auto& experts = bound.as<ExpertCounts>();
  if (experts.source != nullptr && worker == 0) experts.source->finish(experts.place.mixture);
  const ExpertGroups groups(experts, context, worker, routes);
  const auto n_used = static_cast<size_t>(experts.n_used);
  const auto width = static_cast<size_t>(bound.output_width);
  const Share tokens = share_of(context.run.n_tokens, worker, context.team.n_active());
  for (auto t = static_cast<size_t>(tokens.begin); t < static_cast<size_t>(tokens.end); ++t) {
    float* out = context.output(bound) + t * width;
    for (size_t i = 0; i < n_used; ++i) {
      const float* part = context.input(bound) + groups.row_of(t, i) * width;
      const float share = read_route(routes, t * n_used + i).share;
      if (i == 0) {
        context.kernels.scale(part, share, out, width);
        continue;
      }
      for (size_t j = 0; j < width; ++j) out[j] += share * part[j];
    }
  }
}

}  // namespace troika::lanes
