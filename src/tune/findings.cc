#include "tune/findings.h"

#include <nlohmann/json.hpp>

namespace troika::tune {
namespace {

constexpr double kMostTimeMs = 1e9;

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

std::pair<std::string, std::string> halves(const std::string& text) {
  const size_t space = text.find_first_of(" \n", text.size() / 2);
  const size_t middle = space == std::string::npos ? text.size() / 2 : space;
  return {text.substr(0, middle), text.substr(middle)};
}

}  // namespace troika::tune
