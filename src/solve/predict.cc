#include "solve/predict.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.h"

namespace troika::solve {
namespace {

using plan::OpShape;
using plan::OpTime;

// Returns which share of its work a unit wastes that computes n in whole steps: 0 for multiples of
// `step`, near 1 for the first number behind a small multiple.
double waste(int n, int step) {
  const int whole = (n + step - 1) / step * step;
  return static_cast<double>(whole - n) / whole;
}

RegressionTree::Features features_of(const OpShape& shape) {
  const double bytes = plan::op_bytes(shape);
  const double flops = plan::op_flops(shape);
  return {std::log2(shape.n_rows),
          std::log2(shape.k),
          std::log2(shape.n_tokens),
          std::log2(static_cast<double>(shape.n_rows) / shape.k),
          std::log2(bytes),
          std::log2(flops),
          std::log2(shape.context + 1.0),
          waste(shape.n_tokens, 4),
          waste(shape.n_tokens, 16),
          waste(shape.n_tokens, 32),
          waste(shape.n_tokens, 64),
          waste(shape.n_rows, 16),
          waste(shape.n_rows, 64),
          waste(shape.k, 64)};
}

double error_of(const Rate& rate, const std::vector<OpTime>& times) {
  double error = 0.0;
  for (const OpTime& time : times) {
    error += std::abs(std::log(rate.predict_us(time.shape) / time.us));
  }
  return error;
}

// Returns rates that no time exceeds: the best ones seen, as if the other term were free. What they
// predict is a lower bound of the times.
Rate first_guess(const std::vector<OpTime>& times, double fixed_us) {
  Rate rate = {fixed_us, 1e-9, 1e-9};
  for (const OpTime& time : times) {
    const double us = std::max(time.us - fixed_us, 0.05 * time.us);
    rate.bytes_per_us = std::max(rate.bytes_per_us, plan::op_bytes(time.shape) / us);
    rate.flops_per_us = std::max(rate.flops_per_us, plan::op_flops(time.shape) / us);
  }
  return rate;
}

// Multiplies the parameters by shrinking steps, alone and together, for as long as that helps.
// Together, because a sum of absolute values has edges on which no single parameter can move.
Rate descend(Rate rate, const std::vector<OpTime>& times) {
  double error = error_of(rate, times);
  double least_us = times.front().us;
  for (const OpTime& time : times) least_us = std::min(least_us, time.us);
  constexpr int kDirections = 27;  // each of three parameters goes down, stays or goes up
  for (double step = 2.0; step > 1.001; step = 1.0 + (step - 1.0) * 0.6) {
    const double factors[] = {1.0 / step, 1.0, step};
    for (bool moved = true; moved;) {
      moved = false;
      for (int direction = 0; direction < kDirections; ++direction) {
        const Rate other = {rate.fixed_us * factors[direction % 3],
                            rate.bytes_per_us * factors[direction / 3 % 3],
                            rate.flops_per_us * factors[direction / 9]};
        if (other.fixed_us > least_us) continue;
        const double other_error = error_of(other, times);
        if (other_error >= error * (1.0 - 1e-6)) continue;
        rate = other;
        error = other_error;
        moved = true;
      }
    }
  }
  return rate;
}

RegressionTree fit_tree(const std::vector<OpTime>& times, const Rate& rate) {
  std::vector<RegressionTree::Features> features;
  std::vector<double> targets;
  for (const OpTime& time : times) {
    features.push_back(features_of(time.shape));
    targets.push_back(std::log(time.us / rate.predict_us(time.shape)));
  }
  return RegressionTree::fit(features, targets, {9, 3, 0.01});
}

}  // namespace

double Rate::predict_us(const OpShape& shape) const {
  return fixed_us +
         std::max(plan::op_bytes(shape) / bytes_per_us, plan::op_flops(shape) / flops_per_us);
}

Rate fit_rate(const std::vector<OpTime>& times, double start_us) {
  TROIKA_ASSERT(!times.empty());
  double least_us = times.front().us;
  for (const OpTime& time : times) least_us = std::min(least_us, time.us);
  // The search begins at several places, because a sum of absolute values has more than one
  // minimum.
  std::vector<std::pair<double, Rate>> found;  // with the error of each
  for (const double share : {0.02, 0.3, 0.95}) {
    for (const double bandwidth_share : {1.0, 0.3}) {
      const double fixed = std::max(std::min(start_us, least_us), 1e-3 * least_us) * share;
      Rate guess = first_guess(times, fixed);
      guess.bytes_per_us *= bandwidth_share;
      const Rate rate = descend(guess, times);
      found.emplace_back(error_of(rate, times), rate);
    }
  }
  double least_error = found.front().first;
  for (const auto& [error, rate] : found) least_error = std::min(least_error, error);
  // Few times fit many divisions between start and work, and no time is known well enough to tell
  // rates apart that differ by less than this in the mean. Of these, the one counts that has most
  // of the measured start: what is left to the work grows with the tokens.
  const double alike = 1e-3 * static_cast<double>(times.size());
  std::erase_if(found, [&](const auto& one) { return one.first > least_error + alike; });
  const auto best =
      std::max_element(found.begin(), found.end(), [start_us](const auto& one, const auto& other) {
        return std::min(one.second.fixed_us, start_us) < std::min(other.second.fixed_us, start_us);
      });
  return best->second;
}

TreeModel::TreeModel(const std::vector<OpTime>& times, double start_us)
    : rate_(fit_rate(times, start_us)), tree_(fit_tree(times, rate_)) {}

double TreeModel::predict_us(const OpShape& shape) const {
  return rate_.predict_us(shape) * std::exp(tree_.predict(features_of(shape)));
}

bool uses_tree(const plan::Profile& profile, int lane, model::OpKind op) {
  return op == model::OpKind::kLinear || profile.lanes[static_cast<size_t>(lane)].is_matrix;
}

CostPredictor::Key CostPredictor::key_of(int lane, const OpShape& shape) {
  return {lane, shape.op, shape.type, shape.phase};
}

CostPredictor::CostPredictor(const plan::Profile& profile) : advice_(profile.advice) {
  if (profile.ops.empty()) {
    throw Error("The profile holds no times of ops, so nothing can be predicted from it. " +
                advice_);
  }
  std::map<Key, std::vector<OpTime>> groups;
  for (const OpTime& time : profile.ops) {
    groups[key_of(time.lane, time.shape)].push_back(time);
    measured_us_[{time.lane, time.shape}] = time.us;
  }
  for (int lane = 0; lane < static_cast<int>(profile.lanes.size()); ++lane) {
    start_us_.push_back(profile.start_us(lane));
  }
  for (const auto& [key, times] : groups) {
    const double start = start_us_[static_cast<size_t>(key.lane)];
    if (uses_tree(profile, key.lane, key.op)) {
      trees_.emplace(key, TreeModel(times, start));
    } else {
      rates_.emplace(key, fit_rate(times, start));
    }
  }
}

double CostPredictor::estimate_us(int lane, const OpShape& shape) const {
  const Key key = key_of(lane, shape);
  if (const auto tree = trees_.find(key); tree != trees_.end()) {
    return tree->second.predict_us(shape);
  }
  if (const auto rate = rates_.find(key); rate != rates_.end()) {
    return rate->second.predict_us(shape);
  }
  // The times of another element type, or else of another phase, tell at least the order of
  // magnitude.
  for (const bool is_of_phase : {true, false}) {
    const auto is_like = [&](const Key& other) {
      return other.lane == lane && other.op == shape.op &&
             (!is_of_phase || other.phase == shape.phase);
    };
    for (const auto& [other, tree] : trees_) {
      if (is_like(other)) return tree.predict_us(shape);
    }
    for (const auto& [other, rate] : rates_) {
      if (is_like(other)) return rate.predict_us(shape);
    }
  }
  throw Error(
      fmt::format("The profile has no times of the op '{}' on lane {}, so its time cannot be "
                  "predicted. {}",
                  model::op_kind_name(shape.op), lane, advice_));
}

double CostPredictor::predict_us(int lane, const OpShape& shape) const {
  const auto measured = measured_us_.find({lane, shape});
  return measured != measured_us_.end() ? measured->second : estimate_us(lane, shape);
}

double CostPredictor::added_us(int lane, const OpShape& shape) const {
  const double us = predict_us(lane, shape);
  // A start that was measured in a slower moment must not make work free.
  return std::max(us - start_us(lane), 0.1 * us);
}

double CostPredictor::start_us(int lane) const { return start_us_[static_cast<size_t>(lane)]; }

}  // namespace troika::solve
