// Which share of positions each head keeps, by how much the model loses without the head (S3).
#pragma once

#include <span>
#include <vector>

namespace troika::attention {

// A larger product of importances counts as this much (section 3.2 of the paper).
inline constexpr double kMostImportance = 1e-3;

// Returns shares[i] = r N clamp(headImp_i layerImp_j) / sum of clamp(...), where head i is in layer
// j (eq. 3). In contrast to the paper, no share exceeds 1: what is cut off goes to the other heads
// in proportion, so that the mean is r. headImp and layerImp are the increase of the loss where a
// head, or a layer, is left out (eq. 1 and 2); a negative one counts as 0. Where no head counts,
// all shares are equal. REQUIRES: 0 <= r <= 1; a whole number of heads for each layer.
std::vector<double> head_shares(std::span<const double> head_importance,
                                std::span<const double> layer_importance, double r);

// Returns those shares out of `grid` with which all heads together keep most of their softmax'
// weight, and whose mean is r. kept[head][i] is what a head keeps with grid[i]. The choice is
// greedy: the head that gains most for each further position gets the next ones. REQUIRES: `grid`
// ascends and ends with 1; grid.front() <= r <= 1.
std::vector<double> shares_by_kept_mass(std::span<const double> grid,
                                        const std::vector<std::vector<double>>& kept, double r);

}  // namespace troika::attention
