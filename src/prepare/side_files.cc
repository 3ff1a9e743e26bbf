#include "prepare/side_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "base/cache_folder.h"
#include "base/error.h"
#include "base/hash.h"
#include "weights/content_key.h"

namespace troika::prepare {

namespace {

plan::FfnPredictor predictor_of(const gguf::File& file, std::span<const float> thresholds) {
  const weights::NeuronPredictor::Info info = weights::NeuronPredictor::info(
      neuron_file_path("predictor", file), neuron_key(file, thresholds));
  return {info.key, static_cast<int>(info.shape.rank), info.bytes()};
}

}  // namespace

std::string neuron_file_path(std::string_view kind, const gguf::File& file) {
  std::error_code failure;
  const std::filesystem::path whole = std::filesystem::absolute(file.path(), failure);
  const std::string name = failure ? file.path() : whole.lexically_normal().string();
  return fmt::format("{}/{}-{:016x}.bin", cache_folder(), kind, hash_of(name));
}

uint64_t neuron_key(const gguf::File& file, std::span<const float> thresholds) {
  const uint64_t model = weights::content_key(file);
  if (thresholds.empty()) return model;
  Fnv hash;
  hash.add(model);
  hash.add(std::as_bytes(thresholds));
  return hash.value();
}

std::optional<weights::NeuronHeat> kept_heat(const gguf::File& file,
                                             std::span<const model::GatedFfn> ffns,
                                             std::span<const float> thresholds,
                                             const weights::Store& weights, std::string* note) {
  int n_neurons = 0;
  for (const model::GatedFfn& ffn : ffns) {
    n_neurons = std::max(n_neurons, weights.matrix(ffn.up).n_rows);
  }
  const std::string path = neuron_file_path("heat", file);
  std::string problem;
  std::optional<weights::NeuronHeat> heat = weights::read_heat(
      path, neuron_key(file, thresholds), ffns.size(), static_cast<uint64_t>(n_neurons), &problem);
  if (!problem.empty()) {
    *note = fmt::format(
        "{} {}, so it does not say which neurons are hot; 'troika neurons' counts "
        "them again",
        path, problem);
  }
  return heat;
}

std::optional<plan::FfnPredictor> asked_predictor(const Options& options, const gguf::File& file,
                                                  std::span<const float> thresholds) {
  if (!options.ffn.has_predictor || !options.ffn.may_predict || !is_here(options)) return {};
  const plan::FfnForm form = options.ffn.form.value_or(
      options.plan.base ? options.plan.base->ffn.form : plan::FfnForm::kByOutput);
  if (form != plan::FfnForm::kByNeuron) return {};  // choose_predictor() tells the user
  return predictor_of(file, thresholds);
}

void choose_predictor(const Options& options, const gguf::File& file, plan::Plan* plan) {
  plan::FfnPredictor& chosen = plan->ffn.predictor;
  if (!options.ffn.may_predict || !(options.ffn.has_predictor || chosen.is_there())) {
    chosen = {};
    if (options.ffn.gates.value_or(plan->ffn.gates) == plan::FfnGates::kInBundles &&
        options.ffn.may_predict) {
      throw UsageError(
          "‹neuron-gates› bundles reads the gates of those neurons that a predictor names. Use "
          "‹neuron-predictor› too, or leave it out.");
    }
    plan->ffn.gates = plan::FfnGates::kInMemory;
    return;
  }
  if (!is_here(options) || plan->ffn.form != plan::FfnForm::kByNeuron) {
    throw UsageError(
        "‹neuron-predictor› says which neurons may be live, for ‹ffn› by-neuron on this machine. "
        "Use that, or leave it out.");
  }
  plan->ffn.gates = options.ffn.gates.value_or(plan->ffn.gates);
  const plan::FfnPredictor found = predictor_of(file, plan->ffn.thresholds);
  if (chosen.is_there() && chosen.key != found.key) {
    throw Error(
        fmt::format("The plan was made with another predictor than {}. Make the plan again, "
                    "or leave ‹plan› out.",
                    neuron_file_path("predictor", file)));
  }
  chosen = found;
}

std::unique_ptr<weights::NeuronPredictor> load_predictor(const plan::Plan& plan,
                                                         const gguf::File& file,
                                                         std::span<const model::GatedFfn> ffns,
                                                         const weights::Store& weights) {
  if (!plan.ffn.predictor.is_there() || ffns.empty()) return nullptr;
  const std::string path = neuron_file_path("predictor", file);
  auto predictor = weights::NeuronPredictor::read(path, neuron_key(file, plan.ffn.thresholds));
  const weights::PredictorShape& shape = predictor->shape();
  bool fits = shape.n_layers == ffns.size() && predictor->key() == plan.ffn.predictor.key;
  for (const model::GatedFfn& ffn : ffns) {
    const weights::Matrix& gate = weights.matrix(ffn.gate);
    fits = fits && static_cast<uint64_t>(gate.n_rows) == shape.n_neurons &&
           static_cast<uint64_t>(gate.row_length) == shape.width;
  }
  if (!fits) {
    throw Error(
        fmt::format("{} does not fit the model's feed-forward blocks. Make it again with "
                    "'troika neurons --predictor RANK'.",
                    path));
  }
  return predictor;
}

}  // namespace troika::prepare
