// Collects how the inputs of a model's products look over a text: magnitudes, channels, outliers.
#pragma once

#include <cstdint>
#include <vector>

#include "lanes/lane.h"
#include "model/blueprint.h"

namespace troika::tune {

class InputStatistics : public lanes::InputObserver {
 public:
  explicit InputStatistics(const model::Blueprint& blueprint);

  void observe(const model::Op& op, const float* x, int n_rows, int width) override;
  // Says that from now on only outliers are counted: magnitudes beyond these limits, one for each
  // input.
  void count_outliers(std::vector<float> limits);

  size_t n_inputs() const { return inputs_.size(); }
  float largest(size_t input) const;
  const std::vector<float>& channel_largest(size_t input) const;
  // Returns a magnitude, within 3 %, that this share of all magnitudes does not exceed; 0 where
  // they are zeros.
  float quantile(size_t input, double share) const;
  // Returns the magnitude to clamp to, so that int8 with one scale has the least mean square error.
  float best_clamp(size_t input) const;

  double outliers_per_token(size_t input) const;
  int n_outlier_channels(size_t input) const;
  // Returns the fewest channels that have this share of the outliers, most frequent first.
  std::vector<int> hot_channels(size_t input, double share) const;

 private:
  struct Input {
    std::vector<uint64_t> histogram;  // counts by the exponent and the first five bits behind it
    std::vector<float> channel_largest;
    std::vector<uint64_t> channel_outliers;
    uint64_t n_values = 0;
    uint64_t n_counted_rows = 0;
  };

  std::vector<Input> inputs_;
  std::vector<int> by_weight_;  // -1: not the first product of an input
  std::vector<float> limits_;   // empty: magnitudes are gathered
};

}  // namespace troika::tune
