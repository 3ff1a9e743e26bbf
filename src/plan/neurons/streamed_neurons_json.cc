#include "plan/neurons/streamed_neurons_json.h"

#include <nlohmann/json.hpp>

namespace troika::plan {
namespace {

constexpr double kMostForecastReads = 1e12;
constexpr double kMostForecastBytes = 1e18;
constexpr int64_t kMostOfAModel = int64_t{1} << 40;
constexpr int kMostInAStep = 1 << 12;
constexpr int64_t kMostRequestBytes = int64_t{1} << 30;
constexpr const char* kPlannedForms[] = {"by-output", "by-neuron"};

nlohmann::ordered_json forecast_json(const NeuronForecast& forecast) {
  return {{"ms", forecast.ms},
          {"compute_ms", forecast.compute_ms},
          {"read_ms", forecast.read_ms},
          {"reads", forecast.n_reads},
          {"read_bytes", forecast.read_bytes},
          {"hit_share", forecast.hit_share}};
}

NeuronForecast read_forecast(const JsonFields& fields) {
  fields.only({"ms", "compute_ms", "read_ms", "reads", "read_bytes", "hit_share"});
  return {fields.number("ms", 0.0, kMostForecastMs),
          fields.number("compute_ms", 0.0, kMostForecastMs),
          fields.number("read_ms", 0.0, kMostForecastMs),
          fields.number("reads", 0.0, kMostForecastReads),
          fields.number("read_bytes", 0.0, kMostForecastBytes),
          fields.number("hit_share", 0.0, 1.0)};
}

std::vector<NeuronAlternative> read_neuron_alternatives(const JsonFields& fields) {
  std::vector<NeuronAlternative> alternatives;
  fields.each("alternatives", [&](const JsonFields& item) {
    item.only({"name", "forecast", "chosen", "obstacle"});
    NeuronAlternative one = {item.text("name"), read_forecast(item.object("forecast")),
                             item.has("chosen") && item.flag("chosen")};
    if (item.has("obstacle")) one.obstacle = item.text("obstacle");
    alternatives.push_back(std::move(one));
  });
  return alternatives;
}

std::vector<NeuronBatch> read_neuron_batches(const JsonFields& fields) {
  std::vector<NeuronBatch> batches;
  fields.each("batches", [&](const JsonFields& item) {
    item.only({"sequences", "live_share", "hot", "pinned_percent", "forecast"});
    const NeuronBatch batch = {static_cast<int>(item.integer("sequences", 1, kMostInAStep)),
                               item.number("live_share", 0.0, 1.0),
                               item.integer("hot", 0, kMostOfAModel),
                               static_cast<int>(item.integer("pinned_percent", 0, 100)),
                               read_forecast(item.object("forecast"))};
    if (!batches.empty() && batch.n_sequences <= batches.back().n_sequences) {
      item.fail("sequences", "must ascend");
    }
    batches.push_back(batch);
  });
  return batches;
}

}  // namespace

nlohmann::ordered_json to_json(const StreamedNeurons& neurons) {
  nlohmann::ordered_json json;
  json["form"] = ffn_form_name(neurons.form);
  json["reason"] = neurons.reason;
  json["memory"] = {{"budget_bytes", neurons.budget_bytes},
                    {"weight_bytes", neurons.weight_bytes},
                    {"neuron_bytes", neurons.neuron_bytes},
                    {"neurons", neurons.n_neurons},
                    {"places", neurons.n_places}};
  json["statistics"] = {{"tokens", neurons.n_counted_tokens}, {"stay", neurons.stay}};
  json["batches"] = nlohmann::ordered_json::array();
  for (const NeuronBatch& batch : neurons.batches) {
    json["batches"].push_back({{"sequences", batch.n_sequences},
                               {"live_share", batch.live_share},
                               {"hot", batch.n_hot},
                               {"pinned_percent", batch.pinned_percent},
                               {"forecast", forecast_json(batch.forecast)}});
  }
  json["hardware"] = {{"pipeline", kReadPipelines[static_cast<size_t>(neurons.pipeline)]},
                      {"pinned_percent", neurons.pinned_percent},
                      {"read_bytes", neurons.read_bytes},
                      {"reads", kBundleReads[static_cast<size_t>(neurons.reads)]}};
  if (neurons.gap_bytes) json["hardware"]["gap_bytes"] = *neurons.gap_bytes;
  json["forecast"] = forecast_json(neurons.forecast);
  json["alternatives"] = nlohmann::ordered_json::array();
  for (const NeuronAlternative& one : neurons.alternatives) {
    nlohmann::ordered_json item = {{"name", one.name}, {"forecast", forecast_json(one.forecast)}};
    if (one.is_chosen) item["chosen"] = true;
    if (!one.obstacle.empty()) item["obstacle"] = one.obstacle;
    json["alternatives"].push_back(std::move(item));
  }
  json["planning_ms"] = neurons.planning_ms;
  return json;
}

StreamedNeurons read_streamed_neurons(const JsonFields& fields) {
  fields.only({"form", "reason", "memory", "statistics", "batches", "hardware", "forecast",
               "alternatives", "planning_ms"});
  StreamedNeurons neurons;
  neurons.form = static_cast<FfnForm>(fields.one_of("form", kPlannedForms));
  neurons.reason = fields.text("reason");
  const JsonFields memory = fields.object("memory");
  memory.only({"budget_bytes", "weight_bytes", "neuron_bytes", "neurons", "places"});
  neurons.budget_bytes = static_cast<uint64_t>(memory.integer("budget_bytes", 1, kMostOfAModel));
  neurons.weight_bytes = static_cast<uint64_t>(memory.integer("weight_bytes", 0, kMostOfAModel));
  neurons.neuron_bytes = static_cast<uint64_t>(memory.integer("neuron_bytes", 0, kMostOfAModel));
  neurons.n_neurons = memory.integer("neurons", 0, kMostOfAModel);
  neurons.n_places = memory.integer("places", 0, kMostOfAModel);
  const JsonFields statistics = fields.object("statistics");
  statistics.only({"tokens", "stay"});
  neurons.n_counted_tokens = statistics.integer("tokens", 0, kMostOfAModel);
  neurons.stay = statistics.number("stay", 0.0, 1.0);
  neurons.batches = read_neuron_batches(fields);
  const JsonFields hardware = fields.object("hardware");
  hardware.only({"pipeline", "pinned_percent", "read_bytes", "reads", "gap_bytes"});
  neurons.pipeline = static_cast<ReadPipeline>(hardware.one_of("pipeline", kReadPipelines));
  neurons.pinned_percent = static_cast<int>(hardware.integer("pinned_percent", 0, 100));
  neurons.read_bytes = static_cast<uint64_t>(hardware.integer("read_bytes", 0, kMostRequestBytes));
  if (hardware.has("reads")) {  // it may be left out, and is then once
    neurons.reads = static_cast<BundleReads>(hardware.one_of("reads", kBundleReads));
  }
  if (hardware.has("gap_bytes")) {
    neurons.gap_bytes = static_cast<uint64_t>(hardware.integer("gap_bytes", 0, kMostRequestBytes));
  }
  neurons.forecast = read_forecast(fields.object("forecast"));
  neurons.alternatives = read_neuron_alternatives(fields);
  neurons.planning_ms = fields.number("planning_ms", 0.0, kMostForecastMs);
  return neurons;
}

}  // namespace troika::plan
