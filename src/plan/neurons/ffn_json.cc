#include "plan/neurons/ffn_json.h"

#include <fmt/format.h>

#include <charconv>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/error.h"

namespace troika::plan {
namespace {

constexpr double kMostThreshold = 1e6;

// Reads a key that is not 0.
uint64_t read_key(const JsonFields& fields) {
  const std::string text = fields.text("key");
  uint64_t key = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), key, 16);
  if (failure != std::errc() || end != text.data() + text.size() || key == 0) {
    fields.fail("key", "must be hexadecimal digits (0 to 9, a to f)");
  }
  return key;
}

FfnPredictor read_predictor(const JsonFields& fields) {
  fields.only({"key", "rank", "bytes"});
  FfnPredictor predictor;
  predictor.key = read_key(fields);
  constexpr int64_t kMostRank = 1 << 20, kMostBytes = int64_t{1} << 44;
  predictor.rank = static_cast<int>(fields.integer("rank", 1, kMostRank));
  predictor.bytes = static_cast<size_t>(fields.integer("bytes", 1, kMostBytes));
  return predictor;
}

FfnHot read_ffn_hot(const JsonFields& fields) {
  fields.only({"percent", "lane", "key"});
  FfnHot hot;
  hot.percent = static_cast<int>(fields.integer("percent", 1, kMostHotPercent));
  hot.lane = static_cast<int>(fields.integer("lane", 0, std::numeric_limits<int>::max()));
  hot.key = read_key(fields);
  return hot;
}

}  // namespace

nlohmann::ordered_json to_json(const FfnPlan& ffn) {
  nlohmann::ordered_json json = {{"form", ffn_form_name(ffn.form)}};
  if (!ffn.thresholds.empty()) json["thresholds"] = ffn.thresholds;
  if (ffn.predictor.is_there()) {
    json["predictor"] = {{"key", fmt::format("{:016x}", ffn.predictor.key)},
                         {"rank", ffn.predictor.rank},
                         {"bytes", ffn.predictor.bytes}};
    json["gates"] = ffn_gates_name(ffn.gates);
  }
  if (ffn.hot.is_there()) {
    json["hot"] = {{"percent", ffn.hot.percent},
                   {"lane", ffn.hot.lane},
                   {"key", fmt::format("{:016x}", ffn.hot.key)}};
  }
  return json;
}

void read_ffn(const JsonFields& fields, Plan* plan) {
  const JsonFields ffn = fields.object("ffn");
  ffn.only({"form", "thresholds", "predictor", "gates", "hot"});
  try {
    plan->ffn.form = ffn_form_from_name(ffn.text("form"));
    if (ffn.has("thresholds")) {
      for (const double value : ffn.positives("thresholds", kMostThreshold)) {
        plan->ffn.thresholds.push_back(static_cast<float>(value));
      }
    }
    if (ffn.has("predictor")) plan->ffn.predictor = read_predictor(ffn.object("predictor"));
    if (ffn.has("gates")) plan->ffn.gates = ffn_gates_from_name(ffn.text("gates"));
    if (ffn.has("hot")) plan->ffn.hot = read_ffn_hot(ffn.object("hot"));
    check_ffn(*plan);
  } catch (const UsageError& error) {
    fields.fail("ffn", fmt::format("is not understood: {}", error.what()));
  }
}

}  // namespace troika::plan
