#include "prepare/int8/int8_binding.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "model/linear_inputs.h"
#include "tensor/codec.h"

namespace troika::prepare {
namespace {

using lanes::Int8Rule;
using plan::Int8Method;

void apply(const Options& options, plan::Plan* plan) {
  plan::Int8Plan& int8 = plan->int8;
  if (options.prompts.int8) int8.method = *options.prompts.int8;
  if (options.prompts.outlier_prune) int8.outlier_prune = *options.prompts.outlier_prune;
  if (options.prompts.weight_scales) int8.weight_scales = *options.prompts.weight_scales;
  if (options.prompts.weight_outliers) int8.weight_outliers = *options.prompts.weight_outliers;
}

void check_inputs(const plan::Int8Plan& int8, const std::vector<model::LinearInput>& inputs,
                  const std::string& plan_file) {
  const std::string name = plan_file.empty() ? "The plan" : plan_file;
  const auto refuse = [&](size_t i, const char* field, const std::string& problem) {
    throw Error(
        fmt::format("{}: 'int8.inputs[{}].{}' {}. Make the plan again with 'troika plan "
                    "MODEL --calibrate TEXT -o FILE'.",
                    name, i, field, problem));
  };
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (i >= int8.inputs.size()) refuse(i, "weight", "is missing: the model has more inputs");
    const plan::Int8Input& input = int8.inputs[i];
    if (input.weight != inputs[i].name) {
      refuse(i, "weight",
             fmt::format("is '{}', but the model has '{}' there", input.weight, inputs[i].name));
    }
    for (const int channel : input.hot_channels) {
      if (channel >= inputs[i].width) {
        refuse(i, "hot_channels",
               fmt::format("holds {}, but the input has {} channels", channel, inputs[i].width));
      }
    }
    const size_t n = input.channel_largest.size();
    if (n > 0 && n != static_cast<size_t>(inputs[i].width)) {
      refuse(i, "channel_largest",
             fmt::format("is of {} channels, but the input has {}", n, inputs[i].width));
    }
  }
  if (int8.inputs.size() > inputs.size()) {
    refuse(inputs.size(), "weight", "is one too many: the model has fewer inputs");
  }
}

void check_calibrated(const plan::Int8Plan& int8) {
  const char* name = plan::int8_method_name(int8.method);
  if (plan::needs_calibration(int8.method) && !int8.is_calibrated()) {
    throw UsageError(fmt::format(
        "‹int8› {} needs the scales of a calibration. Make a plan with 'troika plan MODEL "
        "--calibrate TEXT -o plan.json', and add ‹plan› plan.json.",
        name));
  }
  if (int8.method != Int8Method::kSmooth) return;
  const bool is_smoothed = int8.smooth_alpha > 0 &&
                           std::all_of(int8.inputs.begin(), int8.inputs.end(),
                                       [](const auto& i) { return !i.channel_largest.empty(); });
  if (is_smoothed) return;
  throw UsageError(
      "‹int8› smooth needs the magnitudes of all channels. Make a plan with 'troika plan MODEL "
      "--calibrate TEXT --alternatives -o plan.json', and add ‹plan› plan.json.");
}

// Refuses what an NPU could not run: it takes scales that are fixed when an executable is built.
void check_static(Int8Method method, const model::Blueprint& blueprint) {
  if (blueprint.n_experts > 0) {
    throw UsageError(
        "‹strict-npu› allows only scales that are fixed beforehand, and those of experts are "
        "computed as they run. Leave ‹strict-npu› out, or use a model without experts.");
  }
  const bool is_static = method == Int8Method::kStatic || method == Int8Method::kShadow ||
                         method == Int8Method::kSmooth;
  if (is_static) return;
  throw UsageError(
      fmt::format("‹strict-npu› allows only scales that are fixed beforehand, and ‹int8› {} "
                  "computes them as it "
                  "runs. Use ‹int8› shadow, static or smooth with the plan of a calibration.",
                  plan::int8_method_name(method)));
}

Int8Rule rule_of(const plan::Int8Plan& int8, const plan::Int8Input& input, bool shadowed) {
  Int8Rule rule;
  switch (int8.method) {
    case Int8Method::kToken:
      break;
    case Int8Method::kTokenShadow:
      if (shadowed) {
        rule = {.kind = Int8Rule::Kind::kLimit,
                .range = {.limit = input.limit, .is_static = false},
                .has_shadow = true};
      }
      break;
    case Int8Method::kShadow:
      rule = {.kind = Int8Rule::Kind::kLimit,
              .range = {.limit = shadowed ? input.limit : input.limit_alone, .is_static = true},
              .has_shadow = shadowed};
      break;
    case Int8Method::kStatic:
    case Int8Method::kSmooth:  // SmoothQuant's limit comes from the factors
      rule = {.kind = Int8Rule::Kind::kLimit,
              .range = {.limit = input.largest > 0 ? input.largest : input.limit_alone,
                        .is_static = true}};
      break;
    case Int8Method::kSplit:
      rule.kind = Int8Rule::Kind::kSplit;
      break;
    case Int8Method::kGroup:
      rule.kind = Int8Rule::Kind::kGroup;
      break;
  }
  return rule;
}

// Raises each column's largest magnitude to that of the matrix's rows.
void add_column_maxima(const weights::Matrix& matrix, std::vector<float>* largest) {
  std::vector<float> row(largest->size());
  for (size_t r = 0; r < static_cast<size_t>(matrix.n_rows); ++r) {
    tensor::dequantize_row(matrix.type, matrix.data + r * matrix.row_bytes, row.data(), row.size());
    for (size_t i = 0; i < row.size(); ++i) {
      (*largest)[i] = std::max((*largest)[i], std::fabs(row[i]));
    }
  }
}

}  // namespace

