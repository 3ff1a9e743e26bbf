#include "tune/findings.h"

#include <nlohmann/json.hpp>

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

std::vector<PromptTime> read_times(const plan::JsonFields& fields) {
  std::vector<PromptTime> times;
  fields.each("times", [&](const plan::JsonFields& item) {
    times.push_back(
        {static_cast<int>(item.integer("tokens", 1, INT32_MAX)), item.positive("ms", kMostTimeMs)});
  });
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

std::vector<WindowLosses> read_windows(const plan::JsonFields& fields) {
  std::vector<WindowLosses> windows;
  fields.each("windows", [&](const plan::JsonFields& window) {
    windows.emplace_back();
    window.each("tokens", [&](const plan::JsonFields& token) {
      windows.back().nll.push_back(token.number("nll", 0, kMostNats));
      if (!token.has("divergence")) return;
      windows.back().divergence.push_back(token.number("divergence", 0, kMostNats));
    });
  });
  return windows;
}

std::pair<std::string, std::string> halves(const std::string& text) {
  const size_t space = text.find_first_of(" \n", text.size() / 2);
  const size_t middle = space == std::string::npos ? text.size() / 2 : space;
  return {text.substr(0, middle), text.substr(middle)};
}

}  // namespace troika::tune
