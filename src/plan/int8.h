// How prompts in int8 meet activations of which a few are far larger than the others: the method,
// and what a calibration measured (N3 to N6, N11).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace troika::plan {

enum class Int8Method : uint8_t {
  kToken,        // a scale for each token, from its largest magnitude
  kTokenShadow,  // the same up to a limit; what exceeds it is computed in float beside (N4)
  kStatic,       // one scale for each tensor, from the largest magnitude of a calibration (N3)
  kShadow,       // one scale for each tensor, below that; what exceeds it in float beside (N3, N4)
  kSmooth,       // SmoothQuant: scales moved from activations to weights, then as kStatic (N11)
  kSplit,        // LLM.int8(): channels from 6 on in float, the rest with a scale per token (N11)
  kGroup,        // scales for groups of 32, of weights and activations (N11)
};
inline constexpr int kInt8Methods = 7;

const char* int8_method_name(Int8Method method);
// Throws UsageError that lists the names.
Int8Method int8_method_from_name(std::string_view name);
// Says it in words: "one scale for each tensor, outliers in float beside".
const char* int8_method_text(Int8Method method);
// Scales or limits must have been measured.
bool needs_calibration(Int8Method method);
bool has_shadow(Int8Method method);

// What a calibration found out about the input of one or several products.
struct Int8Input {
  std::string weight;        // of the first product that reads it, as in the file
  float largest = 0.0f;      // magnitude
  float limit = 0.0f;        // magnitudes beyond are outliers, which N4 takes out
  float limit_alone = 0.0f;  // the same where nothing is taken out: beyond it values are clamped
  double outliers_per_token = 0.0;
  int n_outlier_channels = 0;     // that ever had one
  std::vector<int> hot_channels;  // the fewest that have most outliers, most frequent first (N5)
  // For SmoothQuant: the largest magnitude of each channel, rounded up to 8 bits; or empty.
  std::vector<float> channel_largest;

  // The largest outlier over the scale (N6).
  double importance() const { return limit > 0.0f ? static_cast<double>(largest) / limit : 1.0; }
};

// Relative loss in perplexity against float that a calibration measured.
struct Int8Loss {
  std::string method;
  int outlier_prune = 0;
  double loss = 0.0;
};

struct Int8Plan {
  Int8Method method = Int8Method::kToken;
  bool one_weight_scale = false;  // a scale for the whole weight, as in the paper; else each row's
  int outlier_prune = kDefaultOutlierPrune;  // percent of the inputs whose outliers are ignored
  // What the calibration ran; without one there are no inputs.
  std::string text;
  uint64_t n_tokens = 0;
  double quantile = 1.0;      // of magnitudes that lie within the limit
  double smooth_alpha = 0.0;  // 0: SmoothQuant was not calibrated
  double perplexity = 0.0;    // in float
  std::vector<Int8Loss> losses;
  std::vector<Int8Input> inputs;

  bool is_calibrated() const { return !inputs.empty(); }
  // Which inputs keep their outliers: not the least important outlier_prune percent (N6).
  std::vector<bool> shadowed() const;

  static constexpr int kDefaultOutlierPrune = 85;
};

}  // namespace troika::plan
