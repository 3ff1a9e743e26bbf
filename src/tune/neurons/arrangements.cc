#include "tune/neurons/arrangements.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "base/error.h"
#include "model/gated_ffns.h"
#include "model/mixtures.h"
#include "prepare/plan/make_plan.h"
#include "prepare/streaming/expert_stream.h"
#include "prepare/streaming/neurons/bundle_maker.h"
#include "prepare/streaming/neurons/neuron_ahead.h"
#include "prepare/streaming/neurons/neuron_blocks.h"
#include "prepare/streaming/neurons/neuron_stream.h"
#include "prepare/streaming/weight_stream.h"
#include "solve/predict_pass.h"
#include "solve/profile/op_shapes.h"
#include "weights/neurons/bundle_layout.h"
#include "weights/neurons/source.h"

namespace troika::tune {
namespace {

constexpr int kPlannedContext = 512;  // counts positions that a step sees
constexpr int kPlannedLane = 0;

// The times of the parts of a step in all blocks.
struct StepTimes {
  double rest_us = 0.0;     // what is no product of a block that could go by neuron
  double gates_us = 0.0;    // the gates of these blocks
  double others_us = 0.0;   // their up and down products
  double experts_us = 0.0;  // all products of experts, whether they could go by neuron or not
  double gate_bytes = 0.0;  // of all experts
  double n_neurons = 0.0;   // counts those that a step computes
};

class ArrangementFinder {
 public:
  explicit ArrangementFinder(const ArrangementSources& sources)
      : sources_(sources),
        blueprint_(sources.model.blueprint),
        weights_(sources.model.weights),
        ffns_(model::neuron_ffns(blueprint_)) {}

  HeldArrangement find(plan::FfnForm form, bool has_predictor, plan::FfnGates gates);

 private:
  void check(const HeldArrangement& held) const;
  plan::Plan plan_for(const HeldArrangement& held) const;
  void enter_memory(const plan::Plan& plan, HeldArrangement* held) const;
  void enter_weights(const plan::Plan& plan, std::span<const model::GatedFfn> ffns,
                     HeldArrangement* held) const;
  void enter_places(const plan::Plan& plan, std::span<const model::GatedFfn> ffns,
                    HeldArrangement* held) const;
  void enter_times(const plan::Plan& plan, HeldArrangement* held);
  StepTimes measure(const plan::Plan& plan) const;
  // Returns the share of a mixture's experts that a token takes.
  double share_of_experts() const {
    return static_cast<double>(blueprint_.n_experts_used) / blueprint_.n_experts;
  }

