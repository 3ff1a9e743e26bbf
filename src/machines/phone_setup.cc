#include "machines/phone_setup.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <filesystem>
#include <iterator>

#include "base/error.h"
#include "base/hash.h"
#include "base/system.h"
#include "machines/phone_heads.h"
#include "machines/phone_shapes.h"
#include "model/limits.h"
#include "prepare/plan/make_plan.h"
#include "prepare/plan/saved_plan.h"
#include "solve/profile/op_bench.h"
#include "solve/profile/op_shapes.h"

namespace troika::machines {
namespace {

namespace fs = std::filesystem;

// Is the usual context: it is enough for most prompts, and an option asks for more.
constexpr int kPhoneContext = 4096;
constexpr int kChunksInFlight = 8;

// The lanes of the system of llm.npu: float parts run on the CPU, products on the NPU.
struct NpuStageLanes {
  int npu, floats;
};

NpuStageLanes npu_stage_lanes(const plan::Plan& plan) {
  const auto lane_of = [&](const std::string& kind) {
    const auto found = std::find_if(plan.lanes.begin(), plan.lanes.end(),
                                    [&](const plan::PlannedLane& l) { return l.kind == kind; });
    return found == plan.lanes.end() ? -1 : static_cast<int>(found - plan.lanes.begin());
  };
  const NpuStageLanes lanes = {lane_of("npu"),
                               lane_of("cpu") >= 0 ? lane_of("cpu") : lane_of("gpu")};
  if (lanes.npu < 0 || lanes.floats < 0) {
    throw UsageError(
        "A stage of llm.npu needs the NPU and a lane for floats: ‹lanes› \"cpu;npu\".");
  }
  return lanes;
}

// Makes the plan of the system of llm.npu up to a stage of its ablation.
void plan_npu_stage(const prepare::Options& options, plan::Plan* to) {
  if (!options.phone.npu_stage) return;
  plan::Plan& plan = *to;
  const auto [npu, floats] = npu_stage_lanes(plan);
  plan.npu = plan::NpuPlan{*options.phone.npu_stage, options.phone.npu_prune};
  plan.splits.at_norms = true;
  plan.order = plan.npu->stage >= plan::NpuStage::kOutOfOrder ? plan::Order::kOutOfOrder
                                                              : plan::Order::kInOrder;
  for (const char* kind : {"qkv", "out", "ffn"}) plan.placements.push_back({kind, 2, npu});
  plan.placements.push_back({"", 0, floats});
}

// Lets the phone run as the plan's stage says, so that a plan from a file repeats its run.
void apply_npu_stage(PhoneSetup* setup) {
  if (!setup->plan.npu) return;
  const plan::NpuPlan& npu = *setup->plan.npu;
  setup->options.has_group_scales = npu.stage < plan::NpuStage::kOutlier;
  setup->makes_graphs_per_prompt = npu.stage == plan::NpuStage::kNaive;
  if (npu.stage >= plan::NpuStage::kOutlier) {
    setup->shadow = {npu_stage_lanes(setup->plan).floats, npu.prune};
  }
}

std::string known_stacks(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code ignored;
  for (auto entry = fs::directory_iterator(folder, ignored);
       !ignored && entry != fs::directory_iterator(); entry.increment(ignored)) {
    if (entry->path().extension() == ".json") names.push_back(entry->path().stem().string());
  }
  std::sort(names.begin(), names.end());
  return fmt::format("{}", fmt::join(names, ", "));
}

int context_of(const prepare::Options& options, const model::Blueprint& blueprint) {
  if (options.memory.context > model::kMostContext) {
    throw UsageError(fmt::format("‹context› {} is longer than a plan can say; use {} or less.",
                                 options.memory.context, model::kMostContext));
  }
  if (options.memory.context > 0) return options.memory.context;
  return std::min(blueprint.trained_context, kPhoneContext);
}

// Returns those arrangements that are not the lane's first one.
std::vector<plan::ProductArrangement> arrangements_of(const std::vector<plan::OpTime>& times,
                                                      const lanes::Machine& machine) {
  std::vector<plan::ProductArrangement> arrangements;
  for (const plan::OpTime& time : times) {
    const plan::OpShape& shape = time.shape;
    const plan::Shape built = {shape.phase, shape.n_tokens};
    const auto known = machine.lanes()[static_cast<size_t>(time.lane)]->arrangements(built);
    if (known.empty() || time.arrangement == known.front()) continue;
    arrangements.push_back({time.lane, shape.n_rows, shape.k, built, time.arrangement});
  }
  return arrangements;
}

// Returns the placements of least time, with the cuts that save time where cuts are wanted.
solve::CutChoice solve_phone(const model::Blueprint& blueprint, const weights::Store& weights,
                             const plan::Plan& plan, const solve::TimeModel& times,
                             const solve::PlaceRequest& request, bool has_heads,
                             const prepare::LaneChoice& wanted) {
  if (!wanted.solves_cuts || !wanted.has_cuts) {
    solve::CutChoice choice;
    choice.places = solve::place(blueprint, weights, plan.lanes, times, request);
    return choice;
  }
  solve::CutRequest with_cuts;
  with_cuts.place = request;
  with_cuts.cuts.n_lanes = static_cast<int>(plan.lanes.size());
  if (has_heads) with_cuts.cuts.may_take = solve::keeps_prompt_attention;
  with_cuts.lengths = solve::length_rules(plan, with_cuts.cuts);
  if (wanted.divides_by_margin) with_cuts.lengths.choice = solve::LengthChoice::kMargin;
  return solve::solve_cuts(blueprint, weights, plan, times, with_cuts);
}

// Sets how much of the weights and of the time each lane may take.
void set_limits(const prepare::Options& options, const lanes::VirtualPhone& phone, plan::Plan* to) {
  plan::Plan& plan = *to;
  for (size_t lane = 0; lane < plan.lanes.size(); ++lane) {
    plan.lanes[lane].memory_limit = phone.lanes()[lane]->info().memory_limit_bytes;
  }
  if (prepare::has_neurons(options)) {
    // Blocks come and go, so lanes have no limit here; the NPU's own is counted when hot neurons
    // are chosen.
    for (plan::PlannedLane& lane : plan.lanes) lane.memory_limit = plan::PlannedLane::kNoLimit;
  }
  plan::limit_lanes(options.lanes.limits, &plan.lanes);
  plan::cap_lanes(options.lanes.caps, &plan.lanes);
}

// Chooses the fastest arrangements of products, on lanes that have several.
void choose_arrangements(const model::Blueprint& blueprint, const weights::Store& weights,
                         lanes::VirtualPhone& phone, PhoneSetup* setup) {
  const plan::Shape chunk = {plan::Phase::kPrompt, setup->plan.chunk()};
  const std::vector<plan::OpShape> products = solve::product_shapes(blueprint, weights, {chunk});
  for (int lane = 0; lane < static_cast<int>(setup->plan.lanes.size()); ++lane) {
    if (phone.lanes()[static_cast<size_t>(lane)]->arrangements(chunk).empty()) continue;
    const std::vector<plan::OpTime> times = solve::compare_arrangements(phone, lane, products);
    setup->arrangements.insert(setup->arrangements.end(), times.begin(), times.end());
  }
  setup->plan.arrangements = arrangements_of(setup->arrangements, phone);
}

// Chooses what runs on which lane, and the chunk length with which prompts take the least time.
void choose(const model::Blueprint& blueprint, const weights::Store& weights,
            const prepare::Options& options, PhoneSetup* setup) {
  plan::Plan& plan = setup->plan;
  solve::PlaceRequest request;
  plan::check_placements(options.lanes.placements, plan.lanes.size());
  request.forced = options.lanes.placements;
  for (const plan::Placement& rule : plan.placements) request.forced.push_back(rule);
  setup->rules = request.forced;
  set_phone_shapes(options, &plan);
  request.shapes = plan.body_shapes();
  request.splits = plan.splits;
  // What a game takes is not known beforehand.
  lanes::PhoneOptions alone = setup->options;
  alone.has_rendering = false;
  lanes::VirtualPhone phone(setup->model, alone, nullptr);
  set_limits(options, phone, &plan);
  const lanes::Buffers buffers(blueprint, 1, 1, /*has_values=*/false);
  const solve::RunTimes whole_times(phone, weights, buffers);
  const solve::CappedTimes times(whole_times, plan.lanes);
  const auto solve = [&] {
    return solve_phone(blueprint, weights, plan, times, request, plan.heads.has_value(),
                       options.lanes);
  };
  std::vector<solve::ShapeChoice> longer;
  // If no chunk length was asked for, the best one is chosen. Neurons want chunks as long as
  // possible: each chunk brings the blocks with it.
  const bool is_free = options.prompts.chunk == 0 && options.phone.prompt_shapes.empty();
  if (is_free && !prepare::has_neurons(options)) {
    // Graphs of longer chunks take memory, too, so each length is tried without those beyond it.
    const std::vector<int> all = plan.prompt_shapes;
    solve::PlacementChoice tried;
    for (size_t n = 1; n <= all.size(); ++n) {
      plan.prompt_shapes.assign(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(n));
      request.shapes = plan.body_shapes();
      const std::vector<solve::ShapeChoice> shapes = solve().places.shapes;
      std::copy_if(shapes.begin(), shapes.end(), std::back_inserter(tried.shapes),
                   [&](const solve::ShapeChoice& one) {
                     return one.shape == plan::Shape{plan::Phase::kPrompt, all[n - 1]};
                   });
    }
    const int chunk = best_chunk(tried, plan);
    std::erase_if(plan.prompt_shapes, [&](int n) { return n > chunk; });
    request.shapes = plan.body_shapes();
    std::copy_if(tried.shapes.begin(), tried.shapes.end(), std::back_inserter(longer),
                 [&](const solve::ShapeChoice& shape) { return shape.shape.n_rows > chunk; });
  }
  solve::CutChoice cuts = solve();
  setup->choice = std::move(cuts.places);
  // Cuts that were asked for stand before these.
  plan.cuts.insert(plan.cuts.end(), cuts.cuts.begin(), cuts.cuts.end());
  if (plan.lengths.empty()) plan.lengths = cuts.lengths;
  setup->notes = std::move(cuts.notes);
  setup->length_notes = std::move(cuts.length_notes);
  // Shows people what the longer chunks would have cost.
  setup->choice.shapes.insert(setup->choice.shapes.end(), longer.begin(), longer.end());
  plan.placements = setup->choice.placements;
  choose_arrangements(blueprint, weights, phone, setup);
}

// Refuses fixed scales: values on a phone are computed with a scale for every 32 activations, found
// as they run.
void check_strict_npu(const prepare::Options& options) {
  if (!options.lanes.is_strict_npu || !options.phone.has_values) return;
  std::vector<lanes::Processor> processors = options.phone.processors;
  if (processors.empty()) processors = lanes::PhoneOptions().lanes;
  const auto npu = std::find(processors.begin(), processors.end(), lanes::Processor::kNpu);
  if (npu == processors.end()) return;
  throw Error(
      "‹strict-npu› holds the lane 'npu' to scales that are fixed when its executables are built, "
      "but a phone that computes values finds them as it runs. Leave ‹strict-npu› out, or use "
      "lanes without a matrix unit.");
}

}  // namespace

bool is_law_of_plain_products(const plan::Stack& stack) {
  return stack.npu.is_float < 0.5 && stack.npu.reads_first < 0.5;
}

std::string PhoneSetup::name() const {
  std::string name = fmt::format("{} with {}", model.phone().name, model.stack().name);
  if (prompt_model) name += fmt::format(", prompts with {}", prompt_model->stack().name);
  return name;
}

std::string PhoneSetup::identity() const {
  Fnv hash;
  const auto add = [&](const lanes::CostModel& of) {
    plan::Phone phone = of.phone();
    plan::Stack stack = of.stack();
    for (const auto& fields : {phone.fields(), stack.fields()}) {
      for (const plan::Field& field : fields)
        hash.add(std::bit_cast<uint64_t>(field.constant->value));
    }
  };
  add(model);
  if (prompt_model) add(*prompt_model);
  std::string identity = fmt::format("{}, constants {:016x}", name(), hash.value());
  const lanes::Cores& used = model.used_cores();
  if (used != lanes::CostModel(model.phone(), model.stack()).used_cores()) {
    identity += fmt::format(", cores prime={:g},middle={:g},small={:g}", used.prime, used.middle,
                            used.small);
  }
  if (model.taken_gb_s() > 0.0) {
    identity += fmt::format(", {:g} GB/s of the bus taken", model.taken_gb_s());
  }
  return identity;
}

std::string stack_path(const prepare::Options& options, const std::string& name) {
  return (fs::path(options.phone.file).parent_path() / "stacks" / (name + ".json")).string();
}

namespace {

lanes::CostModel read_stack_of(const prepare::Options& options, const std::string& name) {
  const fs::path stack = stack_path(options, name);
  const fs::path folder = stack.parent_path();
  std::error_code ignored;
  if (!fs::exists(options.phone.file, ignored)) {
    throw Error(fmt::format(
        "‹machine› {}: there is no such file here. Phones lie in the folder phones of Troika's "
        "source, and in share/troika/phones where it is installed.",
        options.phone.file));
  }
  if (!fs::is_directory(folder, ignored)) {
    throw UsageError(fmt::format(
        "‹machine› {}: this is no phone's file, because no folder 'stacks' lies beside it. Give "
        "the file of a phone, as phones/8gen3.json, and name the software on it with ‹stack›.",
        options.phone.file));
  }
  if (name.empty()) {
    throw UsageError(
        fmt::format("A virtual phone needs the software on it: ‹stack› NAME. In {} there are: {}.",
                    folder.string(), known_stacks(folder)));
  }
  if (name.find('/') != std::string::npos || !fs::exists(stack, ignored)) {
    throw UsageError(fmt::format("There is no stack '{}' in {}; there are: {}.", name,
                                 folder.string(), known_stacks(folder)));
  }
  plan::Phone phone = plan::read_phone(options.phone.file);
  plan::Stack software = plan::read_stack(stack.string());
  for (const plan::ConstantChoice& choice : options.phone.constants) {
    if (plan::choose_constant(choice, phone.fields())) continue;
    if (plan::choose_constant(choice, software.fields())) continue;
    throw UsageError(fmt::format("‹constant› {}: neither {} nor {} has such a constant.",
                                 choice.name, options.phone.file, stack.string()));
  }
  plan::check_phone(phone, "‹constant›");
  lanes::CostModel model(std::move(phone), std::move(software));
  if (options.phone.cores) model.use_cores(*options.phone.cores);
  model.share_bus(options.phone.bus_taken_gb_s);
  return model;
}

// Lets graphs of prompts and of steps change block by block (D1): chunks run one at a time, and
// sub-chunks are as long as the longest graph of steps.
void apply_layouts(PhoneSetup* setup) {
  const plan::Plan& plan = setup->plan;
  if (!plan.changes_layouts) return;
  const int part_rows = plan.step_shapes.back();
  if (plan.order != plan::Order::kInOrder || part_rows < 2) {
    throw UsageError(
        "‹layouts› switch needs a plan whose chunks run one after the other, and graphs of steps "
        "of more than one row.");
  }
  setup->options.part_rows = part_rows;
}

// Lets lanes rest as the plan says (H14).
void apply_caps(PhoneSetup* setup) {
  for (const plan::PlannedLane& lane : setup->plan.lanes) {
    setup->options.busy_shares.push_back(lane.busy_share());
  }
}

}  // namespace

// Chooses lanes for a plan by neurons. Systems without the NPU have the CPU alone. Otherwise,
// unless the plan says more, CPU and NPU share feed-forward parts, and the NPU has all of the rest
// except what is small.
void apply_neurons(const prepare::Options& options, PhoneSetup* setup) {
  if (!prepare::has_neurons(options)) return;
  if (!options.phone.processors.empty()) return;
  const auto system = options.phone.neurons.system.value_or(plan::NeuronSystem::kXpu);
  setup->options.lanes = {lanes::Processor::kCpu};
  if (system == plan::NeuronSystem::kXpu) setup->options.lanes.push_back(lanes::Processor::kNpu);
}

void use_flash(PhoneSetup* setup) {
  const plan::NeuronPlan& neurons = *setup->plan.neurons;
  setup->options.flash_queue = neurons.queue_depth;
  setup->options.flash_core = setup->model.asking_core(neurons.reads_on_large_core);
}

// Plans what is in memory, how neurons are read, and how many are hot (P8).
void plan_neurons(const prepare::Options& options, const model::Blueprint& blueprint,
                  const weights::Store& weights, PhoneSetup* setup) {
  if (!prepare::has_neurons(options)) return;
  plan::Plan& plan = setup->plan;
  setup->neurons =
      neuron_shape(blueprint, weights, setup->model.stack().neurons.predictor_rank_share);
  const cache::KvShape kv = prepare::kv_shape(plan, blueprint);
  const uint64_t kv_bytes = kv.bytes_per_token() * static_cast<uint64_t>(plan.context);
  plan.neurons =
      neuron_budget(options, *setup->neurons, setup->model, kv_bytes, &setup->neuron_choice);
  use_flash(setup);
  choose_hot(setup->model, setup->options, *setup->neurons, blueprint, weights, &plan,
             &setup->neuron_choice);
}

namespace {

// Reads the phone and its software.
std::unique_ptr<PhoneSetup> phone_of(const prepare::Options& options) {
  lanes::PhoneOptions phone_options;
  if (!options.phone.processors.empty()) phone_options.lanes = options.phone.processors;
  phone_options.has_fast_handover = options.phone.has_fast_handover;
  phone_options.has_rendering = options.phone.has_rendering;
  phone_options.queue_depth = options.phone.queue_depth;
  auto setup = std::make_unique<PhoneSetup>(read_cost_model(options), phone_options);
  setup->options.has_square_shapes =
      options.phone.has_square_shapes && is_law_of_plain_products(setup->model.stack());
  if (!options.phone.prompt_stack.empty()) {
    setup->prompt_model.emplace(read_stack_of(options, options.phone.prompt_stack));
    setup->options.prompts = &*setup->prompt_model;
    setup->options.prompts_have_square_shapes =
        options.phone.has_square_shapes && is_law_of_plain_products(setup->prompt_model->stack());
  }
  setup->n_threads = options.lanes.n_threads > 0 ? options.lanes.n_threads : usable_cores();
  return setup;
}

// Refuses hot neurons beyond those of a block.
void check_hot(const plan::NeuronPlan& plan, int n_neurons) {
  for (const plan::HotNeurons& hot : plan.hot) {
    if (int64_t{hot.n_hot} + hot.n_streamed <= n_neurons) continue;
    throw Error(fmt::format(
        "The plan has {} hot neurons and {} that are streamed, and a block of this model has {} "
        "neurons. It is a plan for another model: make one for this model with 'troika plan'.",
        hot.n_hot, hot.n_streamed, n_neurons));
  }
}

// Takes a plan that was made before.
void take_given_plan(const prepare::Options& options, const gguf::File& file,
                     const model::Blueprint& blueprint, const weights::Store& weights,
                     PhoneSetup* setup) {
  setup->plan =
      options.plan.exact
          ? *options.plan.exact
          : prepare::load_plan(options.plan.file, prepare::plan_identity(file, setup->identity()))
                .plan;
  setup->options.lanes.clear();
  for (const plan::PlannedLane& lane : setup->plan.lanes) {
    setup->options.lanes.push_back(lanes::processor_from_name(lane.kind));
  }
  prepare::apply_chunk_options(options, &setup->plan);
  apply_npu_stage(setup);
  if (options.memory.layouts) setup->plan.changes_layouts = true;  // lies over the plan
  apply_layouts(setup);
  apply_heads(blueprint, options.phone.has_values, setup);
  apply_caps(setup);
  if (!setup->plan.neurons) return;
  setup->neurons =
      neuron_shape(blueprint, weights, setup->model.stack().neurons.predictor_rank_share);
  check_hot(*setup->plan.neurons, setup->neurons->n_neurons);
  use_flash(setup);
}

}  // namespace

lanes::CostModel read_cost_model(const prepare::Options& options) {
  return read_stack_of(options, options.phone.stack);
}

std::unique_ptr<PhoneSetup> make_phone_setup(const prepare::Options& options,
                                             const gguf::File& file,
                                             const model::Blueprint& blueprint,
                                             const weights::Store& weights) {
  check_strict_npu(options);
  std::unique_ptr<PhoneSetup> setup = phone_of(options);
  if (!options.plan.file.empty() || options.plan.exact) {
    take_given_plan(options, file, blueprint, weights, setup.get());
    return setup;
  }
  apply_neurons(options, setup.get());
  plan::Plan& plan = setup->plan;
  plan.lanes.clear();
  for (const lanes::Processor processor : setup->options.lanes) {
    plan.lanes.push_back({{}, 1, lanes::processor_name(processor)});
  }
  plan.activations = options.activations;
  plan.kv_type = options.memory.kv_type;
  cache::check_head_length(plan.kv_type, blueprint.head_dim);
  plan.context = context_of(options, blueprint);
  plan.chunks_in_flight = kChunksInFlight;
  plan.short_rest = 0;
  plan_npu_stage(options, &plan);
  apply_npu_stage(setup.get());
  plan_heads(options, &plan);
  if (options.memory.layouts) {
    plan.changes_layouts = true;
    plan.order = plan::Order::kInOrder;
  }
  if (prepare::has_neurons(options)) {
    plan.order = plan::Order::kInOrder;
    plan.splits.at_norms = true;
    if (plan.chunks_in_flight > 1) plan.chunks_in_flight = 1;
  }
  prepare::apply_chunk_options(options, &plan);
  choose(blueprint, weights, options, setup.get());
  apply_heads(blueprint, options.phone.has_values, setup.get());
  apply_layouts(setup.get());
  apply_caps(setup.get());
  plan_neurons(options, blueprint, weights, setup.get());
  return setup;
}

}  // namespace troika::machines
