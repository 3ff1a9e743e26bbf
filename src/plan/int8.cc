#include "plan/int8.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>

#include "base/error.h"
#include "base/option_names.h"

namespace troika::plan {
namespace {

struct Description {
  const char* name;
  const char* text;
};
constexpr std::array<Description, kInt8Methods> kMethods = {{
    {"token", "a scale for each token"},
    {"token-shadow", "a scale for each token, outliers in float beside"},
    {"static", "one scale for each tensor"},
    {"shadow", "one scale for each tensor, outliers in float beside"},
    {"smooth", "SmoothQuant, one scale for each tensor"},
    {"llm.int8", "LLM.int8(): channels from 6 on in float"},
    {"group", "scales for groups of 32"},
}};

constexpr const char* kWeightScales[] = {"row", "tensor", "int4"};

const Description& describe(Int8Method method) { return kMethods[static_cast<size_t>(method)]; }

}  // namespace

const char* int8_method_name(Int8Method method) { return describe(method).name; }
const char* int8_method_text(Int8Method method) { return describe(method).text; }

Int8Method int8_method_from_name(std::string_view name) {
  std::string known;
  for (size_t i = 0; i < kMethods.size(); ++i) {
    if (name == kMethods[i].name) return static_cast<Int8Method>(i);
    known += fmt::format("{}{}", i == 0 ? "" : ", ", kMethods[i].name);
  }
  throw UsageError(fmt::format("'{}' is no method for int8. Known are {}.", name, known));
}

const char* weight_scales_name(WeightScales levels) {
  return kWeightScales[static_cast<size_t>(levels)];
}

WeightScales weight_scales_from_name(std::string_view name) {
  return static_cast<WeightScales>(index_of_name(kWeightScales, name, "int8-weights"));
}

bool needs_calibration(Int8Method method) {
  return method == Int8Method::kTokenShadow || method == Int8Method::kStatic ||
         method == Int8Method::kShadow || method == Int8Method::kSmooth;
}

bool has_shadow(Int8Method method) {
  return method == Int8Method::kTokenShadow || method == Int8Method::kShadow;
}

std::vector<bool> Int8Plan::shadowed() const {
  std::vector<size_t> order(inputs.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return inputs[a].importance() < inputs[b].importance();
  });
  std::vector<bool> shadowed(inputs.size(), true);
  const size_t n_pruned = inputs.size() * static_cast<size_t>(outlier_prune) / 100;
  for (size_t i = 0; i < n_pruned; ++i) shadowed[order[i]] = false;
  return shadowed;
}

}  // namespace troika::plan
