// Predicts from a profile how long an op will take on a lane, for shapes that were measured and for
// others: by a decision tree where the time has steps (matrix units, and products on any lane), by
// a rate for the rest (HeteroLLM 4.3).
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "plan/plan.h"
#include "plan/profile.h"
#include "solve/regression_tree.h"

namespace troika::solve {

// A law of time: us = fixed + max(bytes / bandwidth, operations / rate).
struct Rate {
  double fixed_us = 0.0;
  double bytes_per_us = 0.0;
  double flops_per_us = 0.0;

  double predict_us(const plan::OpShape& shape) const;
};

// Returns the rate whose error is least, as the sum of |log(predicted / measured)|. The search for
// the fixed part begins at `start_us`. REQUIRES: at least one time.
Rate fit_rate(const std::vector<plan::OpTime>& times, double start_us);

// Corrects a rate by a tree that knows of stages, order and shape. The tree's target is log(time /
// rate), so that beyond the largest measured shape the rate goes on.
class TreeModel {
 public:
  TreeModel(const std::vector<plan::OpTime>& times, double start_us);
  double predict_us(const plan::OpShape& shape) const;
  const Rate& rate() const { return rate_; }

 private:
  Rate rate_;
  RegressionTree tree_;
};

class CostPredictor {
 public:
  // Throws Error where the profile has no times.
  explicit CostPredictor(const plan::Profile& profile);

  // Returns the time from submission to completion. A shape that was measured has the measured
  // time. Throws Error where nothing like it was measured on this lane.
  double predict_us(int lane, const plan::OpShape& shape) const;
  // Returns a prediction even for a shape that was measured.
  double estimate_us(int lane, const plan::OpShape& shape) const;
  // Returns what the op adds to a subgraph that starts once: its time without a start of its own.
  double added_us(int lane, const plan::OpShape& shape) const;
  double start_us(int lane) const;

 private:
  struct Key {
    int lane;
    model::OpKind op;
    tensor::Type type;
    plan::Phase phase;
    auto operator<=>(const Key&) const = default;
  };
  static Key key_of(int lane, const plan::OpShape& shape);

  std::map<Key, TreeModel> trees_;
  std::map<Key, Rate> rates_;
  std::map<std::pair<int, plan::OpShape>, double> measured_us_;
  std::vector<double> start_us_;
  std::string advice_;  // that of the profile
};

// Says whether times have steps: those of products have, those of other ops only on matrix units.
bool uses_tree(const plan::Profile& profile, int lane, model::OpKind op);

}  // namespace troika::solve
