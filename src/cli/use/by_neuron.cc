#include "cli/use/by_neuron.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "weights/neurons/neurons.h"

namespace troika::cli {
namespace {

using Computed = weights::NeuronSource::Computed;

Computed computed(const engine::Engine& engine) {
  const weights::Neurons* const neurons = engine.weights().neurons();
  return neurons == nullptr ? Computed() : neurons->computed();
}

double share(int64_t n, const Computed& of) {
  return static_cast<double>(n) / static_cast<double>(of.n_neurons);
}

}  // namespace

std::string by_neuron_text(const engine::Engine& engine) {
  const Computed c = computed(engine);
  if (c.n_neurons == 0) return {};
  const std::string gates =
      c.n_gates > 0 ? fmt::format(", and gates of {:.1f} %", 100.0 * share(c.n_gates, c)) : "";
  return fmt::format("by neuron  {:>8.1f} %   of neurons were computed for a token{}\n",
                     100.0 * share(c.n_live, c), gates);
}

nlohmann::ordered_json by_neuron_json(const engine::Engine& engine) {
  const Computed c = computed(engine);
  if (c.n_neurons == 0) return nullptr;
  nlohmann::ordered_json json = {{"computed_share", share(c.n_live, c)}};
  // Without a predictor all gates are computed.
  json["gates_share"] = c.n_gates > 0 ? share(c.n_gates, c) : 1.0;
  return json;
}

}  // namespace troika::cli
