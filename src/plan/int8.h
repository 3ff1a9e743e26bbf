// Says how prompts in int8 are computed although a few activations are far larger than the others:
// the method, and what a calibration measured (N3 to N6, N11).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace troika::plan {

enum class Int8Method : uint8_t {
  kToken,        // a scale for each token, from its largest magnitude
  kTokenShadow,  // has a scale per token up to a limit; larger values are in float beside (N4)
  kStatic,       // one scale for each tensor, from the largest magnitude of a calibration (N3)
  kShadow,       // has one smaller scale per tensor; larger values are in float beside (N3, N4)
  kSmooth,       // SmoothQuant: scales moved from activations to weights, then as kStatic (N11)
  kSplit,  // LLM.int8(): channels that reach 6 in float, the rest with a scale per token (N11)
  kGroup,  // scales for groups of 32, of weights and activations (N11)
};
inline constexpr int kInt8Methods = 7;

const char* int8_method_name(Int8Method method);
// Throws UsageError that lists the names.
Int8Method int8_method_from_name(std::string_view name);
// Returns the method in words: "one scale for each tensor, outliers in float beside".
const char* int8_method_text(Int8Method method);
// Says whether the method needs scales or limits that a calibration measured.
bool needs_calibration(Int8Method method);
bool has_shadow(Int8Method method);

// What a calibration found out about one input, which one or several products read.
struct Int8Input {
  std::string weight;    // names the first product's weight, as the file does
  float largest = 0.0f;  // the largest magnitude
  float limit = 0.0f;    // magnitudes beyond it are outliers, which N4 takes out
  // The limit where no outliers are taken out: values beyond it are clamped.
  float limit_alone = 0.0f;
  double outliers_per_token = 0.0;
  int n_outlier_channels = 0;     // counts channels that ever had an outlier
  std::vector<int> hot_channels;  // the fewest that have most outliers, most frequent first (N5)
  // The largest magnitude of each channel, rounded up to 8 bits, for SmoothQuant. May be empty.
  std::vector<float> channel_largest;

  // Returns the largest outlier over the scale (N6).
  double importance() const { return limit > 0.0f ? static_cast<double>(largest) / limit : 1.0; }
};

// The loss in perplexity that a calibration measured for a method, relative to float.
struct Int8Loss {
  std::string method;
  int outlier_prune = 0;
  double loss = 0.0;
};

// What the scales of int8 weights are taken from.
enum class WeightScales : unsigned char {
  kRow,     // each row's largest magnitude becomes 127
  kTensor,  // the whole weight's largest magnitude does, as in llm.npu
  kInt4,    // 4 bits with a scale for each row, and 8 bits for the row's outliers (P11)
};
const char* weight_scales_name(WeightScales levels);  // "row", "tensor", "int4"
// Throws UsageError that lists the names.
WeightScales weight_scales_from_name(std::string_view name);

struct Int8Plan {
  Int8Method method = Int8Method::kToken;
  WeightScales weight_scales = WeightScales::kRow;
  // With kInt4, the percentage of each row that is outliers.
  double weight_outliers = kDefaultWeightOutliers;
  int outlier_prune = kDefaultOutlierPrune;  // the percentage of inputs whose outliers are ignored
  // The text and the tokens of the calibration. Without a calibration there are no inputs.
  std::string text;
  uint64_t n_tokens = 0;
  double quantile = 1.0;      // the share of magnitudes that lie within the limit
  double smooth_alpha = 0.0;  // 0: SmoothQuant was not calibrated
  double perplexity = 0.0;    // the perplexity in float
  std::vector<Int8Loss> losses;
  std::vector<Int8Input> inputs;

  bool is_calibrated() const { return !inputs.empty(); }
  // Says for each input whether it keeps its outliers: the least important outlier_prune percent do
  // not (N6).
  std::vector<bool> shadowed() const;

  static constexpr int kDefaultOutlierPrune = 85;
  static constexpr double kDefaultWeightOutliers = 1.0;
  static constexpr double kMostWeightOutliers = 50.0;
};

}  // namespace troika::plan
