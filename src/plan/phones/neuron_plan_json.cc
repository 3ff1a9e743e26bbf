#include "plan/phones/neuron_plan_json.h"

#include <nlohmann/json.hpp>

namespace troika::plan {
namespace {

constexpr int kMostNeurons = 1 << 20;
constexpr int kMostSequences = 1 << 12;
constexpr int kMostReadBytes = 1 << 20;
constexpr int kMostDepth = 1 << 10;

uint64_t bytes_of(const JsonFields& fields, const char* key) {
  return static_cast<uint64_t>(fields.integer(key, 0, INT64_MAX));
}

std::vector<HotNeurons> read_hot(const JsonFields& fields) {
  std::vector<HotNeurons> hot;
  fields.each("hot", [&](const JsonFields& item) {
    item.only({"sequences", "neurons", "streamed"});
    const HotNeurons entry = {static_cast<int>(item.integer("sequences", 1, kMostSequences)),
                              static_cast<int>(item.integer("neurons", 0, kMostNeurons)),
                              static_cast<int>(item.integer("streamed", 0, kMostNeurons))};
    if (!hot.empty() && entry.n_sequences <= hot.back().n_sequences) {
      item.fail("sequences", "must ascend");
    }
    hot.push_back(entry);
  });
  return hot;
}

}  // namespace

nlohmann::ordered_json to_json(const NeuronPlan& plan) {
  nlohmann::ordered_json json;
  json["system"] = neuron_system_name(plan.system);
  const NeuronStatistics& s = plan.statistics;
  json["statistics"] = {{"live_share", s.live_share},
                        {"power", s.power},
                        {"most", s.most},
                        {"overlap", s.overlap},
                        {"continue_share", s.continue_share}};
  json["hot"] = nlohmann::ordered_json::array();
  for (const HotNeurons& hot : plan.hot) {
    json["hot"].push_back(
        {{"sequences", hot.n_sequences}, {"neurons", hot.n_hot}, {"streamed", hot.n_streamed}});
  }
  json["segment"] = plan.segment;
  json["bytes"] = {{"budget", plan.budget_bytes},
                   {"other", plan.other_bytes},
                   {"predictors", plan.predictor_bytes},
                   {"scales", plan.scale_bytes},
                   {"cache", plan.cache_bytes}};
  json["hardware"] = {{"pipeline", kNeuronPipelines[static_cast<size_t>(plan.pipeline)]},
                      {"first_read_bytes", plan.first_read_bytes},
                      {"second_read_bytes", plan.second_read_bytes},
                      {"queue_depth", plan.queue_depth},
                      {"reads_on_large_core", plan.reads_on_large_core}};
  return json;
}

NeuronPlan read_neurons(const JsonFields& fields) {
  fields.only({"system", "statistics", "hot", "segment", "bytes", "hardware"});
  NeuronPlan plan;
  plan.system = static_cast<NeuronSystem>(fields.one_of("system", kNeuronSystems));
  const JsonFields s = fields.object("statistics");
  s.only({"live_share", "power", "most", "overlap", "continue_share"});
  plan.statistics = {s.positive("live_share", 1.0), s.number("power", 0.0, 10.0),
                     s.positive("most", 1.0), s.number("overlap", 0.0, 1.0),
                     s.positive("continue_share", 1.0)};
  plan.hot = read_hot(fields);
  plan.segment = static_cast<int>(fields.integer("segment", 1, kMostNeurons));
  const JsonFields bytes = fields.object("bytes");
  bytes.only({"budget", "other", "predictors", "scales", "cache"});
  plan.budget_bytes = bytes_of(bytes, "budget");
  plan.other_bytes = bytes_of(bytes, "other");
  plan.predictor_bytes = bytes_of(bytes, "predictors");
  plan.scale_bytes = bytes_of(bytes, "scales");
  plan.cache_bytes = bytes_of(bytes, "cache");
  const JsonFields hardware = fields.object("hardware");
  hardware.only(
      {"pipeline", "first_read_bytes", "second_read_bytes", "queue_depth", "reads_on_large_core"});
  plan.pipeline = static_cast<NeuronPipeline>(hardware.one_of("pipeline", kNeuronPipelines));
  plan.first_read_bytes = static_cast<int>(hardware.integer("first_read_bytes", 1, kMostReadBytes));
  plan.second_read_bytes =
      static_cast<int>(hardware.integer("second_read_bytes", 0, kMostReadBytes));
  plan.queue_depth = static_cast<int>(hardware.integer("queue_depth", 1, kMostDepth));
  plan.reads_on_large_core = hardware.flag("reads_on_large_core");
  return plan;
}

}  // namespace troika::plan
