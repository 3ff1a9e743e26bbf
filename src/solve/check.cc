#include "solve/check.h"

#include <algorithm>
#include <cmath>

#include "base/median.h"
#include "base/random.h"
#include "solve/predict.h"

namespace troika::solve {
namespace {

using plan::OpShape;
using plan::OpTime;

// Says whether a shape is held out. Rows and k decide; tokens and context do not.
bool is_held_out(const OpShape& shape, uint64_t seed) {
  const auto key = static_cast<uint64_t>(shape.n_rows) << 32 | static_cast<uint64_t>(shape.k);
  return random_bits(seed, key * 31 + static_cast<uint64_t>(shape.type)) % 3 == 0;
}

// Names what is predicted apart among the times of an op on a lane.
using Apart = std::pair<tensor::Type, plan::Phase>;

// The shapes of one op on one lane, of one element type and phase.
struct Group {
  std::vector<OpTime> known;
  std::vector<OpTime> held_out;
};

struct Errors {
  std::vector<double> tree;
  std::vector<double> rate;
  std::vector<double> spread;
  OpShape worst;
  double worst_error = -1.0;
};

void collect(const Group& group, double start_us, bool with_tree, Errors* errors) {
  const TreeModel tree(group.known, start_us);
  for (const OpTime& time : group.held_out) {
    errors->tree.push_back(std::abs(tree.predict_us(time.shape) / time.us - 1.0));
    errors->rate.push_back(std::abs(tree.rate().predict_us(time.shape) / time.us - 1.0));
    errors->spread.push_back(time.spread);
    const double error = with_tree ? errors->tree.back() : errors->rate.back();
    if (error <= errors->worst_error) continue;
    errors->worst_error = error;
    errors->worst = time.shape;
  }
}

}  // namespace

std::vector<CheckRow> check_predictions(const plan::Profile& profile, uint64_t seed) {
  std::map<std::pair<int, model::OpKind>, std::map<Apart, Group>> groups;
  for (const OpTime& time : profile.ops) {
    Group& group = groups[{time.lane, time.shape.op}][{time.shape.type, time.shape.phase}];
    (is_held_out(time.shape, seed) ? group.held_out : group.known).push_back(time);
  }
  std::vector<CheckRow> rows;
  for (const auto& [key, types] : groups) {
    CheckRow row;
    row.lane = key.first;
    row.op = key.second;
    Errors errors;
    for (const auto& [type, group] : types) {
      if (group.known.empty()) continue;
      row.n_known += static_cast<int>(group.known.size());
      row.n_held_out += static_cast<int>(group.held_out.size());
      collect(group, profile.start_us(row.lane), uses_tree(profile, row.lane, row.op), &errors);
    }
    if (row.n_held_out == 0) continue;
    row.tree_median = median(errors.tree);
    row.tree_worst = *std::max_element(errors.tree.begin(), errors.tree.end());
    row.rate_median = median(errors.rate);
    row.rate_worst = *std::max_element(errors.rate.begin(), errors.rate.end());
    row.worst = errors.worst;
    row.median_spread = median(errors.spread);
    rows.push_back(row);
  }
  return rows;
}

}  // namespace troika::solve
