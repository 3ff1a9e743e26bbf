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

// Returns what somebody does who wants no predictor, by who asks for it.
std::string way_without_predictor(const Options& options, bool is_of_plan) {
  const std::string by_option = options.ffn.is_predictor_of_stage
                                    ? std::string("use another ‹neurons›, which asks for none")
                                    : std::string(weights::NeuronPredictor::kLeaveOut);
  if (!is_of_plan) return by_option;
  const std::string by_plan = options.plan.file.empty() ? "run without the plan, which asks for it"
                                                        : "leave ‹plan› out, which asks for it";
  return options.ffn.has_predictor ? by_option + " and " + by_plan : by_plan;
}

plan::FfnPredictor predictor_of(const gguf::File& file, std::span<const float> thresholds,
                                const std::string& way_out) {
  const weights::NeuronPredictor::Info info = weights::NeuronPredictor::info(
      neuron_file_path("predictor", file), neuron_key(file, thresholds), way_out);
  return {info.key, static_cast<int>(info.shape.rank), info.bytes()};
}

// Refuses gates that lie with the neurons which a predictor names, where there is none.
void check_gates_without_predictor(const Options& options, const plan::Plan& plan) {
  if (!options.ffn.may_predict) return;
  if (options.ffn.gates == plan::FfnGates::kInBundles) {
    throw UsageError(
        "‹neuron-gates› bundles reads the gates of those neurons that a predictor names. Use "
        "‹neuron-predictor› too, or leave it out.");
  }
  // Under another form the plan's gates say nothing.
  if (options.ffn.gates || plan.ffn.form != plan::FfnForm::kByNeuron) return;
  if (plan.ffn.gates == plan::FfnGates::kInBundles) {
    throw UsageError(
        "The plan reads gates of those neurons that a predictor names, and has no predictor. Make "
        "the plan again, or leave ‹plan› out.");
  }
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
    n_neurons = std::max(n_neurons, rows_of(weights, ffn.up, ffn).n_rows);
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

void check_side_files(const Options& options, const plan::FfnPlan& ffn) {
  if (options.memory.has_side_files || !ffn.is_by_neuron()) return;
  const bool is_asked = options.ffn.has_predictor && options.ffn.may_predict;
  if (is_asked || (options.ffn.may_predict && ffn.predictor.is_there())) {
    throw UsageError(fmt::format(
        "The predictor of neurons is a side file, and ‹no-cache› forbids to read one. Leave "
        "‹no-cache› out, or {}.",
        way_without_predictor(options, ffn.predictor.is_there())));
  }
  const int hot = options.ffn.hot_percent.value_or(ffn.hot.percent);
  if (hot == 0) return;
  throw UsageError(fmt::format(
      "Which neurons are hot stands in a side file, and ‹no-cache› forbids to read one. Leave "
      "‹no-cache› out, or {}.",
      options.ffn.hot_percent ? "‹neuron-hot›" : "compute none apart (‹neuron-hot› 0)"));
}

std::optional<plan::FfnPredictor> asked_predictor(const Options& options, const gguf::File& file,
                                                  std::span<const float> thresholds) {
  if (!options.ffn.has_predictor || !options.ffn.may_predict || !is_here(options)) return {};
  const plan::FfnForm form = options.ffn.form.value_or(
      options.plan.base ? options.plan.base->ffn.form : plan::FfnForm::kByOutput);
  if (form != plan::FfnForm::kByNeuron) return {};  // choose_predictor() tells the user
  return predictor_of(file, thresholds, way_without_predictor(options, false));
}

void choose_predictor(const Options& options, const gguf::File& file, plan::Plan* plan) {
  plan::FfnPredictor& chosen = plan->ffn.predictor;
  if (!options.ffn.may_predict || !(options.ffn.has_predictor || chosen.is_there())) {
    chosen = {};
    check_gates_without_predictor(options, *plan);
    plan->ffn.gates = plan::FfnGates::kInMemory;
    return;
  }
  if (!is_here(options) || plan->ffn.form != plan::FfnForm::kByNeuron) {
    throw UsageError(
        "‹neuron-predictor› says which neurons may be live, for ‹ffn› by-neuron on this machine. "
        "Use that, or leave it out.");
  }
  plan->ffn.gates = plan::gates_for(options.ffn.gates, plan->ffn);
  const plan::FfnPredictor found =
      predictor_of(file, plan->ffn.thresholds, way_without_predictor(options, chosen.is_there()));
  if (chosen.is_there() && chosen.key != found.key) {
    throw Error(
        fmt::format("The plan was made with another predictor than {}. Make the plan again, "
                    "or leave ‹plan› out.",
                    neuron_file_path("predictor", file)));
  }
  chosen = found;
}

std::unique_ptr<weights::NeuronPredictor> load_predictor(const Options& options,
                                                         const plan::Plan& plan,
                                                         const gguf::File& file,
                                                         std::span<const model::GatedFfn> ffns,
                                                         const weights::Store& weights) {
  if (!plan.ffn.predictor.is_there() || ffns.empty()) return nullptr;
  const std::string path = neuron_file_path("predictor", file);
  auto predictor =
      weights::NeuronPredictor::read(path, neuron_key(file, plan.ffn.thresholds),
                                     way_without_predictor(options, !options.ffn.has_predictor));
  const weights::PredictorShape& shape = predictor->shape();
  bool fits = shape.n_layers == ffns.size() && predictor->key() == plan.ffn.predictor.key;
  for (const model::GatedFfn& ffn : ffns) {
    const weights::Matrix gate = rows_of(weights, ffn.gate, ffn);
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
