// Measures how well int8 finds the positions that a model's queries attend to on a text: recall of
// the best float positions by where scales come from (S1, S4), what fixed scales clip, how far
// scales of this text are from those of the calibration text, and how many positions tiles keep
// where those go by their weight (S2). Also how much of their weight queries keep, by the form of
// attention.
#pragma once

#include <array>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "attention/choose/estimate.h"
#include "attention/estimate_recall.h"
#include "attention/kept_weight.h"
#include "lanes/lane.h"
#include "model/blueprint.h"
#include "plan/attention/attention_plan.h"

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

// The share of the positions before them and their own that tokens see where positions are kept
// that weigh more than `above` times the mean.
struct SeenByWeight {
  double above = 0.0;
  double first = 0.0, mean = 0.0, last = 0.0;  // of a tile's first token, all tokens, its last one
};

// What a form lets queries keep of the weight of their softmax: means over heads of keys.
struct KeptByForm {
  std::string name;
  attention::KeptWeight weight;
  size_t n_diffuse = 0;  // counts heads whose worst tenth of queries keeps less than half
};

class EstimateQuality : public lanes::InputObserver {
 public:
  // Looks at every tile_stride-th tile from the plan's first sparse position on, but from none with
  // fewer than kLeastFrom positions before it. If the plan has no scales, no way takes scales from
  // buckets.
  EstimateQuality(const kernels::Table& table, const plan::PromptAttention& attention, int n_heads,
                  size_t tile_stride);

  void observe(const model::Op&, const float*, int, int) override {}
  // Several lanes may show heads at the same time.
  void observe_attention(const model::Op& op, int key_head, const attention::Positions& positions,
                         const attention::Queries& queries, size_t n_tokens) override;

  std::vector<QualityOfWay> ways() const;
  // Returns what is seen with thresholds of 20, 10, 5 and 2.5.
  std::vector<SeenByWeight> seen_by_weight() const;
  // Returns what each form keeps; empty where nothing was looked at.
  std::vector<KeptByForm> kept_by_form() const;
  bool has_scales() const { return !attention_.head_scales.empty(); }
  ScaleSpread spread_of_queries() const { return spread_of(ratios_q_); }
  ScaleSpread spread_of_keys() const { return spread_of(ratios_k_); }

 private:
  static constexpr std::array<double, 4> kAbove = {20, 10, 5, 2.5};
  // Counts positions of some tiles: of their first tokens, of all tokens, of their last tokens.
  using Counts = std::array<double, 3>;

  static ScaleSpread spread_of(const std::vector<double>& ratios);
  static void add_counts(const std::array<size_t, attention::kTileTokens>& n_seen, Counts* counts);

  const kernels::Table& table_;
  plan::PromptAttention attention_;
  size_t n_heads_;
  size_t first_position_;
  size_t tile_stride_;
  std::vector<std::string> names_;
  std::vector<attention::EstimateWay> ways_;
  std::mutex mutex_;  // guards what follows
  std::vector<attention::EstimateRecall> sums_;
  std::vector<double> ratios_q_, ratios_k_;
  std::array<Counts, kAbove.size()> seen_{};
  Counts all_{};  // the positions that full attention sees
  // What queries keep with each form, by the layer and the head of keys.
  std::map<std::pair<int, int>, std::vector<std::array<float, attention::kKeptForms.size()>>> kept_;
};

}  // namespace troika::measure
