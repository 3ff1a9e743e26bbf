#include "tune/findings.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

namespace troika::tune {
namespace {

constexpr double kMostTimeMs = 1e9;
constexpr double kMostNats = 1e6;

}  // namespace

nlohmann::ordered_json to_json(const std::vector<PromptTime>& times) {
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const PromptTime& time : times) json.push_back({{"tokens", time.n_tokens}, {"ms", time.ms}});
  return {{"times", json}};
}

std::vector<PromptTime> read_times(const plan::JsonFields& fields,
                                   const std::vector<int>& lengths) {
  std::vector<PromptTime> times;
  fields.each("times", [&](const plan::JsonFields& item) {
    times.push_back(
        {static_cast<int>(item.integer("tokens", 1, INT32_MAX)), item.positive("ms", kMostTimeMs)});
  });
  const bool fits =
      std::equal(times.begin(), times.end(), lengths.begin(), lengths.end(),
                 [](const PromptTime& time, int n_tokens) { return time.n_tokens == n_tokens; });
  if (!fits) {
    fields.fail("times", fmt::format("must be those of prompts of {} tokens, in this order",
                                     fmt::join(lengths, ", ")));
  }
  return times;
}

nlohmann::ordered_json to_json(const std::vector<plan::StepCost>& costs) {
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const plan::StepCost& cost : costs) json.push_back({{"rows", cost.n_rows}, {"ms", cost.ms}});
  return {{"costs", json}};
}

std::vector<plan::StepCost> read_costs(const plan::JsonFields& fields) {
  std::vector<plan::StepCost> costs;
  fields.each("costs", [&](const plan::JsonFields& item) {
    costs.push_back(
        {static_cast<int>(item.integer("rows", 1, INT32_MAX)), item.positive("ms", kMostTimeMs)});
  });
  return costs;
}

nlohmann::ordered_json to_json(const std::vector<WindowLosses>& windows) {
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const WindowLosses& window : windows) {
    nlohmann::ordered_json tokens = nlohmann::ordered_json::array();
    for (const double nll : window.nll) tokens.push_back({{"nll", nll}});
    for (size_t i = 0; i < window.divergence.size(); ++i) {
      tokens[i * HeldOut::kEvery]["divergence"] = window.divergence[i];
    }
    json.push_back({{"tokens", std::move(tokens)}});
  }
  return {{"windows", std::move(json)}};
}

std::vector<WindowLosses> read_windows(const plan::JsonFields& fields,
                                       const std::vector<WindowLosses>* usual) {
  std::vector<WindowLosses> windows;
  size_t n_compared = 0;
  fields.each("windows", [&](const plan::JsonFields& window) {
    WindowLosses losses;
    window.each("tokens", [&](const plan::JsonFields& token) {
      if (losses.nll.size() % HeldOut::kEvery == 0) {
        losses.divergence.push_back(token.number("divergence", 0, kMostNats));
      }
      losses.nll.push_back(token.number("nll", 0, kMostNats));
    });
    const size_t i = windows.size();
    if (usual != nullptr && (i >= usual->size() || (*usual)[i].nll.size() != losses.nll.size())) {
      window.fail("tokens", "are not those of the usual class");
    }
    n_compared += losses.divergence.size();
    windows.push_back(std::move(losses));
  });
  if (n_compared < 2) {
    fields.fail("windows", fmt::format("must hold more than {} tokens", HeldOut::kEvery));
  }
  return windows;
}

}  // namespace troika::tune
