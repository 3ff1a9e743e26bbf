#include "prepare/memory.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <utility>

#include "base/error.h"
#include "base/system.h"
#include "lanes/host/attention/attention_lists.h"
#include "lanes/host/scratch.h"
#include "model/linear_inputs.h"
#include "prepare/device_memory.h"
#include "prepare/int8/outlier_channels.h"
#include "prepare/streaming/expert_stream.h"
#include "prepare/streaming/neurons/neuron_blocks.h"
#include "prepare/streaming/neurons/neuron_stream.h"
#include "prepare/streaming/weight_stream.h"

namespace troika::prepare {
namespace {

using plan::Owner;

constexpr int64_t kPageSlots = int64_t{1} << cache::KvCache::kPageSlotsLog2;

// Says whether so little is free that a model runs from the pages of its map where weights that
// take turns have no room. Elsewhere it is refused with advice.
bool is_scarce(const MemoryFigures& memory) {
  constexpr size_t kScarce = size_t{512} << 20;
  return memory.available_bytes < kScarce;
}

// Returns which of the free bytes other programs may come to need.
size_t bytes_for_others(size_t free) {
  constexpr size_t kMostForOthers = size_t{256} << 20;
  return std::min(kMostForOthers, free / 4);
}

plan::Int8Method method_of(const Options& options, const plan::Plan& plan) {
  return options.prompts.int8.value_or(plan.int8.method);
}

bool has_int8_prompts(const plan::Plan& plan) { return plan.prefill == plan::Prefill::kInt8; }

// Returns the bytes of packed copies, and those of the row scales of matrices that have no copy.
size_t packed_bytes(const Options& options, const model::Blueprint& blueprint,
                    const weights::Store& weights, const plan::Plan& plan) {
  if (!has_int8_prompts(plan)) return 0;
  size_t bytes = 0;
  std::vector<model::WeightId> others = weights::prompt_matrices(blueprint);
  std::vector<model::WeightId> packed = packed_matrices(options, blueprint, weights, plan);
  const bool is_grouped = method_of(options, plan) == plan::Int8Method::kGroup;
  if (is_grouped) packed = others;
  for (const model::WeightId id : packed) {
    const weights::Matrix& matrix = weights.matrix(id);
    bytes += is_grouped ? weights::grouped_bytes(matrix) : weights::int8_panel_bytes(matrix);
  }
  const std::vector<model::WeightId> experts = weights::expert_matrices(blueprint);
  others.insert(others.end(), experts.begin(), experts.end());
  for (const model::WeightId id : others) {
    if (std::find(packed.begin(), packed.end(), id) != packed.end()) continue;
    if (!weights::fits_int8(weights.matrix(id))) continue;
    bytes += static_cast<size_t>(weights.matrix(id).n_rows) * sizeof(float);
  }
  return bytes;
}

// Rows are read from the file in whole pages. The first and the last page hold other rows too.
constexpr size_t kReadPage = 4096;

// Enters blocks that change their layout. Their one copy takes the place of the file's blocks, and
// one block is there twice while it changes.
void enter_layouts(const model::Blueprint& blueprint, const weights::Store& weights,
                   plan::Ledger* ledger) {
  std::map<model::WeightId, int> layer_of;
  for (const model::Op& op : blueprint.ops) {
    if (op.weight != model::kNone) layer_of[op.weight] = op.layer;
  }
  size_t of_file = 0, copy = 0, block = 0;
  std::map<int, size_t> blocks;  // by layer; a mix of types makes some larger than others
  for (const model::WeightId id : weights::prompt_matrices(blueprint)) {
    const weights::Matrix& matrix = weights.matrix(id);
    const size_t rows = matrix.bytes();
    of_file += rows;
    const size_t panels = weights::fits_int8(matrix) ? weights::int8_panel_bytes(matrix) : rows;
    copy += std::max(rows, panels) + kReadPage;
    block = std::max(block, blocks[layer_of[id]] += std::max(rows, panels) + kReadPage);
  }
  ledger->set(Owner::kWeights, weights.total_bytes() - std::min(of_file, weights.total_bytes()));
  ledger->set(Owner::kLayouts, copy + block);
}

// Returns the bytes that outliers take as tasks of their own.
size_t shadow_bytes(const model::Blueprint& blueprint, const weights::Store& weights,
                    const plan::Plan& plan) {
  if (!plan.places_shadow() || !has_int8_prompts(plan)) return 0;
  size_t k = 0, most_rows = 0;
  for (const model::LinearInput& input : model::linear_inputs(blueprint)) {
    size_t n_rows = 0;
    for (const model::WeightId id : input.weights) {
      n_rows += static_cast<size_t>(weights.matrix(id).n_rows);
    }
    k = std::max(k, static_cast<size_t>(input.width));
    most_rows = std::max(most_rows, n_rows);
  }
  return static_cast<size_t>(plan.most_rows()) * static_cast<size_t>(plan.n_buffer_sets()) *
         (kernels::int8_token_bytes(k) + most_rows * sizeof(float) + sizeof(uint32_t));
}

// Returns a ledger of what the process may take, with nothing in it. A model larger than free
// memory is read while it runs, as under a limit: the system would drop pages of a map in the order
// in which they are needed next. A plan's budget is no promise that there is as much.
plan::Ledger empty_ledger(const Options& options, const model::Blueprint& blueprint,
                          const weights::Store& weights, const plan::Plan& plan,
                          size_t n_neuron_bytes, const MemoryFigures& memory) {
  using plan::LimitSource;
  if (options.memory.limit_bytes > 0) return plan::Ledger(options.memory.limit_bytes);
  const size_t others = bytes_for_others(memory.available_bytes);
  const size_t limit = memory.usable_bytes() - others;
  const auto source = memory.is_of_cgroup ? LimitSource::kCgroup : LimitSource::kMachine;
  if (plan.streamed_neurons) {
    const size_t planned = plan.streamed_neurons->budget_bytes;
    return planned <= limit ? plan::Ledger(planned, LimitSource::kPlan)
                            : plan::Ledger(limit, source);
  }
  const bool fits = weights.total_bytes() + n_neuron_bytes + others <= memory.available_bytes;
  if (fits || !may_stream(options, blueprint, plan)) return plan::Ledger();
  return plan::Ledger(limit, source);
}

// Returns the bytes of all weights but neurons, of `left` bytes, where gates of experts are read by
// route. What every token needs comes first. Then gates and neurons have the same share of what
// they could use: all gates first leave neurons too few places, and each token reads them again.
size_t bytes_with_gates(const RoutedExperts& gates, size_t left,
                        std::pair<size_t, size_t> neurons) {
  const auto& [least, most] = neurons;
  const StreamedWeights others = {gates.matrices};
  const size_t whole = WeightStream::whole_bytes(gates.blueprint, gates.weights, others);
  const size_t least_of_all = ExpertStream::least_bytes(gates);
  const size_t least_of_gates =
      least_of_all - WeightStream::least_bytes(gates.blueprint, gates.weights, others);
  const size_t first = whole + least_of_gates;
  if (left <= first + least) return std::max(left - std::min(left, least), least_of_all);
  const auto more = static_cast<double>(ExpertStream::whole_bytes(gates) - first);
  const double of_gates = more / (more + static_cast<double>(most - least));
  return first + static_cast<size_t>(of_gates * static_cast<double>(left - first - least));
}

int64_t n_hot_neurons_of(std::span<const model::GatedFfn> ffns, const weights::Store& weights,
                         const plan::Plan& plan) {
  if (!plan.ffn.hot.is_there()) return 0;
  const std::vector<int> counts = weights::hot_counts(ffns, plan.ffn.hot.percent, weights);
  return std::accumulate(counts.begin(), counts.end(), int64_t{0});
}

// Enters what weights and neurons have beside all else, where memory cannot hold all neurons. Other
// weights stay if they fit beside the least that neurons and prompts need; neurons get the rest.
void enter_neurons(const Options& options, const model::Blueprint& blueprint,
                   const weights::Store& weights, const plan::Plan& plan, plan::Ledger* ledger) {
  if (!ledger->is_limited()) return;
  const std::vector<model::GatedFfn> ffns = neuron_blocks(blueprint, plan);
  const size_t copies = ledger->bytes(Owner::kNeurons);
  ledger->set(Owner::kNeurons, 0);
  const size_t all_room = ledger->room_for(Owner::kWeights);
  ledger->set(Owner::kNeurons, copies);
  if (weights.total_bytes() + copies <= all_room) return;
  const size_t fixed = plan.ffn.predictor.bytes + hot_neuron_bytes(blueprint, weights, plan);
  const size_t room = all_room - std::min(all_room, fixed);
  const std::vector<model::WeightId> elsewhere = neuron_matrices(ffns);
  const size_t least = NeuronStream::least_bytes(ffns, weights);
  const size_t most =
      NeuronStream::most_bytes(ffns, weights, n_hot_neurons_of(ffns, weights, plan));
  const size_t others = WeightStream::whole_bytes(blueprint, weights, {elsewhere});
  const size_t least_of_others = WeightStream::least_bytes(blueprint, weights, {elsewhere});
  const size_t for_prompts = prompt_bytes(blueprint, weights, plan);
  const size_t slack = ledger->limit_bytes() / 64;  // estimates may be too small by this
  const size_t left = room - std::min(room, slack + for_prompts);
  const size_t for_others = left - std::min(left, least);
  size_t kept = std::min(others, std::max(for_others, least_of_others));
  if (left < others + most && reads_gates(options, blueprint, weights, plan, others - 1)) {
    kept = std::min(others,
                    bytes_with_gates(gates_of_experts(blueprint, weights), left, {least, most}));
  }
  ledger->set(Owner::kWeights, kept + for_prompts);
  ledger->set(Owner::kNeurons,
              fixed + std::min(most, std::max(left - std::min(left, kept), least)));
}

// Says whether a plan gives a lane some of the model's own weights.
bool has_weights(const plan::Plan& plan, int lane) {
  const auto is_on = [lane](const auto& part) { return part.lane == lane; };
  const auto has_share = [&](const plan::Shares& shares) {
    return std::ranges::any_of(shares, is_on);
  };
  return lane == 0 || std::ranges::any_of(plan.placements, is_on) ||
         std::ranges::any_of(plan.cuts,
                             [&](const plan::TensorCut& cut) {
                               return has_share(cut.rows) || has_share(cut.tokens) ||
                                      has_share(cut.heads);
                             }) ||
         std::ranges::any_of(
             plan.lengths, [&](const plan::LengthCut& length) { return has_share(length.tokens); });
}

// Says whether several lanes have some tokens each of feed-forward parts that are computed by
// neuron. They would ask for neurons at once, and a stream of neurons answers one batch after the
// other.
bool divides_neuron_tokens(const plan::Plan& plan) {
  if (!plan.ffn.is_by_neuron()) return false;
  const auto has_lanes = [](const plan::Shares& tokens) {
    return std::ranges::any_of(
        tokens, [&](const plan::LaneShare& share) { return share.lane != tokens.front().lane; });
  };
  return std::ranges::any_of(plan.body_shapes(), [&](plan::Shape shape) {
    // Prompts that are not computed as steps read whole matrices.
    if (shape.phase == plan::Phase::kPrompt && plan.prefill != plan::Prefill::kSame) return false;
    const plan::LengthCut* const length = plan.length_of(shape);
    return (length != nullptr && has_lanes(length->tokens)) ||
           std::ranges::any_of(plan.cuts, [&](const plan::TensorCut& cut) {
             return cut.holds_for("ffn", shape) && has_lanes(cut.tokens);
           });
  });
}

// Says whether weights may take turns in memory: all lanes that read them are of cores, which find
// them where they lie, and come to the blocks in their order. Hot neurons stay in memory, so that
// any lane may have them.
bool can_take_turns(const model::Blueprint& blueprint, const plan::Plan& plan) {
  const auto n_lanes = static_cast<int>(plan.lanes.size());
  for (int i = 0; i < n_lanes; ++i) {
    const bool is_device = plan.lanes[static_cast<size_t>(i)].is_device();
    if (is_device && has_weights(plan, i)) return false;
  }
  if (n_lanes == 1) return true;
  // Reads of experts are asked for by the one lane that knows the routes, and outliers are tasks
  // that wait for no block.
  return blueprint.n_experts == 0 && plan.n_buffer_sets() == 1 && !plan.places_shadow() &&
         !plan.attention.has_head_lanes() && !divides_neuron_tokens(plan);
}

// Returns what to change so that weights take turns in memory, as an advice. It is empty where they
// may already, or where more is in the way.
std::string advice_for_turns(const Options& options, const model::Blueprint& blueprint,
                             const plan::Plan& plan) {
  plan::Plan other = plan;
  std::string advice;
  if (divides_neuron_tokens(plan)) {
    std::erase_if(other.cuts, [](const plan::TensorCut& cut) { return !cut.tokens.empty(); });
    other.lengths.clear();
    advice =
        "no tokens of 'ffn' divided by ‹cut› or ‹length›, nor by the plan (‹no-cuts›; neurons are "
        "then read)";
  }
  if (other.n_buffer_sets() > 1) {
    other.chunks_in_flight = 1;
    advice += advice.empty() ? "" : ", ";
    advice += "one chunk ‹in-flight› (weights then take turns)";
  }
  const bool helps = !may_stream(options, blueprint, plan) && may_stream(options, blueprint, other);
  return helps ? advice : "";
}

// Returns what weights have beside all else: all of them, or the least that streaming needs.
size_t kept_weight_bytes(const Options& options, const model::Blueprint& blueprint,
                         const weights::Store& weights, const plan::Plan& plan,
                         const plan::Ledger& ledger) {
  const size_t all = weights.total_bytes(), room = ledger.room_for(Owner::kWeights);
  if (!ledger.is_limited() || room >= all) return all;
  const size_t slack = ledger.limit_bytes() / 64;  // estimates may be too small by this
  const size_t left = room - std::min(room, slack);
  if (reads_experts(options, blueprint, plan)) {
    const size_t least = ExpertStream::least_bytes(all_of_experts(blueprint, weights));
    return std::min(all, std::max(left, least));
  }
  const WeightParts parts = weight_parts(blueprint, weights, {});
  return std::min({all, parts.whole_bytes(), std::max(left, least_turns(parts).bytes())});
}

}  // namespace

bool may_stream(const Options& options, const model::Blueprint& blueprint, const plan::Plan& plan) {
  const bool has_rows_of_file =
      options.memory.layouts.value_or(Layouts::kBlocks) == Layouts::kBlocks;
  return is_here(options) && options.memory.load == Load::kAuto && has_rows_of_file &&
         can_take_turns(blueprint, plan) &&
         (!has_int8_prompts(plan) || (plan.packed_bytes == 0 && !needs_copies(options, plan)));
}

size_t prompt_bytes(const model::Blueprint& blueprint, const weights::Store& weights,
                    const plan::Plan& plan) {
  const std::vector<model::WeightId> ids = neuron_matrices(neuron_blocks(blueprint, plan));
  if (ids.empty() || plan.prefill == plan::Prefill::kSame) return 0;
  return WeightStream::least_bytes(blueprint, weights, {{}, ids});
}

bool lacks_room_for_prompts(const Options& options, const model::Blueprint& blueprint,
                            const weights::Store& weights, const plan::Plan& plan,
                            const MemoryFigures& memory) {
  constexpr size_t kLeastOfLimit = 8;
  const size_t bytes = prompt_bytes(blueprint, weights, plan);
  if (bytes == 0) return false;
  const plan::Ledger ledger = expected_memory(options, blueprint, weights, plan, memory);
  if (!ledger.is_limited() || !are_streamed(blueprint, weights, plan, ledger)) return false;
  return bytes > ledger.limit_bytes() / kLeastOfLimit ||
         ledger.total_bytes() > ledger.limit_bytes();
}

bool are_streamed(const model::Blueprint& blueprint, const weights::Store& weights,
                  const plan::Plan& plan, const plan::Ledger& ledger) {
  if (!plan.ffn.is_by_neuron()) return ledger.bytes(Owner::kWeights) < weights.total_bytes();
  // Neurons that are all in memory have nothing but a copy of their columns.
  return ledger.bytes(Owner::kNeurons) != neuron_bytes(blueprint, weights, plan);
}

bool has_room(const Options& options, const model::Blueprint& blueprint,
              const weights::Store& weights, const plan::Plan& plan, const MemoryFigures& memory) {
  plan::Plan asked = plan;
  asked.ffn.form = options.ffn.form.value_or(asked.ffn.form);
  asked.order = options.prompts.order.value_or(asked.order);
  const int n_asked = options.prompts.chunks_in_flight;
  if (n_asked > 0) asked.chunks_in_flight = n_asked;
  // Where nobody asked for more, one chunk is in flight if that lets weights take turns.
  plan::Plan one = asked;
  if (options.memory.context > 0) one.context = options.memory.context;
  if (n_asked == 0) one.chunks_in_flight = 1;
  if (may_stream(options, blueprint, one)) return true;
  // A context, and packed copies of which not all were asked for, are made smaller where memory is
  // short.
  asked.context =
      options.memory.context > 0 ? options.memory.context : std::min(asked.context, kUsefulContext);
  if (options.memory.layouts != Layouts::kBoth) asked.packed_bytes = 0;
  const plan::Ledger ledger = expected_memory(options, blueprint, weights, asked, memory);
  if (ledger.is_limited()) return ledger.total_bytes() <= ledger.limit_bytes();
  const size_t free = memory.available_bytes;
  return is_scarce(memory) || weights.total_bytes() + bytes_for_others(free) <= free;
}

bool reads_experts(const Options& options, const model::Blueprint& blueprint,
                   const plan::Plan& plan) {
  // Prompts in int8 unpack experts with the scales of all rows, and need them in one place.
  return blueprint.n_experts > 0 && options.memory.expert_reads != ExpertReads::kInOrder &&
         !plan.ffn.is_by_neuron() && !has_int8_prompts(plan);
}

bool reads_gates(const Options& options, const model::Blueprint& blueprint,
                 const weights::Store& weights, const plan::Plan& plan, size_t weight_bytes) {
  const std::vector<model::GatedFfn> ffns = neuron_blocks(blueprint, plan);
  if (ffns.empty() || !ffns.front().is_expert() || has_int8_prompts(plan)) return false;
  // A predictor names rows of a gate when it is too late to read the others.
  if (options.memory.expert_reads == ExpertReads::kInOrder || plan.ffn.predictor.is_there()) {
    return false;
  }
  const std::vector<model::WeightId> by_neuron = neuron_matrices(ffns);
  // Where there is room for all gates, they are read once, at the start.
  const size_t whole = WeightStream::whole_bytes(blueprint, weights, {by_neuron});
  return weight_bytes < whole &&
         ExpertStream::least_bytes(gates_of_experts(blueprint, weights)) < whole;
}

size_t MemoryFigures::usable_bytes() const {
  const size_t taken = program_bytes + model_bytes;
  return taken + std::min(available_bytes, std::numeric_limits<size_t>::max() - taken);
}

MemoryFigures MemoryFigures::here() {
  return {memory_limit_bytes(), available_memory_bytes(), resident_anonymous_bytes(), 0,
          is_memory_left_by_cgroup()};
}

cache::KvShape kv_shape(const plan::Plan& plan, const model::Blueprint& blueprint) {
  return {blueprint.n_layers, blueprint.n_kv_heads, blueprint.head_dim, plan.kv_type, plan.context};
}

bool needs_copies(const Options& options, const plan::Plan& plan) {
  const plan::Int8Method method = method_of(options, plan);
  const bool is_plain =
      options.prompts.weight_scales.value_or(plan.int8.weight_scales) == plan::WeightScales::kRow;
  return !is_plain || method == plan::Int8Method::kSmooth || method == plan::Int8Method::kGroup;
}

std::vector<model::WeightId> packed_matrices(const Options& options,
                                             const model::Blueprint& blueprint,
                                             const weights::Store& weights,
                                             const plan::Plan& plan) {
  if (!has_int8_prompts(plan) || options.memory.layouts == Layouts::kSwitch) return {};
  const uint64_t most =
      needs_copies(options, plan) ? std::numeric_limits<uint64_t>::max() : plan.packed_bytes;
  return weights.packable(weights::prompt_matrices(blueprint), most);
}

namespace {

// Enters everything but the context and weights that take turns.
void enter_program(const Options& options, const model::Blueprint& blueprint,
                   const weights::Store& weights, const plan::Plan& plan,
                   const MemoryFigures& memory, plan::Ledger* ledger) {
  ledger->advise(advice_for_turns(options, blueprint, plan));
  ledger->set(Owner::kProgram, memory.program_bytes);
  ledger->set(Owner::kModel, memory.model_bytes);
  ledger->set(Owner::kWeights, weights.total_bytes());
  if (options.memory.layouts == Layouts::kSwitch) enter_layouts(blueprint, weights, ledger);
  ledger->set(Owner::kPacked, packed_bytes(options, blueprint, weights, plan));
  ledger->set(Owner::kNeurons, neuron_bytes(blueprint, weights, plan));
  ledger->set(Owner::kChannels, resident_channel_bytes(options, blueprint, weights, plan));
  ledger->set(Owner::kBuffers,
              lanes::Buffers::bytes_for(blueprint, plan.most_rows(), plan.output_shapes.back(),
                                        plan.n_buffer_sets()) +
                  shadow_bytes(blueprint, weights, plan) +
                  hot_buffer_bytes(blueprint, weights, plan));
  const bool guesses_experts = options.memory.expert_reads == ExpertReads::kGuessed &&
                               reads_experts(options, blueprint, plan) &&
                               may_stream(options, blueprint, plan);
  size_t scratch = 0;
  for (size_t i = 0; i < plan.lanes.size(); ++i) {
    scratch += plan.lanes[i].is_device()
                   ? device_bytes(blueprint, weights, plan, static_cast<int>(i))
                   : lanes::host_scratch_bytes(blueprint, plan.lanes[i], plan, guesses_experts);
  }
  ledger->set(Owner::kLanes, scratch);
}

// Enters what weights have that may take turns, beside the least context that is useful. Returns
// false where the least of them finds no room.
bool enter_turns(const Options& options, const model::Blueprint& blueprint,
                 const weights::Store& weights, const plan::Plan& plan, plan::Ledger* ledger) {
  const int context =
      options.memory.context > 0 ? options.memory.context : std::min(plan.context, kUsefulContext);
  const ContextBytes least = context_bytes(blueprint, plan, context);
  enter_context(least, ledger);
  if (plan.ffn.is_by_neuron()) {
    enter_neurons(options, blueprint, weights, plan, ledger);
  } else {
    ledger->set(Owner::kWeights, kept_weight_bytes(options, blueprint, weights, plan, *ledger));
  }
  const bool fits = ledger->total_bytes() <= ledger->limit_bytes();
  take_context_out(least, ledger);
  return fits;
}

// Says whether somebody, or the plan, says what the process may take.
bool has_budget(const Options& options, const plan::Plan& plan) {
  return options.memory.limit_bytes > 0 || plan.streamed_neurons.has_value();
}

}  // namespace

plan::Ledger expected_memory(const Options& options, const model::Blueprint& blueprint,
                             const weights::Store& weights, const plan::Plan& plan,
                             const MemoryFigures& memory) {
  plan::Ledger ledger = empty_ledger(options, blueprint, weights, plan,
                                     neuron_bytes(blueprint, weights, plan), memory);
  enter_program(options, blueprint, weights, plan, memory, &ledger);
  if (may_stream(options, blueprint, plan) &&
      !enter_turns(options, blueprint, weights, plan, &ledger) && !has_budget(options, plan) &&
      is_scarce(memory)) {
    ledger = plan::Ledger();
    enter_program(options, blueprint, weights, plan, memory, &ledger);
    (void)enter_turns(options, blueprint, weights, plan, &ledger);
  }
  enter_context(context_bytes(blueprint, plan, plan.context), &ledger);
  return ledger;
}

ContextBytes context_bytes(const model::Blueprint& blueprint, const plan::Plan& plan,
                           int n_tokens) {
  ContextBytes bytes;
  bytes.cache = cache_bytes(kv_shape(plan, blueprint), n_tokens);
  for (size_t lane = 0; lane < plan.lanes.size(); ++lane) {
    bytes.lists += lanes::attention_list_bytes(blueprint, plan, static_cast<int>(lane),
                                               static_cast<size_t>(n_tokens)) +
                   device_list_bytes(plan.lanes[lane], static_cast<size_t>(n_tokens));
  }
  if (!plan.attention.has_head_lanes()) return bytes;
  plan::Plan of_context = plan;  // a short one needs fewer sets of buffers
  of_context.context = n_tokens;
  bytes.heads = lanes::HeadAreas::bytes_for(blueprint.n_heads, plan.most_rows(), n_tokens,
                                            of_context.n_buffer_sets());
  return bytes;
}

void enter_context(const ContextBytes& bytes, plan::Ledger* ledger) {
  ledger->set(Owner::kCache, bytes.cache);
  ledger->set(Owner::kHeads, bytes.heads);
  ledger->set(Owner::kLanes, ledger->bytes(Owner::kLanes) + bytes.lists);
}

void take_context_out(const ContextBytes& bytes, plan::Ledger* ledger) {
  ledger->set(Owner::kCache, 0);
  ledger->set(Owner::kHeads, 0);
  ledger->set(Owner::kLanes, ledger->bytes(Owner::kLanes) - bytes.lists);
}

size_t cache_bytes(const cache::KvShape& shape, int64_t n_slots) {
  const int64_t n_pages = (n_slots + kPageSlots - 1) / kPageSlots;
  return static_cast<size_t>(n_pages * kPageSlots) * shape.bytes_per_token();
}

int64_t slots_within(const cache::KvShape& shape, size_t bytes) {
  const size_t page_bytes = static_cast<size_t>(kPageSlots) * shape.bytes_per_token();
  return static_cast<int64_t>(bytes / page_bytes) * kPageSlots;
}

int64_t most_slots(const plan::Ledger& ledger, const cache::KvShape& shape, int n_answers,
                   size_t available_bytes) {
  const size_t room = ledger.is_limited() ? ledger.room_for(Owner::kCache) : available_bytes / 2;
  const int64_t one = shape.limit();
  return std::max(one, std::min(one * n_answers, slots_within(shape, room)));
}

}  // namespace troika::prepare
