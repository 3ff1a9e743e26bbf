#include "attention/choose/head_ratios.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"

namespace troika::attention {
namespace {

// Divides `total` in proportion to the weights so that no share is more than 1.
void divide(std::span<const double> weights, double total, std::span<double> shares) {
  std::vector<bool> is_full(weights.size(), false);
  while (true) {
    double weight = 0, left = total;
    for (size_t i = 0; i < weights.size(); ++i) {
      if (is_full[i]) {
        left -= 1;
      } else {
        weight += weights[i];
      }
    }
    bool is_cut = false;
    for (size_t i = 0; i < weights.size(); ++i) {
      shares[i] = is_full[i] ? 1.0 : weight > 0 ? left * weights[i] / weight : 0.0;
      if (is_full[i] || shares[i] <= 1.0) continue;
      is_full[i] = is_cut = true;
    }
    if (!is_cut) return;
  }
}

}  // namespace

std::vector<double> head_shares(std::span<const double> head_importance,
                                std::span<const double> layer_importance, double r) {
  const size_t n = head_importance.size();
  TROIKA_ASSERT(r >= 0 && r <= 1 && !layer_importance.empty() && n % layer_importance.size() == 0);
  const size_t n_in_layer = n / layer_importance.size();
  std::vector<double> weights(n);
  for (size_t i = 0; i < n; ++i) {
    const double head = std::max(0.0, head_importance[i]);
    const double layer = std::max(0.0, layer_importance[i / n_in_layer]);
    weights[i] = std::min(head * layer, kMostImportance);
  }
  const auto n_counting = static_cast<double>(
      std::count_if(weights.begin(), weights.end(), [](double w) { return w > 0; }));
  const double total = r * static_cast<double>(n);
  std::vector<double> shares(n);
  if (n_counting >= total && n_counting > 0) {
    divide(weights, total, shares);
    return shares;
  }
  // Heads that count keep everything, and the others divide what is left.
  const double rest = (total - n_counting) / std::max(1.0, static_cast<double>(n) - n_counting);
  for (size_t i = 0; i < n; ++i) shares[i] = weights[i] > 0 ? 1.0 : rest;
  return shares;
}

std::vector<double> shares_by_kept_mass(std::span<const double> grid,
                                        const std::vector<std::vector<double>>& kept, double r) {
  TROIKA_ASSERT(!grid.empty() && grid.back() == 1.0 && grid.front() <= r && r <= 1.0);
  const size_t n = kept.size();
  std::vector<size_t> at(n, 0);
  std::vector<double> shares(n, grid.front());
  double left = (r - grid.front()) * static_cast<double>(n);
  while (left > 0) {
    double best_slope = -1;
    size_t head = n, to = 0;
    for (size_t i = 0; i < n; ++i) {
      for (size_t j = at[i] + 1; j < grid.size(); ++j) {
        const double slope = (kept[i][j] - kept[i][at[i]]) / (grid[j] - grid[at[i]]);
        if (slope <= best_slope) continue;
        best_slope = slope;
        head = i;
        to = j;
      }
    }
    if (head == n) break;  // all heads keep everything
    const double step = grid[to] - grid[at[head]];
    if (step > left) {  // only a part of the step is left
      shares[head] += left;
      break;
    }
    left -= step;
    at[head] = to;
    shares[head] = grid[to];
  }
  return shares;
}

}  // namespace troika::attention