Int8Binding::Int8Binding(const Options& options, const model::Blueprint& blueprint,
                         const weights::Store& weights, plan::Plan* plan) {
  if (!is_here(options)) return;
  apply(options, plan);
  const plan::Int8Plan& int8 = plan->int8;
  const std::vector<model::LinearInput> inputs = model::linear_inputs(blueprint);
  if (int8.is_calibrated()) check_inputs(int8, inputs, options.plan.file);
  if (plan->prefill != plan::Prefill::kInt8) return;
  check_calibrated(int8);
  if (options.lanes.is_strict_npu) check_static(int8.method, blueprint);
  packing_.one_scale = int8.weight_scales == plan::WeightScales::kTensor;
  if (int8.weight_scales == plan::WeightScales::kInt4) {
    if (int8.method == Int8Method::kGroup) {
      throw UsageError(
          "‹int8-weights› int4 has a scale for each row, and ‹int8› group one for each group. Use "
          "another method.");
    }
    packing_.int4_outliers = int8.weight_outliers / 100;
  }
  if (int8.method == Int8Method::kToken) return;
  rules_.resize(blueprint.weights.size());
  const std::vector<bool> shadowed = int8.shadowed();
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Int8Rule rule = int8.is_calibrated() ? rule_of(int8, int8.inputs[i], shadowed[i])
                                               : rule_of(int8, {}, false);
    for (const model::WeightId id : inputs[i].weights) rules_[static_cast<size_t>(id)] = rule;
  }
  if (int8.method == Int8Method::kSmooth) smooth(blueprint, weights, int8);
}

// Divides channel j of the activations by f(j) = x(j)^alpha / w(j)^(1 - alpha), where x and w are
// its largest magnitudes in activations and weights, and multiplies the weights' column by f(j).
void Int8Binding::smooth(const model::Blueprint& blueprint, const weights::Store& weights,
                         const plan::Int8Plan& int8) {
  const std::vector<model::LinearInput> inputs = model::linear_inputs(blueprint);
  packing_.factors.resize(blueprint.weights.size());
  weight_factors_.resize(inputs.size());
  activation_factors_.resize(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    const auto width = static_cast<size_t>(inputs[i].width);
    std::vector<float> columns(width);
    for (const model::WeightId id : inputs[i].weights) {
      add_column_maxima(weights.matrix(id), &columns);
    }
    weight_factors_[i].assign(width, 1.0f);
    activation_factors_[i].assign(width, 1.0f);
    float limit = 0.0f;
    for (size_t c = 0; c < width; ++c) {
      const float x = int8.inputs[i].channel_largest[c];
      if (x > 0 && columns[c] > 0) {
        const double factor =
            std::pow(x, int8.smooth_alpha) / std::pow(columns[c], 1 - int8.smooth_alpha);
        weight_factors_[i][c] = static_cast<float>(std::clamp(factor, 1e-12, 1e12));
        activation_factors_[i][c] = 1.0f / weight_factors_[i][c];
      }
      limit = std::max(limit, x * activation_factors_[i][c]);
    }
    for (const model::WeightId id : inputs[i].weights) {
      Int8Rule& rule = rules_[static_cast<size_t>(id)];
      if (limit > 0) rule.range.limit = limit;
      rule.factors = activation_factors_[i].data();
      packing_.factors[static_cast<size_t>(id)] = weight_factors_[i].data();
    }
  }
}

}  // namespace troika::prepare