  const ArrangementSources& sources_;
  const model::Blueprint& blueprint_;
  const weights::Store& weights_;
  std::vector<model::GatedFfn> ffns_;
  std::optional<StepTimes> times_;  // those of a step by output
};

HeldArrangement ArrangementFinder::find(plan::FfnForm form, bool has_predictor,
                                        plan::FfnGates gates) {
  HeldArrangement held;
  held.costs.form = form;
  held.costs.has_predictor = has_predictor;
  held.costs.gates = gates;
  try {
    check(held);
    const plan::Plan plan = plan_for(held);
    enter_memory(plan, &held);
    enter_times(plan, &held);
  } catch (const Error& error) {
    held.costs.obstacle = error.what();
    // Obstacles are parts of one sentence.
    if (held.costs.obstacle.ends_with('.')) held.costs.obstacle.pop_back();
  }
  return held;
}

// Lets neurons be read in two requests alone, where that is asked for.
void obey_reads(const prepare::FfnChoice& asked, solve::NeuronArrangement* costs) {
  if (asked.reads != plan::BundleReads::kTwice || !costs->obstacle.empty()) return;
  const bool has_gates = costs->has_predictor && costs->gates == plan::FfnGates::kInBundles;
  const bool is_read = costs->read_bytes > 0;  // else all neurons are in memory
  if (has_gates && (!is_read || costs->gate_bytes > 0)) return;
  costs->obstacle = "‹neuron-reads› twice was asked for";
}

// Throws Error where the model has no such neurons, or too little is known of them.
void ArrangementFinder::check(const HeldArrangement& held) const {
  if (held.costs.form == plan::FfnForm::kByOutput) return;
  plan::Plan plan;
  plan.ffn.form = held.costs.form;
  (void)prepare::neuron_blocks(blueprint_, plan);
  if (sources_.heat == nullptr) {
    throw Error(!sources_.about_heat.empty()
                    ? sources_.about_heat
                    : "nobody has counted how often neurons fire ('troika neurons' does)");
  }
  if (held.costs.has_predictor && !sources_.predictor) {
    throw Error("there is no predictor ('troika neurons --predictor' makes one)");
  }
}

// Returns the plan as an engine makes it for this arrangement.
plan::Plan ArrangementFinder::plan_for(const HeldArrangement& held) const {
  prepare::Options options = sources_.options;
  options.ffn.form = held.costs.form;
  if (held.costs.has_predictor) {
    const weights::NeuronPredictor::Info& info = *sources_.predictor;
    options.ffn.predictor = {info.key, static_cast<int>(info.shape.rank), info.bytes()};
    options.ffn.gates = held.costs.gates;
  }
  return prepare::make_plan(options, blueprint_, weights_, sources_.memory);
}

void ArrangementFinder::enter_memory(const plan::Plan& plan, HeldArrangement* held) const {
  const plan::Ledger ledger =
      prepare::expected_memory(sources_.options, blueprint_, weights_, plan, sources_.memory);
  ledger.check();
  held->weight_bytes = ledger.bytes(plan::Owner::kWeights);
  held->neuron_bytes = ledger.bytes(plan::Owner::kNeurons);
  const bool is_streamed = prepare::are_streamed(blueprint_, weights_, plan, ledger);
  const std::vector<model::GatedFfn> ffns = prepare::neuron_blocks(blueprint_, plan);
  if (is_streamed) enter_weights(plan, ffns, held);
  if (ffns.empty()) return;
  const prepare::BundleMaker maker(ffns, weights_, 1);
  held->costs.n_places = static_cast<int64_t>(maker.shape().n_layers * maker.shape().n_neurons);
  if (is_streamed) enter_places(plan, ffns, held);
}

// Enters which parts of blocks take turns, and which experts, or gates of experts, have room.
void ArrangementFinder::enter_weights(const plan::Plan& plan, std::span<const model::GatedFfn> ffns,
                                      HeldArrangement* held) const {
  size_t bytes = held->weight_bytes - prepare::prompt_bytes(blueprint_, weights_, plan);
  std::vector<model::WeightId> elsewhere = prepare::neuron_matrices(ffns);
  const bool are_whole = prepare::reads_experts(sources_.options, blueprint_, plan);
  if (are_whole || prepare::reads_gates(sources_.options, blueprint_, weights_, plan, bytes)) {
    const prepare::RoutedExperts routed = are_whole
                                              ? prepare::all_of_experts(blueprint_, weights_)
                                              : prepare::gates_of_experts(blueprint_, weights_);
    const auto shares = prepare::ExpertStream::shares_of(bytes, routed);
    const int64_t n_places = prepare::ExpertStream::n_places_within(shares.experts, routed);
    const auto n_all = static_cast<int64_t>(routed.mixtures.size()) * blueprint_.n_experts;
    // Where some make room, those that a layer computes are none that wait for their next use.
    held->costs.n_expert_places =
        n_places < n_all ? std::max<int64_t>(n_places - blueprint_.n_experts_used, 0) : n_places;
    held->costs.expert_bytes = static_cast<double>(prepare::ExpertStream::place_bytes(routed));
    bytes = shares.others;
    elsewhere = routed.matrices;
  }
  const prepare::WeightParts parts = prepare::weight_parts(blueprint_, weights_, {elsewhere});
  held->costs.turn_bytes =
      static_cast<double>(prepare::turning_bytes(parts, prepare::choose_turns(parts, bytes)));
}

// Enters how many neurons have room. What a stream takes grows evenly with their number.
void ArrangementFinder::enter_places(const plan::Plan& plan, std::span<const model::GatedFfn> ffns,
                                     HeldArrangement* held) const {
  const prepare::BundleMaker maker(ffns, weights_, 1);
  const int64_t n_all = held->costs.n_places;
  const int64_t n_least = std::min<int64_t>(2 * weights::kSegmentNeurons, n_all);
  const auto least = static_cast<double>(prepare::NeuronStream::least_bytes(ffns, weights_));
  const auto most = static_cast<double>(prepare::NeuronStream::most_bytes(ffns, weights_, 0));
  double left =
      static_cast<double>(held->neuron_bytes -
                          std::min<uint64_t>(held->neuron_bytes, plan.ffn.predictor.bytes)) -
      least;
  const weights::BundleLayout layout(maker.shape());
  const prepare::FfnChoice& ffn = sources_.options.ffn;
  const bool may_read_ahead =
      ffn.reads_hottest_ahead || (ffn.reads_ahead && plan.prefill == plan::Prefill::kSame);
  const bool reads_ahead = may_read_ahead && !ffns.front().is_expert();
  if (reads_ahead && left > 0.0 && left < most - least) {
    const uint64_t ahead = prepare::NeuronAhead::layer_bytes(layout, static_cast<uint64_t>(left));
    left -= static_cast<double>(prepare::NeuronAhead::bytes_for(layout, ahead));
  }
  const double each = n_all > n_least ? (most - least) / static_cast<double>(n_all - n_least) : 1.0;
  const auto n_more = static_cast<int64_t>(std::floor(std::max(left, 0.0) / each));
  held->costs.n_places = std::min(n_all, n_least + n_more);
  held->costs.n_never_pinned = n_least;
  held->costs.read_bytes = layout.read_bytes();
  held->costs.n_per_read = static_cast<int64_t>(layout.n_per_page());
  held->costs.gap_bytes = ffn.gap_bytes.value_or(sources_.disk.gap_bytes());
  held->costs.gate_bytes = maker.shape().first_bytes;
}

StepTimes ArrangementFinder::measure(const plan::Plan& plan) const {
  const solve::ProfileTimes times(sources_.profile, plan.lanes, weights_, plan.kv_type);
  const solve::CostPredictor predictor(sources_.profile);
  plan::Plan by_output = plan;
  by_output.ffn = {};
  StepTimes step;
  step.rest_us = solve::predict_step_us(times, by_output, blueprint_, kPlannedContext);
  for (const model::Op& op : blueprint_.ops) {
    const auto added_us = [&] {
      return predictor.added_us(kPlannedLane, solve::shape_of(blueprint_, op, weights_,
                                                              plan.kv_type, {}, kPlannedContext));
    };
    if (op.kind == model::OpKind::kExpertLinear) step.experts_us += added_us();
    for (const model::GatedFfn& ffn : ffns_) {
      if (ffn.expert > 0) continue;  // the first expert's weights are those of the others too
      const bool is_gate = op.weight == ffn.gate;
      if (op.weight == model::kNone || (!is_gate && op.weight != ffn.up && op.weight != ffn.down)) {
        continue;
      }
      const double us = added_us();
      (is_gate ? step.gates_us : step.others_us) += us;
      if (!is_gate) continue;
      const weights::Matrix& gate = weights_.matrix(ffn.gate);
      const double n_rows = gate.n_rows;
      step.gate_bytes += static_cast<double>(gate.row_bytes) * n_rows;
      step.n_neurons += ffn.is_expert() ? n_rows * share_of_experts() : n_rows;
    }
  }
  step.rest_us = std::max(0.0, step.rest_us - step.gates_us - step.others_us);
  return step;
}

void ArrangementFinder::enter_times(const plan::Plan& plan, HeldArrangement* held) {
  if (!times_) times_ = measure(plan);
  const StepTimes& step = *times_;
  solve::NeuronArrangement& costs = held->costs;
  if (costs.form == plan::FfnForm::kByOutput) {
    costs.fixed_us = step.rest_us + step.gates_us + step.others_us;
    costs.experts_us = step.experts_us;
    return;
  }
  const auto& single = sources_.neuron_times;
  costs.live_us = single ? single->up_us + single->down_us : step.others_us / step.n_neurons;
  costs.fixed_us = step.rest_us + step.gates_us;
  costs.experts_us = step.gates_us;
  if (!costs.has_predictor) return;
  const weights::NeuronPredictor::Info& info = *sources_.predictor;
  const double share_of_gates = static_cast<double>(info.bytes()) / step.gate_bytes;
  costs.fixed_us = step.rest_us + step.gates_us * share_of_gates;
  costs.predicted_us = single ? single->gate_us : step.gates_us / step.n_neurons;
  costs.predicted_per_live = info.predicted_per_live;
  costs.recall = info.recall;
}

// Returns nothing where too few tokens were counted.
std::vector<double> found_within(const weights::NeuronHeat::Reuse& reuse) {
  std::vector<double> found;
  for (size_t n = 1; reuse.is_known() && n <= weights::NeuronHeat::Reuse::kMostTokens; ++n) {
    // More tokens before it are counted for fewer tokens, and never find less.
    found.push_back(std::max(reuse.found_within(n), found.empty() ? 0.0 : found.back()));
  }
  return found;
}

}  // namespace

std::vector<HeldArrangement> find_arrangements(const ArrangementSources& sources) {
  using plan::FfnForm;
  using plan::FfnGates;
  const prepare::FfnChoice& asked = sources.options.ffn;
  ArrangementFinder finder(sources);
  std::vector<HeldArrangement> all;
  if (!asked.form || *asked.form == FfnForm::kByOutput) {
    all.push_back(finder.find(FfnForm::kByOutput, false, FfnGates::kInMemory));
  }
  if (asked.form && *asked.form != FfnForm::kByNeuron) return all;
  HeldArrangement exact = finder.find(FfnForm::kByNeuron, false, FfnGates::kInMemory);
  if (asked.has_predictor && exact.costs.obstacle.empty()) {
    exact.costs.obstacle = "‹neuron-predictor› was asked for";
  }
  obey_reads(asked, &exact.costs);
  all.push_back(exact);
  for (const FfnGates gates : {FfnGates::kInMemory, FfnGates::kInBundles}) {
    if (asked.gates && *asked.gates != gates) continue;
    HeldArrangement held = finder.find(FfnForm::kByNeuron, true, gates);
    if (!asked.has_predictor && held.costs.obstacle.empty()) {
      held.costs.obstacle = "it changes answers, and ‹neuron-predictor› does not ask for it";
    }
    obey_reads(asked, &held.costs);
    all.push_back(held);
  }
  return all;
}

solve::NeuronLaw law_of(const weights::NeuronHeat* heat, const model::Blueprint& blueprint) {
  solve::NeuronLaw law;
  if (blueprint.n_experts > 0) {
    law.experts.n_neurons =
        static_cast<int64_t>(model::mixtures(blueprint).size()) * blueprint.n_experts;
    law.experts.live = static_cast<double>(blueprint.n_experts_used) / blueprint.n_experts;
  }
  if (heat == nullptr) return law;
  std::map<uint32_t, int64_t, std::greater<>> by_count;
  for (uint64_t layer = 0; layer < heat->n_layers(); ++layer) {
    for (const uint32_t count : heat->counts(layer)) ++by_count[count];
  }
  law.stay = heat->stay();
  law.found_within = found_within(heat->neurons_reuse());
  law.experts_found_within = found_within(heat->experts_reuse());
  for (const auto& [count, n] : by_count) {
    law.classes.push_back(
        {n, std::min(1.0, static_cast<double>(count) / static_cast<double>(heat->n_tokens()))});
  }
  return law;
}

}  // namespace troika::tune
