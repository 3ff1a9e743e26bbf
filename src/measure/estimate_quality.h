// Measures how well int8 finds the positions that a model's queries attend to on a text: recall of
// the best float positions by where scales come from (S1, S4), what fixed scales clip, and how far
// scales of this text are from those of the calibration text.
#pragma once

#include <mutex>
#include <string>
#include <vector>

#include "attention/estimate_recall.h"
#include "lanes/lane.h"
#include "model/blueprint.h"
#include "plan/prompt_attention.h"

namespace troika::measure {

struct QualityOfWay {
  std::string name;
  attention::EstimateRecall sums;  // sums over all heads
};

// The scales of tiles divided by those that the plan has for their heads. The lowest tenth of these
// ratios lies below the first number, the highest tenth above the last.
struct ScaleSpread {
  double low = 1.0, middle = 1.0, high = 1.0;
};

class EstimateQuality : public lanes::InputObserver {
 public:
  // Looks at every tile_step-th tile from the plan's first sparse position on, but from none with
  // fewer than kLeastFrom positions before it. If the plan has no scales, no way takes scales from
  // buckets.
  EstimateQuality(const kernels::Table& table, const plan::PromptAttention& attention, int n_heads,
                  size_t tile_step);

  void observe(const model::Op&, const float*, int, int) override {}
  // Several lanes may show heads at the same time.
  void observe_attention(const model::Op& op, int key_head, const attention::Positions& positions,
                         const attention::Queries& queries, size_t n_tokens) override;

  std::vector<QualityOfWay> ways() const;
  bool has_scales() const { return !attention_.head_scales.empty(); }
  ScaleSpread spread_of_queries() const { return spread_of(ratios_q_); }
  ScaleSpread spread_of_keys() const { return spread_of(ratios_k_); }

 private:
  static ScaleSpread spread_of(std::vector<double> ratios);

  const kernels::Table& table_;
  plan::PromptAttention attention_;
  size_t n_heads_;
  size_t first_position_;
  size_t tile_step_;
  std::vector<std::string> names_;
  std::vector<attention::EstimateWay> ways_;
  std::mutex mutex_;  // guards what follows
  std::vector<attention::EstimateRecall> sums_;
  std::vector<double> ratios_q_, ratios_k_;
};

}  // namespace troika::measure
