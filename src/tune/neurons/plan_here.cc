#include "tune/neurons/plan_here.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>

#include "base/bytes_text.h"
#include "base/clock.h"
#include "base/cpu_features.h"
#include "base/error.h"
#include "base/threads/team.h"
#include "base/units.h"
#include "kernels/choose.h"
#include "measure/neuron_times.h"
#include "model/gated_ffns.h"
#include "prepare/plan/make_plan.h"
#include "prepare/side_files.h"
#include "solve/neurons/plan_neurons.h"
#include "solve/profile/profile_storage.h"
#include "tune/neurons/arrangements.h"
#include "weights/neurons/neurons.h"

namespace troika::tune {
namespace {

constexpr int kMostPlannedSequences = 4;  // as in P §5
constexpr double kHotShare = 0.5;         // hot neurons are live in as many steps

plan::Profile measured_profile(const NeuronPlanRequest& request, const prepare::OpenedModel& model,
                               const measure::StageFunction& stage) {
  const prepare::Options& options = request.options;
  const plan::Storage of_model =
      solve::profile_file(model.file.path(), stage("reads of the model"));
  measure::ProfileRequest profiling;
  profiling.models = {options.model.file};
  profiling.lanes = options.lanes;
  profiling.activations = options.activations;
  profiling.prefill = options.prompts.prefill.value_or(
      prepare::safe_prefill(options.activations, options.kernels, model.weights.main_type()));
  profiling.kv_type = options.memory.kv_type;
  profiling.kernels = options.kernels;
  profiling.type = model.weights.main_type();
  profiling.budget_s = request.budget_s;
  profiling.use_cache = options.memory.has_side_files;
  profiling.keeps = request.keeps_profile;
  profiling.with_cores = false;
  profiling.with_storage = of_model.reads.empty();
  profiling.storage_way_out = "Use ‹profile› FILE, or another XDG_CACHE_HOME.";
  measure::ProfileResult measured = measure::profile_here(profiling, stage);
  if (!measured.keep_problem.empty()) throw Error(measured.keep_problem);
  plan::Profile profile = std::move(measured.profile);
  if (!of_model.reads.empty()) profile.storage = of_model;
  return profile;
}

// Measures neurons of blocks of each kind: these differ where layers have different types. Returns
// the mean over all blocks, and nothing where memory is short.
std::optional<measure::NeuronTimes> measured_neurons(const prepare::Options& options,
                                                     const prepare::OpenedModel& model,
                                                     const plan::Profile& profile,
                                                     const std::vector<model::GatedFfn>& ffns,
                                                     const solve::NeuronLaw& law) {
  const double live = law.live_share(ffns.front().is_expert());
  if (live <= 0.0) return std::nullopt;
  const kernels::Kernels kernels = kernels::choose(detect_cpu_features(), options.kernels);
  const plan::ProfileLane& lane = profile.lanes.front();
  Team team(lane.n_threads, lane.cores);
  std::map<std::array<tensor::Type, 3>, measure::NeuronTimes> by_types;
  measure::NeuronTimes mean;
  const double share = 1.0 / static_cast<double>(ffns.size());
  for (const model::GatedFfn& ffn : ffns) {
    const weights::Matrix gate = weights::rows_of(model.weights, ffn.gate, ffn);
    const weights::Matrix up = weights::rows_of(model.weights, ffn.up, ffn);
    const weights::Matrix down = weights::rows_of(model.weights, ffn.down, ffn);
    const auto [at, is_new] = by_types.try_emplace({gate.type, up.type, down.type});
    if (is_new) {
      const auto times = measure::measure_neurons(kernels.table, options.activations,
                                                  {gate, up, down, live}, team);
      if (!times) return std::nullopt;
      at->second = *times;
    }
    mean.gate_us += share * at->second.gate_us;
    mean.up_us += share * at->second.up_us;
    mean.down_us += share * at->second.down_us;
    mean.may_be_cached |= at->second.may_be_cached;
  }
  return mean;
}

// Says what is uncertain about the times of single neurons: nothing where none could be computed by
// itself.
std::string about_times(const NeuronPlanRequest& request, bool has_neurons,
                        const std::optional<measure::NeuronTimes>& times) {
  if (!has_neurons || (times && !times->may_be_cached)) return "";
  if (times) {
    return "; by-neuron may be slower than forecast: a cache as large as this machine's may have "
           "held the neurons that were timed";
  }
  return fmt::format(
      "; each row counts as its share of a matrix, so by-neuron may be slower than forecast: no "
      "neuron was timed by itself, because {}",
      request.profile != nullptr ? "a profile was given"
                                 : "little memory is free, or no neuron was live");
}

std::optional<weights::NeuronPredictor::Info> kept_predictor(const prepare::Options& options,
                                                             const gguf::File& file) {
  if (!options.memory.has_side_files) return std::nullopt;
  try {
    return weights::NeuronPredictor::info(prepare::neuron_file_path("predictor", file),
                                          prepare::neuron_key(file, {}));
  } catch (const Error&) {
    if (options.ffn.has_predictor) throw;
    return std::nullopt;  // it is an alternative that does not exist
  }
}

std::string name_of(const solve::NeuronArrangement& arrangement, const solve::NeuronWay& way,
                    bool is_known, bool has_all_places) {
  if (arrangement.form == plan::FfnForm::kByOutput) {
    return arrangement.expert_bytes > 0 ? "by-output, experts by route"
           : arrangement.turn_bytes > 0 ? "by-output, blocks take turns"
                                        : "by-output, all in memory";
  }
  std::string name = arrangement.expert_bytes > 0 ? "by-neuron, exact gates by route"
                     : !arrangement.has_predictor ? "by-neuron, exact gates in memory"
                     : arrangement.gates == plan::FfnGates::kInMemory
                         ? "by-neuron, predictor, gates in memory"
                         : "by-neuron, predictor, gates in bundles";
  if (!is_known) return name;
  if (has_all_places) return name + ", all in memory";
  name += way.pinned_percent == 0 ? ", last steps kept"
                                  : fmt::format(", {} % pinned", way.pinned_percent);
  if (way.pipeline == plan::ReadPipeline::kMatrix) name += ", by matrices";
  if (way.reads_twice) {
    const uint64_t rest = arrangement.read_bytes - arrangement.gate_bytes;
    return name + fmt::format(", {} B first and {} B behind", arrangement.gate_bytes, rest);
  }
  return name + fmt::format(", {} B at once", arrangement.read_bytes);
}

// Says why nothing but the chosen way is taken.
std::string reason_for(const solve::PricedNeurons& best,
                       const std::vector<plan::NeuronAlternative>& alternatives,
                       const solve::NeuronArrangement& chosen) {
  const bool is_by_output = chosen.form == plan::FfnForm::kByOutput;
  const plan::NeuronAlternative* next = nullptr;
  for (const plan::NeuronAlternative& one : alternatives) {
    if (one.is_chosen || !one.obstacle.empty()) continue;
    if (is_by_output == one.name.starts_with("by-output")) continue;
    if (next == nullptr || one.forecast.ms < next->forecast.ms) next = &one;
  }
  const char* const way = !is_by_output             ? "by-neuron"
                          : chosen.expert_bytes > 0 ? "by-output: experts are read by route"
                          : chosen.turn_bytes > 0   ? "by-output: blocks take turns"
                                                    : "by-output: all is in memory";
  const std::string own = fmt::format("{}, {:.1f} ms a token", way, best.forecast.ms);
  if (next == nullptr) return own + ", and the other form is not possible or was not asked for";
  return fmt::format(
      "{}, where '{}' takes {:.1f} ms: {:.1f} ms of computing and {:.1f} ms of reads "
      "against {:.1f} and {:.1f}",
      own, next->name, next->forecast.ms, best.forecast.compute_ms, best.forecast.read_ms,
      next->forecast.compute_ms, next->forecast.read_ms);
}

// Returns what the user wants pinned in steps of n sequences, if that was said.
std::optional<int> pins_asked_for(const std::vector<int>& pins, int n) {
  if (pins.empty()) return std::nullopt;
  return pins[std::min(pins.size(), static_cast<size_t>(n)) - 1];
}

// Pins follow the number of sequences (P4); all else is as for one.
std::vector<plan::NeuronBatch> batches_of(const solve::NeuronProblem& problem,
                                          const std::vector<int>& pins,
                                          const solve::DiskTimes& disk,
                                          const solve::PricedNeurons& best) {
  std::vector<plan::NeuronBatch> batches;
  solve::NeuronProblem own = problem;
  own.pipeline = best.way.pipeline;
  const solve::NeuronArrangement& arrangement = problem.arrangements[best.arrangement];
  const auto n_all = static_cast<double>(problem.law.n_neurons());
  if (n_all == 0) return batches;
  const int n_most = std::max(kMostPlannedSequences, static_cast<int>(pins.size()));
  for (int n = 1; n <= n_most; ++n) {
    const solve::NeuronLaw law = problem.law.of_sequences(n);
    plan::NeuronBatch batch = {n, law.n_live() / n_all};
    for (const solve::NeuronClass& one : law.classes) {
      if (one.live >= kHotShare) batch.n_hot += one.n_neurons;
    }
    solve::NeuronWay way = best.way;
    if (n > 1) {
      own.pinned_percent = pins_asked_for(pins, n);
      way.pinned_percent =
          solve::best_of_arrangement(own, disk, best.arrangement, law).way.pinned_percent;
    }
    batch.pinned_percent = way.pinned_percent;
    batch.forecast = solve::neuron_forecast(arrangement, way, law, disk);
    batches.push_back(batch);
  }
  return batches;
}

void enter_alternatives(const solve::NeuronProblem& problem, const solve::DiskTimes& disk,
                        const solve::PricedNeurons& best, plan::StreamedNeurons* planned) {
  for (const solve::PricedNeurons& one : solve::neuron_alternatives(problem, disk, best)) {
    const solve::NeuronArrangement& arrangement = problem.arrangements[one.arrangement];
    const bool is_chosen = one.arrangement == best.arrangement && one.way == best.way;
    // What memory has no room for, and what nobody has counted, has no forecast.
    const bool is_known = arrangement.fixed_us > 0;
    const bool has_all = arrangement.n_places >= problem.law.n_neurons();
    if (!is_known && one.way != solve::NeuronWay()) continue;
    planned->alternatives.push_back({name_of(arrangement, one.way, is_known, has_all),
                                     is_known ? one.forecast : plan::NeuronForecast(), is_chosen,
                                     arrangement.obstacle});
  }
}

// Writes down what was chosen, but for what it was chosen from.
plan::StreamedNeurons described_plan(const prepare::Options& options,
                                     const solve::NeuronProblem& problem,
                                     const solve::PricedNeurons& best,
                                     const HeldArrangement& chosen) {
  plan::StreamedNeurons planned;
  planned.form = chosen.costs.form;
  planned.budget_bytes = options.memory.limit_bytes;
  planned.weight_bytes = chosen.weight_bytes;
  planned.neuron_bytes = chosen.neuron_bytes;
  planned.n_neurons = std::max(problem.law.n_neurons(), chosen.costs.n_places);
  planned.n_places = chosen.costs.n_places;
  planned.stay = problem.law.stay;
  planned.pipeline = best.way.pipeline;
  planned.pinned_percent = best.way.pinned_percent;
  planned.read_bytes = chosen.costs.read_bytes;
  planned.gap_bytes = options.ffn.gap_bytes;
  if (best.way.reads_twice) planned.reads = plan::BundleReads::kTwice;
  if (planned.read_bytes > 0) planned.gap_bytes = chosen.costs.gap_bytes;
  planned.forecast = best.forecast;
  return planned;
}

// Returns the options as they stand, with what was chosen.
prepare::Options with_choice(const prepare::Options& asked, const HeldArrangement& chosen,
                             plan::StreamedNeurons planned) {
  prepare::Options options = asked;
  options.ffn.form = chosen.costs.form;
  options.ffn.has_predictor = chosen.costs.has_predictor;
  options.ffn.gates.reset();
  if (chosen.costs.has_predictor) options.ffn.gates = chosen.costs.gates;
  options.ffn.planned = std::move(planned);
  return options;
}

}  // namespace

void check_neuron_request(const prepare::Options& options) {
  if (!prepare::is_here(options)) {
    throw UsageError(
        "‹choose-neurons› is for this machine; on a phone neurons are always planned.");
  }
  if (options.memory.limit_bytes == 0) {
    throw UsageError("‹choose-neurons› plans for a limit of memory. Give ‹memory› too, as in 2G.");
  }
  if (options.ffn.form == plan::FfnForm::kEveryNeuron) {
    throw UsageError(
        "‹choose-neurons› plans by-output or by-neuron; ‹ffn› every-neuron reads all there is. "
        "Leave one of them out.");
  }
  if (options.ffn.hot_percent.value_or(0) > 0) {
    throw UsageError(
        "‹choose-neurons› does not reckon with neurons that are computed apart (‹neuron-hot›). "
        "Leave "
        "one of them out.");
  }
  if (options.lanes.cores.size() > 1) {
    throw UsageError("‹choose-neurons› is for one lane of cores, and ‹lanes› names several.");
  }
  if (!options.plan.file.empty() || options.plan.base || options.plan.exact) {
    throw UsageError(
        "‹choose-neurons› makes a plan, and another one is given. Leave one of them out.");
  }
  if (options.ffn.has_predictor && !options.memory.has_side_files) {
    throw UsageError(
        "‹neuron-predictor› is read from a side file, and ‹no-cache› forbids that. Leave one of "
        "them out.");
  }
  prepare::check_options(options);
}

prepare::Options plan_neurons_here(const NeuronPlanRequest& request,
                                   const measure::StageFunction& stage) {
  const prepare::Options& options = request.options;
  check_neuron_request(options);
  const auto model = prepare::open_model(options);
  const prepare::MemoryFigures& memory = model->memory;
  const plan::Profile profile =
      request.profile != nullptr ? *request.profile : measured_profile(request, *model, stage);
  const solve::DiskTimes disk(profile.storage.value_or(plan::Storage()), profile.advice);
  const std::vector<model::GatedFfn> ffns = model::neuron_ffns(model->blueprint);
  std::string about_heat;
  std::optional<weights::NeuronHeat> heat;
  if (!options.memory.has_side_files) {
    about_heat = "‹no-cache› forbids to read how often neurons fire";
  } else if (!ffns.empty()) {
    // No plan was given, so nothing has thresholds.
    heat = prepare::kept_heat(model->file, ffns, {}, model->weights, &about_heat);
  }
  solve::NeuronProblem problem;
  problem.law = law_of(heat ? &*heat : nullptr, model->blueprint);
  // What a profile from elsewhere says is not mixed with what is measured here.
  std::optional<measure::NeuronTimes> times;
  const bool has_neurons =
      heat && (!options.ffn.form || *options.ffn.form == plan::FfnForm::kByNeuron);
  if (has_neurons && request.profile == nullptr) {
    times = measured_neurons(options, *model, profile, ffns, problem.law);
  }
  const RealClock clock;
  const double start_us = clock.now_us();
  const std::vector<HeldArrangement> held =
      find_arrangements({options, *model, memory, profile, disk, heat ? &*heat : nullptr,
                         about_heat, kept_predictor(options, model->file), times});
  for (const HeldArrangement& one : held) problem.arrangements.push_back(one.costs);
  problem.pinned_percent = pins_asked_for(options.ffn.pinned_percent, 1);
  problem.pipeline = options.ffn.pipeline;
  problem.reads = options.ffn.reads;
  const solve::PricedNeurons best = solve::choose_neurons(problem, disk);
  const HeldArrangement& chosen = held[best.arrangement];
  plan::StreamedNeurons planned = described_plan(options, problem, best, chosen);
  if (heat) planned.n_counted_tokens = static_cast<int64_t>(heat->n_tokens());
  planned.batches = batches_of(problem, options.ffn.pinned_percent, disk, best);
  enter_alternatives(problem, disk, best, &planned);
  planned.reason = reason_for(best, planned.alternatives, chosen.costs) +
                   about_times(request, has_neurons, times);
  planned.planning_ms = (clock.now_us() - start_us) / kUsPerMs;
  prepare::Options found = with_choice(options, chosen, std::move(planned));
  // What planning took is not there when the plan runs, but the tokenizer is.
  found.memory.held_bytes =
      memory.program_bytes + memory.model_bytes - prepare::header_bytes(model->file);
  return found;
}

}  // namespace troika::tune
