// Which share of positions each head keeps, by what the model loses without it (S3).
#pragma once

#include <span>
#include <vector>

namespace troika::attention {

// Larger products of importances count as this (3.2).
inline constexpr double kMostImportance = 1e-3;

// shares[i] = r N clamp(headImp_i layerImp_j) / sum of clamp(...), where head i is in layer j
// (eq. 3): as the paper has it, but that no share exceeds 1 and what is cut off goes to the others
// in proportion, so that the mean is r. headImp and layerImp are what a loss gains where a head, or
// a layer, is left out (eq. 1 and 2); what gains nothing counts as 0. Where no head counts, all are
// equal. REQUIRES: 0 <= r <= 1; a whole number of heads for each layer.
std::vector<double> head_shares(std::span<const double> head_importance,
                                std::span<const double> layer_importance, double r);

// The shares, out of those of `grid`, with which all heads together keep most of their softmax'
// weight, and whose mean is r: kept[head][i] is what a head keeps with grid[i]. Greedy: what a head
// gains for each position more decides who gets the next ones. REQUIRES: `grid` ascends and ends
// with 1; grid.front() <= r <= 1.
std::vector<double> shares_by_kept_mass(std::span<const double> grid,
                                        const std::vector<std::vector<double>>& kept, double r);

}  // namespace troika::attention
