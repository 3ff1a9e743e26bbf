#include "tune/choose_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "base/system.h"
#include "gguf/file.h"
#include "model/architecture.h"
#include "prepare/memory.h"
#include "prepare/plan/make_plan.h"
#include "schedule/cut/plan_cuts.h"
#include "solve/cuts/solve_cuts.h"
#include "solve/place.h"
#include "solve/predict_pass.h"
#include "solve/profile/op_shapes.h"

namespace troika::tune {
namespace {

// A plan with several lanes, or with fewer threads, must be predicted to take no more than this
// share of the best one's time, because predictions are uncertain.
constexpr double kMostOfBest = 0.97;
// Predictions of divided prompts are about this far off.
constexpr double kWorthRunning = 1.15;
// Limits the candidates of one set of lanes that divide tensors: each takes the memory of an engine
// where they are compared.
constexpr size_t kMostCut = 2;
constexpr int kDecodeContext = 512;
constexpr double kLeastProfilingS = 1e-3;

struct LaneSet {
  std::string name;
  std::vector<plan::PlannedLane> lanes;  // empty: there is one lane of n_threads
  int n_threads = 0;
};

// Returns one lane of all cores, of half, of one; and a lane for each core, where they are few.
// Where something is asked for, it returns only that.
std::vector<LaneSet> lane_sets(const prepare::LaneChoice& asked) {
  constexpr size_t kMostLanes = 4;
  std::vector<LaneSet> sets;
  if (!asked.cores.empty()) return {{"lanes " + plan::lanes_text(asked.cores), asked.cores, 0}};
  if (const int n = asked.n_threads; n > 0) {
    return {{fmt::format("{} thread{}", n, n == 1 ? "" : "s"), {}, n}};
  }
  for (int n = usable_cores(); n >= 1; n /= 2) {
    sets.push_back({fmt::format("{} thread{}", n, n == 1 ? "" : "s"), {}, n});
  }
  std::vector<int> cores = usable_core_numbers();
  // Leaves out cores beyond a quota of time.
  cores.resize(std::min(cores.size(), static_cast<size_t>(usable_cores())));
  if (cores.size() >= 2 && cores.size() <= kMostLanes) {
    std::vector<plan::PlannedLane> lanes;
    lanes.reserve(cores.size());
    for (const int core : cores) lanes.push_back({{core}, 1});
    sets.push_back({"lanes " + plan::lanes_text(lanes), lanes, 0});
  }
  return sets;
}

// Says whether prompts may go in chunks of the plan's largest shape.
bool has_whole_tiles(const plan::Plan& plan) {
  return !plan.attention.goes_by_tile() || plan.chunk() % plan::kAttentionTile == 0;
}

// Chooses the chunk whose tokens are predicted to take least time each (N1).
void choose_chunk(const solve::TimeModel& times, const model::Blueprint& blueprint, int longest,
                  plan::Plan* plan) {
  const plan::Plan whole = *plan;
  double best_us = 0.0;
  for (size_t n = whole.prompt_shapes.size(); n > 0; --n) {
    plan::Plan shorter = whole;
    shorter.prompt_shapes.resize(n);
    if (!has_whole_tiles(shorter)) continue;
    const double us = solve::predict_prompt_us(times, shorter, blueprint, longest);
    if (best_us > 0.0 && us > kMostOfBest * best_us) continue;
    best_us = us;
    *plan = shorter;
  }
}

// Returns the arrangements of the model's products that the profile found faster than the lane's
// first one (N8).
std::vector<plan::ProductArrangement> chosen_arrangements(const plan::Profile& profile,
                                                          const plan::Plan& plan,
                                                          const model::Blueprint& blueprint,
                                                          const weights::Store& weights) {
  std::vector<plan::ProductArrangement> arrangements;
  for (const plan::OpShape& shape : solve::product_shapes(blueprint, weights, plan.body_shapes())) {
    for (int lane = 0; lane < static_cast<int>(profile.lanes.size()); ++lane) {
      const plan::OpTime* time = profile.find(lane, shape);
      if (time == nullptr || time->arrangement.empty()) continue;
      arrangements.push_back(
          {lane, shape.n_rows, shape.k, {shape.phase, shape.n_tokens}, time->arrangement});
    }
  }
  return arrangements;
}

// Returns what a candidate begins with that gives the answers of another plan: all of that plan but
// what holds for its lanes.
plan::Plan begun_like(const plan::Plan& like, const prepare::LaneChoice& lanes) {
  plan::Plan plan = like;
  plan.lanes = prepare::choose_lanes(lanes);
  plan::limit_lanes(lanes.limits, &plan.lanes);
  plan::cap_lanes(lanes.caps, &plan.lanes);
  plan::check_placements(lanes.placements, plan.lanes.size());
  plan.placements = lanes.placements;
  plan.attention.head_lanes.clear();
  plan.ffn.hot.lane = std::min(plan.ffn.hot.lane, static_cast<int>(plan.lanes.size()) - 1);
  plan.prompt_shapes = plan::Plan().prompt_shapes;
  plan.arrangements.clear();
  if (!like.cuts.empty()) {  // cuts come with an order and a number of chunks of their own
    plan.order = plan::Plan().order;
    plan.chunks_in_flight = plan::Plan().chunks_in_flight;
  }
  plan.cuts.clear();
  plan.lengths.clear();
  plan.step_costs.clear();
  plan.streamed_neurons.reset();
  return plan;
}

plan::Plan plan_of(prepare::Options options, const plan::Plan* like,
                   const model::Blueprint& blueprint, const weights::Store& weights) {
  if (like != nullptr) {
    options.prompts.int8.reset();
    options.memory.packed_bytes = like->packed_bytes;
    options.plan.base = begun_like(*like, options.lanes);
  }
  return prepare::make_plan(options, blueprint, weights);
}

// Returns a request that keeps to the rules and asks the plan for classes, and must not outlive it.
solve::PlaceRequest place_request(const plan::Plan& plan,
                                  const std::vector<plan::Placement>& rules) {
  solve::PlaceRequest request;
  request.forced = rules;
  request.shapes = plan.body_shapes();
  request.splits = plan.splits;
  request.prefill = plan.prefill;
  request.activations = plan.activations;
  request.has_rules_of_phases = !plan.has_one_class();
  request.decode_context = kDecodeContext;
  request.class_of = [of = &plan](int lane, plan::Phase phase) {
    return schedule::class_of(*of, lane, phase);
  };
  return request;
}

bool has_bounded(const solve::PlacementChoice& places) {
  return std::any_of(places.shapes.begin(), places.shapes.end(),
                     [](const solve::ShapeChoice& shape) { return shape.is_bounded; });
}

// Returns a request for cuts of a plan, which must outlive it, whose prompts have these lengths.
solve::CutRequest cut_request(const plan::Plan& plan, const prepare::LaneChoice& lanes,
                              const std::vector<int>& prompts) {
  solve::CutRequest request;
  request.place = place_request(plan, {});
  request.cuts = solve::cut_rules(plan);
  if (plan.attention.has_head_lanes()) request.cuts.may_take = solve::keeps_prompt_attention;
  request.cuts.least_gain = 1.0 - kMostOfBest;
  request.lengths = solve::length_rules(plan, request.cuts, prompts);
  request.lengths.choice =
      lanes.divides_by_margin ? solve::LengthChoice::kMargin : solve::LengthChoice::kLeastTime;
  return request;
}

// Keeps the tokens of feed-forward parts together where their neurons may be read: a stream of
// neurons answers one lane after the other, so a plan that divides them is refused where memory is
// short.
void keep_neuron_tokens(const ChooseRequest& request, const model::Blueprint& blueprint,
                        const plan::Plan& plan, solve::CutRequest* cuts) {
  const bool is_limited = request.options.memory.limit_bytes > 0;
  if (!plan.ffn.is_by_neuron() || !is_limited ||
      !prepare::may_stream(request.options, blueprint, plan)) {
    return;
  }
  // Other prompts read whole matrices.
  const bool has_prompts = plan.prefill == plan::Prefill::kSame;
  cuts->cuts.may_divide_tokens = [has_prompts](std::string_view subgraph, plan::Shape shape) {
    return subgraph != "ffn" || (shape.phase == plan::Phase::kPrompt && !has_prompts);
  };
  if (has_prompts) cuts->lengths.lengths.clear();
}

// Divides products and prompts between the lanes where that is predicted to be clearly faster.
// Returns whether anything is divided.
bool add_cuts(const solve::TimeModel& times, const model::Blueprint& blueprint,
              const weights::Store& weights, const ChooseRequest& asked, PlanCandidate* candidate) {
  plan::Plan* const plan = &candidate->plan;
  solve::CutRequest request = cut_request(*plan, asked.options.lanes, asked.prompts);
  keep_neuron_tokens(asked, blueprint, *plan, &request);
  solve::CutChoice choice = solve::solve_cuts(blueprint, weights, *plan, times, request);
  candidate->notes = std::move(choice.notes);
  candidate->length_notes = std::move(choice.length_notes);
  candidate->is_bounded = has_bounded(choice.places);
  plan->placements = choice.places.placements;
  plan->cuts = choice.cuts;
  plan->lengths = choice.lengths;
  // Every part of a prompt has all lanes, so a second part beside it gains nothing and takes
  // buffers.
  if (!choice.cuts.empty()) plan->order = plan::Order::kInOrder;
  return !choice.cuts.empty() || !choice.lengths.empty();
}

// Chooses cuts, with the chunk whose tokens are then predicted to take least time each. Returns
// that candidate, and behind it the next one, if only a run can tell them apart. Returns none where
// nothing is divided, and tells `whole` what was looked at.
std::vector<PlanCandidate> choose_cuts(const solve::TimeModel& times,
                                       const model::Blueprint& blueprint,
                                       const weights::Store& weights, const ChooseRequest& request,
                                       PlanCandidate* whole) {
  const int longest = *std::max_element(request.prompts.begin(), request.prompts.end());
  struct Found {
    PlanCandidate candidate;
    double us;
    bool is_cut;
  };
  std::vector<Found> found;
  size_t best = 0;
  for (size_t n = whole->plan.prompt_shapes.size(); n > 0; --n) {
    PlanCandidate shorter = *whole;
    shorter.plan.prompt_shapes.resize(n);
    if (!has_whole_tiles(shorter.plan)) continue;
    const bool is_cut = add_cuts(times, blueprint, weights, request, &shorter);
    const double us = solve::predict_prompt_us(times, shorter.plan, blueprint, longest);
    found.push_back({std::move(shorter), us, is_cut});
    if (us <= kMostOfBest * found[best].us) best = found.size() - 1;
  }
  whole->notes = found[best].candidate.notes;
  whole->length_notes = found[best].candidate.length_notes;
  whole->is_bounded = std::any_of(found.begin(), found.end(),
                                  [](const Found& f) { return f.candidate.is_bounded; });
  if (!found[best].is_cut) return {};
  std::rotate(found.begin(), found.begin() + static_cast<ptrdiff_t>(best),
              found.begin() + static_cast<ptrdiff_t>(best) + 1);
  std::stable_sort(found.begin() + 1, found.end(),
                   [](const Found& a, const Found& b) { return a.us < b.us; });
  std::vector<PlanCandidate> candidates;
  for (Found& f : found) {
    if (!f.is_cut || f.us > kWorthRunning * found.front().us) continue;
    if (candidates.size() == kMostCut) break;
    f.candidate.name +=
        candidates.empty() ? ", cut" : fmt::format(", cut {}", f.candidate.plan.chunk());
    candidates.push_back(std::move(f.candidate));
  }
  return candidates;
}

void predict(const ChooseRequest& request, const solve::TimeModel& times,
             const model::Blueprint& blueprint, PlanCandidate* candidate) {
  const plan::Plan& plan = candidate->plan;
  candidate->step_us = solve::predict_step_us(times, plan, blueprint, kDecodeContext);
  for (const int n : request.prompts) {
    candidate->prompt_us.push_back(solve::predict_prompt_us(times, plan, blueprint, n));
  }
}

plan::Profile profile_of(const ChooseRequest& request, const prepare::Options& options,
                         const plan::Plan& plan, tensor::Type type,
                         const measure::StageFunction& stage) {
  measure::ProfileRequest profiling;
  profiling.models = {options.model.file};
  profiling.lanes = options.lanes;
  profiling.activations = plan.activations;
  profiling.prefill = plan.prefill;
  profiling.kv_type = plan.kv_type;
  profiling.kernels = options.kernels;
  profiling.type = type;
  // No time at all would leave out every op, and nothing could be predicted.
  profiling.budget_s = std::max(request.budget_s, kLeastProfilingS);
  profiling.use_cache = request.use_cache;
  profiling.keeps = request.keeps_profile;
  profiling.with_cores = profiling.with_storage = false;
  measure::ProfileResult result = measure::profile_here(profiling, stage);
  if (!result.keep_problem.empty()) throw Error(result.keep_problem);
  return std::move(result.profile);
}

// Returns the candidates of a set of lanes: with whole subgraphs, and with divided ones where that
// is faster.
std::vector<PlanCandidate> candidates_of(const ChooseRequest& request, const LaneSet& set,
                                         const model::Blueprint& blueprint,
                                         const weights::Store& weights,
                                         const measure::StageFunction& stage) {
  prepare::Options options = request.options;
  options.lanes.cores = set.lanes;
  options.lanes.n_threads = set.lanes.empty() ? set.n_threads : 0;
  const int longest = *std::max_element(request.prompts.begin(), request.prompts.end());
  PlanCandidate whole;
  whole.name = set.name;
  whole.plan = plan_of(options, request.like, blueprint, weights);
  whole.has_single_lane = whole.plan.lanes.size() == 1;
  const plan::Profile profile =
      profile_of(request, options, whole.plan, weights.main_type(), stage);
  whole.profile_load = profile.load_average;
  const std::vector<plan::PlannedLane> lanes = whole.plan.lanes;
  const solve::ProfileTimes whole_times(profile, lanes, weights, whole.plan.kv_type);
  const solve::CappedTimes times(whole_times, lanes);
  std::vector<PlanCandidate> candidates = {whole};
  choose_chunk(times, blueprint, longest, &candidates.front().plan);
  if (!whole.has_single_lane) {
    plan::Plan& plan = candidates.front().plan;
    const std::vector<plan::Placement>& rules = request.options.lanes.placements;
    const solve::PlacementChoice places =
        solve::place(blueprint, weights, plan.lanes, times, place_request(plan, rules));
    plan.placements = places.placements;
    // A rule says where whole subgraphs run.
    if (options.lanes.has_cuts && rules.empty()) {
      for (PlanCandidate& cut : choose_cuts(times, blueprint, weights, request, &whole)) {
        candidates.push_back(std::move(cut));
      }
    }
    // The candidate of whole subgraphs tells why there is none with cuts.
    candidates.front().notes = whole.notes;
    candidates.front().length_notes = whole.length_notes;
    candidates.front().is_bounded = has_bounded(places) || whole.is_bounded;
  }
  for (PlanCandidate& candidate : candidates) {
    candidate.plan.arrangements = chosen_arrangements(profile, candidate.plan, blueprint, weights);
    predict(request, times, blueprint, &candidate);
  }
  return candidates;
}

}  // namespace

size_t fastest(const PlanChoice& choice, const std::vector<std::vector<double>>& prompt_us) {
  size_t best = 0;
  double best_us = 0.0;
  for (size_t i = 0; i < choice.candidates.size(); ++i) {
    const std::vector<double>& prompts = prompt_us[i];
    const double steps_us =
        choice.n_steps * choice.candidates[i].step_us * static_cast<double>(prompts.size());
    const double total_us = std::accumulate(prompts.begin(), prompts.end(), steps_us);
    if (best_us > 0.0 && total_us >= kMostOfBest * best_us) continue;
    best_us = total_us;
    best = i;
  }
  return best;
}

std::vector<std::string> parts_not_kept(const plan::Plan& like) {
  std::vector<std::string> parts;
  if (!like.step_costs.empty()) parts.push_back("step_costs");
  if (like.streamed_neurons) parts.push_back("streamed_neurons");
  if (like.attention.has_head_lanes()) parts.push_back("the lanes of attention");
  return parts;
}

solve::CutReasons cut_reasons(const plan::Profile& profile, const plan::Plan& plan,
                              const model::Blueprint& blueprint, const weights::Store& weights,
                              const prepare::LaneChoice& lanes) {
  const solve::ProfileTimes whole_times(profile, plan.lanes, weights, plan.kv_type);
  const solve::CappedTimes times(whole_times, plan.lanes);
  return solve::cut_reasons(blueprint, weights, plan, times, cut_request(plan, lanes, {}));
}

PlanChoice choose_plan(const ChooseRequest& request, const measure::StageFunction& stage) {
  TROIKA_ASSERT(!request.prompts.empty());
  const gguf::File file = gguf::File::open(request.options.model.file);
  const model::Blueprint blueprint = model::read(file);
  const weights::Store weights(file, blueprint);
  PlanChoice choice;
  choice.n_steps = request.n_steps;
  for (const LaneSet& set : lane_sets(request.options.lanes)) {
    for (PlanCandidate& candidate : candidates_of(request, set, blueprint, weights, stage)) {
      choice.candidates.push_back(std::move(candidate));
    }
  }
  std::vector<std::vector<double>> predicted_us;
  for (const PlanCandidate& candidate : choice.candidates) {
    predicted_us.push_back(candidate.prompt_us);
  }
  choice.best = fastest(choice, predicted_us);
  return choice;
}

}  // namespace troika::tune
