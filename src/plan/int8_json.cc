#include "plan/int8_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <cfloat>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "tensor/half.h"

namespace troika::plan {
namespace {

constexpr int kMostChannels = 1 << 24;
constexpr double kMostLoss = 1e30;

// Returns the shortest decimal number that is this float.
double shortest(float value) { return std::stod(fmt::format("{}", value)); }

// Writes four hexadecimal digits for each channel: a bfloat16 that is not below the value. A list
// of numbers would fill screens.
std::string channels_to_text(const std::vector<float>& values) {
  std::string text;
  text.reserve(values.size() * 4);
  for (const float value : values) {
    uint16_t bits = tensor::f32_to_bf16(value);
    if (tensor::bf16_to_f32(bits) < value) ++bits;
    text += fmt::format("{:04x}", bits);
  }
  return text;
}

std::vector<float> channels_from_text(const JsonFields& fields, const char* key) {
  const std::string text = fields.text(key);
  const auto digit = [&](char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    fields.fail(key, "must hold four hexadecimal digits (0 to 9, a to f) for each channel");
  };
  if (text.size() % 4 != 0) fields.fail(key, "must hold four digits for each channel");
  std::vector<float> values;
  for (size_t i = 0; i < text.size(); i += 4) {
    int bits = 0;
    for (size_t j = 0; j < 4; ++j) bits = bits * 16 + digit(text[i + j]);
    const float value = tensor::bf16_to_f32(static_cast<uint16_t>(bits));
    if (!(value >= 0.0f && value <= FLT_MAX)) {
      fields.fail(key, fmt::format("holds a magnitude below zero or not finite for channel {}",
                                   values.size()));
    }
    values.push_back(value);
  }
  return values;
}

Int8Input read_input(const JsonFields& fields) {
  fields.only({"weight", "largest", "limit", "limit_alone", "outliers_per_token",
               "outlier_channels", "hot_channels", "channel_largest"});
  Int8Input input;
  input.weight = fields.text("weight");
  input.largest = static_cast<float>(fields.number("largest", 0, FLT_MAX));
  input.limit = static_cast<float>(fields.positive("limit", FLT_MAX));
  input.limit_alone = static_cast<float>(fields.positive("limit_alone", FLT_MAX));
  // A scale that a float cannot hold well would make everything zero.
  constexpr float kSmallest = 1e-25f;
  if (input.limit < kSmallest) fields.fail("limit", "must be at least 1e-25");
  if (input.limit_alone < kSmallest) fields.fail("limit_alone", "must be at least 1e-25");
  input.outliers_per_token = fields.number("outliers_per_token", 0, kMostChannels);
  input.n_outlier_channels = static_cast<int>(fields.integer("outlier_channels", 0, kMostChannels));
  input.hot_channels = fields.integers("hot_channels", 0, kMostChannels - 1);
  std::vector<int> sorted = input.hot_channels;  // the file has the most frequent first
  std::sort(sorted.begin(), sorted.end());
  const auto again = std::adjacent_find(sorted.begin(), sorted.end());
  if (again != sorted.end()) fields.fail("hot_channels", fmt::format("names {} again", *again));
  if (fields.has("channel_largest")) {
    input.channel_largest = channels_from_text(fields, "channel_largest");
  }
  return input;
}

}  // namespace

nlohmann::ordered_json to_json(const Int8Plan& int8) {
  nlohmann::ordered_json json = {{"method", int8_method_name(int8.method)},
                                 {"weight_scales", weight_scales_name(int8.weight_scales)},
                                 {"outlier_prune", int8.outlier_prune}};
  if (int8.weight_scales == WeightScales::kInt4) json["weight_outliers"] = int8.weight_outliers;
  if (!int8.is_calibrated()) return json;
  json["text"] = int8.text;
  json["tokens"] = int8.n_tokens;
  json["perplexity"] = int8.perplexity;
  json["quantile"] = int8.quantile;
  json["smooth_alpha"] = int8.smooth_alpha;
  json["losses"] = nlohmann::ordered_json::array();
  for (const Int8Loss& loss : int8.losses) {
    json["losses"].push_back(
        {{"method", loss.method}, {"outlier_prune", loss.outlier_prune}, {"loss", loss.loss}});
  }
  json["inputs"] = nlohmann::ordered_json::array();
  for (const Int8Input& input : int8.inputs) {
    nlohmann::ordered_json entry = {{"weight", input.weight},
                                    {"largest", shortest(input.largest)},
                                    {"limit", shortest(input.limit)},
                                    {"limit_alone", shortest(input.limit_alone)},
                                    {"outliers_per_token", input.outliers_per_token},
                                    {"outlier_channels", input.n_outlier_channels},
                                    {"hot_channels", input.hot_channels}};
    if (!input.channel_largest.empty()) {
      entry["channel_largest"] = channels_to_text(input.channel_largest);
    }
    json["inputs"].push_back(std::move(entry));
  }
  return json;
}

Int8Plan read_int8(const JsonFields& fields) {
  fields.only({"method", "weight_scales", "outlier_prune", "weight_outliers", "text", "tokens",
               "perplexity", "quantile", "smooth_alpha", "losses", "inputs"});
  Int8Plan int8;
  try {
    int8.method = int8_method_from_name(fields.text("method"));
  } catch (const UsageError& error) {
    fields.fail("method", fmt::format("is not understood: {}", error.what()));
  }
  const std::string scales = fields.text("weight_scales");
  try {
    int8.weight_scales = weight_scales_from_name(scales);
  } catch (const UsageError&) {
    fields.fail("weight_scales", fmt::format("is '{}', but must be row, tensor or int4", scales));
  }
  if (int8.weight_scales == WeightScales::kInt4) {
    int8.weight_outliers = fields.number("weight_outliers", 0, Int8Plan::kMostWeightOutliers);
  }
  int8.outlier_prune = static_cast<int>(fields.integer("outlier_prune", 0, 100));
  if (!fields.has("inputs")) {
    if (!needs_calibration(int8.method)) return int8;
    fields.fail("inputs", fmt::format("is missing, but the method '{}' needs what 'troika plan "
                                      "MODEL --calibrate TEXT' measures",
                                      int8_method_name(int8.method)));
  }
  int8.text = fields.text("text");
  int8.n_tokens = static_cast<uint64_t>(fields.integer("tokens", 1, INT64_MAX));
  int8.perplexity = fields.number("perplexity", 0, kMostLoss);
  int8.quantile = fields.number("quantile", 0, 1);
  int8.smooth_alpha = fields.number("smooth_alpha", 0, 1);
  fields.each("losses", [&](const JsonFields& loss) {
    loss.only({"method", "outlier_prune", "loss"});
    int8.losses.push_back({loss.text("method"),
                           static_cast<int>(loss.integer("outlier_prune", 0, 100)),
                           loss.number("loss", -1, kMostLoss)});
  });
  std::set<std::string> seen;
  fields.each("inputs", [&](const JsonFields& entry) {
    Int8Input input = read_input(entry);
    if (!seen.insert(input.weight).second) {
      entry.fail("weight", fmt::format("names '{}' again", input.weight));
    }
    int8.inputs.push_back(std::move(input));
  });
  if (int8.inputs.empty()) fields.fail("inputs", "must name at least one input");
  return int8;
}

}  // namespace troika::plan
