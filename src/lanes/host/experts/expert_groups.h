// Brings the tokens of a mixture into groups, one for each expert that some token takes.
#pragma once

#include <algorithm>
#include <span>

#include "lanes/host/experts/experts.h"

namespace troika::lanes {

// Says in which row the part of a token and expert stands: the parts of one expert stand together,
// in the order of the tokens. Each worker makes this table for itself, which takes less time than
// waiting for one that does.
class ExpertGroups {
 public:
  ExpertGroups(const ExpertCounts& experts, const OpContext& context, int worker,
               const float* routes)
      : n_used_(static_cast<size_t>(experts.n_used)) {
    const auto n_experts = static_cast<size_t>(experts.n);
    const size_t n_parts = static_cast<size_t>(context.run.n_tokens) * n_used_;
    starts_ = context.expert_scratch + static_cast<size_t>(worker) * context.expert_scratch_length;
    active_ = starts_ + n_experts + 1;
    order_ = active_ + n_experts;
    ranks_ = order_ + n_parts;
    std::fill_n(starts_, n_experts + 1, 0);
    const auto expert_of = [&](size_t part) {
      return static_cast<size_t>(read_route(routes, part).expert);
    };
    for (size_t part = 0; part < n_parts; ++part) ++starts_[expert_of(part) + 1];
    for (size_t expert = 0; expert < n_experts; ++expert) {
      if (starts_[expert + 1] > 0) active_[n_active_++] = static_cast<int32_t>(expert);
      starts_[expert + 1] += starts_[expert];
    }
    // Filling moves each start on to the start of the next expert. The starts are moved back below.
    for (size_t part = 0; part < n_parts; ++part) {
      const int32_t at = starts_[expert_of(part)]++;
      order_[at] = static_cast<int32_t>(part);
      ranks_[part] = at;
    }
    for (size_t expert = n_experts; expert > 0; --expert) starts_[expert] = starts_[expert - 1];
    starts_[0] = 0;
  }

  static size_t length(size_t n_experts, size_t n_parts) { return 2 * n_experts + 1 + 2 * n_parts; }

  size_t n_active() const { return n_active_; }
  size_t active(size_t i) const { return static_cast<size_t>(active_[i]); }
  std::span<const int32_t> all_active() const { return {active_, n_active_}; }
  size_t start(size_t expert) const { return static_cast<size_t>(starts_[expert]); }
  size_t size(size_t expert) const { return start(expert + 1) - start(expert); }
  size_t token_at(size_t row) const { return static_cast<size_t>(order_[row]) / n_used_; }
  size_t row_of(size_t token, size_t i) const {
    return static_cast<size_t>(ranks_[token * n_used_ + i]);
  }

 private:
  size_t n_used_;
  size_t n_active_ = 0;
  int32_t* starts_;  // (n_experts + 1): rows
  int32_t* active_;  // experts that at least one token takes
  int32_t* order_;   // by row: token * n_used + i
  int32_t* ranks_;   // the inverse: row by token * n_used + i
};

// Brings each token's input into the form that the products of its experts take: a row for each
// part, as the parts stand in `groups`. All workers take some.
void prepare_parts(const BoundOp& bound, const OpContext& context, int worker,
                   const ExpertGroups& groups);

}  // namespace troika::lanes
