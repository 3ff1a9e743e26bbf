#include "cli/papers/measured_hetero.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cli/output.h"

namespace troika::cli {

using papers::HeteroMeasurement;
using papers::HeteroStepRate;
using papers::HeteroSystemTimes;

void print_measured_hetero(const HeteroMeasurement& m) {
  print(fmt::format(
      "\nthis machine: {}, lanes {}, prompts in int8, medians of {} rounds\n"
      "milliseconds of a prompt, and the part of them that one core takes (times it, in turn)\n",
      m.options.model, m.lanes, m.options.rounds));
  std::string head = fmt::format("{:<18}", "tokens");
  for (const int n : m.options.prompts) head += fmt::format("{:>17}", n);
  print(head + "\n");
  for (const HeteroSystemTimes& times : m.systems) {
    std::string row = fmt::format("{:<18}", times.name);
    for (size_t i = 0; i < times.ms.size(); ++i) {
      row += fmt::format("{:>10.1f} {:>5.2f}x", times.ms[i], times.of_reference[i]);
    }
    print(fmt::format("{}  {}\n", row, times.how));
  }
  print(fmt::format("\n{:<18}", "solver's gain"));
  for (const int n : m.options.prompts) print(fmt::format("{:>10}", n));
  print(fmt::format("\n{:<18}", "over one lane"));
  for (size_t i = 0; i < m.options.prompts.size(); ++i) {
    print(fmt::format("{:>9.2f}x", m.gain_over_one_lane(i)));
  }
  for (const HeteroSystemTimes& times : m.systems) {
    if (times.name == papers::kTensorLevel) continue;
    print(fmt::format("\n{:<18}", times.name));
    for (size_t i = 0; i < m.options.prompts.size(); ++i) {
      print(fmt::format("{:>9.2f}x", m.gain_over(times.name, i)));
    }
  }
  print(fmt::format("\n\nthe solver's plan: {}\n\ngeneration, {} tokens\n", m.cuts,
                    m.options.n_steps));
  for (const HeteroStepRate& step : m.steps) {
    std::string text = fmt::format("{:<36}{:>8.2f} tokens/s {:>6.2f}x", step.name,
                                   step.tokens_per_s, step.of_reference);
    if (step.read_gain > 0.0) {
      text += fmt::format(", {:.2f} of the {:.2f}x that the cores read", step.share_of_read_gain,
                          step.read_gain);
    }
    print(text + "\n");
  }
}

nlohmann::ordered_json measured_hetero_json(const HeteroMeasurement& m) {
  nlohmann::ordered_json json = {{"model", m.options.model},
                                 {"lanes", m.lanes},
                                 {"prompts", m.options.prompts},
                                 {"rounds", m.options.rounds},
                                 {"cuts", m.cuts}};
  json["systems"] = nlohmann::ordered_json::array();
  for (const HeteroSystemTimes& times : m.systems) {
    json["systems"].push_back({{"name", times.name},
                               {"how", times.how},
                               {"ms", times.ms},
                               {"graphs_ms", times.graphs_ms},
                               {"of_one_core", times.of_reference}});
  }
  json["gain_over_one_lane"] = nlohmann::ordered_json::array();
  for (size_t i = 0; i < m.options.prompts.size(); ++i) {
    json["gain_over_one_lane"].push_back(m.gain_over_one_lane(i));
  }
  json["steps"] = nlohmann::ordered_json::array();
  for (const HeteroStepRate& step : m.steps) {
    json["steps"].push_back({{"name", step.name},
                             {"tokens_per_s", step.tokens_per_s},
                             {"of_one_core", step.of_reference}});
    if (step.read_gain == 0.0) continue;
    json["steps"].back()["read_gain"] = step.read_gain;
    json["steps"].back()["share_of_read_gain"] = step.share_of_read_gain;
  }
  return json;
}

}  // namespace troika::cli
