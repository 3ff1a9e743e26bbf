#include "prepare/plan/make_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "base/bytes_text.h"
#include "base/cpu_features.h"
#include "base/error.h"
#include "base/system.h"
#include "kernels/choose.h"
#include "prepare/lane_limits.h"

namespace troika::prepare {
namespace {

// Is enough for long conversations; who needs more asks for it. Memory is taken when it is used.
constexpr int kSensibleContext = 8192;
// Leaves room for the program itself, its buffers, and whatever else runs.
constexpr size_t kReserveBytes = 256u << 20;

bool can_shrink(const plan::Plan& plan, const model::Blueprint& blueprint) {
  return plan.kv_type != tensor::Type::kQ8_0 &&
         cache::holds_heads(tensor::Type::kQ8_0, blueprint.head_dim);
}

// Returns the longest context that is chosen unasked.
int most_sensible_tokens(const model::Blueprint& blueprint) {
  int64_t sensible = std::min(blueprint.trained_context, kSensibleContext);
  for (const model::Rope& rope : blueprint.ropes) {
    // Beyond it positions are rotated otherwise; that must not depend on how much memory is free.
    if (!rope.long_divisors.empty()) sensible = std::min<int64_t>(sensible, rope.original_context);
  }
  return static_cast<int>(sensible);
}

// Returns how much is free, and of what: "300.0 MB are free".
std::string free_text(const MemoryFigures& memory) {
  return bytes_text(memory.available_bytes) +
         (memory.is_of_cgroup ? " are free within the limit of the cgroup" : " are free");
}

const char* free_advice(const MemoryFigures& memory) {
  return memory.is_of_cgroup ? "raise the limit of the cgroup" : "end other programs";
}

[[noreturn]] void throw_no_memory(size_t bytes_of_one, const MemoryFigures& memory) {
  throw Error(fmt::format(
      "There is no memory for a context of even one token, which needs {} bytes: {}. Use a smaller "
      "model, or {}.",
      bytes_of_one, free_text(memory), free_advice(memory)));
}

// Returns the most tokens whose bytes are no more than `room`. REQUIRES: bytes_of() never falls.
template <typename BytesOf>
int most_tokens(size_t room, const BytesOf& bytes_of) {
  int fits = 0;
  int64_t too_many = int64_t{std::numeric_limits<int>::max()} + 1;
  while (too_many - fits > 1) {
    const auto middle = static_cast<int>(fits + (too_many - fits) / 2);
    if (bytes_of(middle) <= room) {
      fits = middle;
    } else {
      too_many = middle;
    }
  }
  return fits;
}

// Returns how many bytes are left for a context beside the weights, if there is no limit.
size_t room_in_memory(const plan::Ledger& ledger, const MemoryFigures& memory) {
  using plan::Owner;
  size_t needed = 0, others = 0;
  for (const Owner owner :
       {Owner::kWeights, Owner::kLayouts, Owner::kPacked, Owner::kNeurons, Owner::kChannels}) {
    needed += ledger.bytes(owner);
  }
  for (const Owner owner : {Owner::kProgram, Owner::kModel, Owner::kBuffers, Owner::kLanes}) {
    others += ledger.bytes(owner);
  }
  needed += std::max(kReserveBytes, others);
  const size_t left =
      memory.limit_bytes > needed ? memory.limit_bytes - needed : memory.limit_bytes / 16;
  return std::min(left, memory.available_bytes);
}

// Chooses a context. The ledger is one without a context.
class ContextChoice {
 public:
  ContextChoice(const Options& options, const model::Blueprint& blueprint, const plan::Plan& plan,
                const plan::Ledger& ledger, const MemoryFigures& memory)
      : asked_(options.memory.context),
        blueprint_(blueprint),
        plan_(plan),
        ledger_(ledger),
        memory_(memory) {}

  int tokens() const { return ledger_.is_limited() ? within_limit() : in_memory(); }

 private:
  size_t bytes_of(int n_tokens) const { return context_bytes(blueprint_, plan_, n_tokens).total(); }

  // Returns a context for a little less than the limit leaves, because estimates may be too small.
  int within_limit() const {
    const size_t room = ledger_.room_for(plan::Owner::kCache);
    const auto fitting_in = [&](size_t bytes) {
      return most_tokens(bytes, [&](int n) { return bytes_of(n); });
    };
    const int in_limit = fitting_in(room), in_free = fitting_in(memory_.available_bytes);
    const int fitting = std::min(in_limit, in_free);
    plan::Ledger least = ledger_;
    enter_context(context_bytes(blueprint_, plan_, std::max(asked_, 1)), &least);
    if (asked_ == 0 || in_limit == 0) least.check();
    if (fitting == 0) throw_no_memory(bytes_of(1), memory_);
    if (asked_ > in_limit && in_limit <= in_free) {
      refuse(fitting,
             fmt::format("{} leaves room for {} tokens beside everything else; most is for {}",
                         ledger_.limit_text(), fitting, ledger_.largest_text()),
             ledger_.more_advice());
    }
    if (asked_ > fitting) {
      refuse(fitting, fmt::format("{}, room for {} tokens", free_text(memory_), fitting),
             free_advice(memory_));
    }
    if (asked_ > 0) return asked_;
    const size_t slack = std::min(room / 2, ledger_.limit_bytes() / 64);
    // A page of the cache is taken whole.
    const int page = std::min(fitting, fitting_in(bytes_of(1)));
    const int careful = std::min(fitting_in(room - slack), in_free);
    return std::min(most_sensible_tokens(blueprint_), std::max(careful, page));
  }

  // Without a limit, keys and values count by the token.
  int in_memory() const {
    const size_t per_token = kv_shape(plan_, blueprint_).bytes_per_token();
    const auto bytes = [&](int n) {
      const ContextBytes of_context = context_bytes(blueprint_, plan_, n);
      return per_token * static_cast<size_t>(n) + of_context.heads + of_context.lists;
    };
    const int fitting = most_tokens(room_in_memory(ledger_, memory_), bytes);
    if (fitting < 1) throw_no_memory(bytes(1), memory_);
    if (asked_ > fitting) {
      refuse(fitting, fmt::format("memory allows {} tokens beside the model", fitting),
             free_advice(memory_));
    }
    if (asked_ > 0) return asked_;
    // Half of what fits is taken, so that other programs have room.
    const int wanted = std::max(fitting / 2, std::min(fitting, kUsefulContext));
    return std::min(wanted, most_sensible_tokens(blueprint_));
  }

  // Refuses the context that was asked for, in the words of what has room for no more.
  [[noreturn]] void refuse(int fitting, const std::string& room, const char* more_room) const {
    const ContextBytes bytes = context_bytes(blueprint_, plan_, asked_);
    std::string needs = bytes_text(bytes.cache) + " for keys and values";
    std::string advice = can_shrink(plan_, blueprint_) ? ", or ‹kv› q8_0 for smaller ones" : "";
    if (bytes.heads > 0) {
      needs += fmt::format(" and {} for scores of heads", bytes_text(bytes.heads + bytes.lists));
      advice += ", or leave ‹attention-lanes› out";
    }
    throw Error(
        fmt::format("A context of {} tokens needs {}, and {}. Use ‹context› {} or less{}, or {}.",
                    asked_, needs, room, fitting, advice, more_room));
  }

  int asked_;  // counts tokens; 0: none was asked for
  const model::Blueprint& blueprint_;
  const plan::Plan& plan_;
  const plan::Ledger& ledger_;
  const MemoryFigures& memory_;
};

uint64_t most_packed_bytes(const Options& options) {
  return options.memory.layouts == Layouts::kBoth ? std::numeric_limits<int64_t>::max()
                                                  : options.memory.packed_bytes;
}

// Decides how prompts are computed.
void choose_prefill(const Options& options, tensor::Type type, plan::Plan* plan) {
  std::optional<plan::Prefill> asked = options.prompts.prefill;
  if (!asked && !options.prompts.int8) {
    plan->prefill = safe_prefill(options.activations, options.kernels, type);
    plan->prefill_reason = plan->prefill == plan::Prefill::kF32
                               ? "float activations were asked for"
                               : "auto: safe for a model whose activations nobody has measured";
    return;
  }
  plan->prefill = asked.value_or(plan::Prefill::kInt8);
  if (plan->prefill != plan::Prefill::kInt8) return;
  plan->packed_bytes = most_packed_bytes(options);
}

// Decides how heads go over lanes of this machine, and which scales their estimate has.
void choose_heads(const Options& options, plan::Plan* plan) {
  plan::PromptAttention& attention = plan->attention;
  const PromptChoice& prompts = options.prompts;
  if (attention.form != plan::AttentionForm::kQuery) {  // a plan may have these for another form
    attention.n_buckets = 0;
    attention.head_lanes.clear();
    return;
  }
  if (!is_here(options)) return;
  if (attention.head_scales.empty()) attention.head_scales = prompts.head_scales;
  if (attention.head_shares.empty() && !prompts.attention_share && !prompts.head_shares.empty()) {
    attention.head_shares = prompts.head_shares;
    attention.share = plan::mean_share(prompts.head_shares);
  }
  if (options.lanes.is_strict_npu && attention.n_buckets == 0) {
    attention.n_buckets = static_cast<int>(attention::kScaleBuckets);
  }
  attention.n_buckets = prompts.attention_buckets.value_or(attention.n_buckets);
  attention.head_stage = prompts.attention_stage.value_or(attention.head_stage);
  if (prompts.attention_lanes.empty()) return;
  attention.head_lanes = prompts.attention_lanes;
  // The rule precedes all others for attention. Generation attends fully on the same lane.
  plan->placements.insert(plan->placements.begin(),
                          {"attention", 0, prompts.attention_lanes.back()});
}

// Decides how prompts attend. What was asked for counts before what the plan says.
void choose_attention(const Options& options, const model::Blueprint& blueprint, plan::Plan* plan) {
  const PromptChoice& prompts = options.prompts;
  plan::PromptAttention& attention = plan->attention;
  attention.form = prompts.attention.value_or(attention.form);
  if (prompts.attention_share && prompts.attention_above) {
    throw UsageError(
        "‹attention-share› keeps the best positions whatever they weigh, ‹attention-above› those "
        "that weigh enough, however many. Leave one of them out.");
  }
  if (prompts.attention_share) {
    attention.share = *prompts.attention_share / 100;
    attention.above = 0.0;
    attention.head_shares.clear();  // all heads have the same share
    attention.reason.clear();
  }
  if (prompts.attention_above) {
    attention.above = *prompts.attention_above;
    attention.reason.clear();
    if (attention.above == 0.0) {
      throw UsageError(
          "‹attention-above› 0 keeps everything, which is ‹attention› full. Name a number above "
          "0.");
    }
  }
  attention.from = prompts.attention_from.value_or(attention.from);
  choose_heads(options, plan);
  plan::check_head_shares(attention, blueprint.n_layers, blueprint.n_heads);
  plan::check_attention(*plan);
  // A plan to begin with may have tiles that are no longer asked for. Nothing else is computed in
  // groups.
  plan->reuse_granule = attention.goes_by_tile() ? plan::kAttentionTile : 1;
}

[[noreturn]] void refuse_lane_without_hot() {
  throw UsageError(
      "‹neuron-hot-lane› says which lane computes hot neurons, and there are none. Use ‹ffn› "
      "by-neuron with ‹neuron-hot› too, or leave it out.");
}

// Decides which neurons are computed densely as tasks of their own, and on which lane.
void choose_hot(const FfnChoice& ffn, plan::Plan* plan) {
  plan::FfnHot& hot = plan->ffn.hot;
  if (!plan->ffn.is_by_neuron()) {
    if (ffn.hot_percent.value_or(0) > 0) {
      throw UsageError(
          "‹neuron-hot› computes hot neurons densely beside others that go by neuron, and ‹ffn› "
          "by-output computes all densely. Use ‹ffn› by-neuron, or leave it out.");
    }
    if (ffn.hot_lane) refuse_lane_without_hot();
    hot = {};
    return;
  }
  const int planned = ffn.hot ? static_cast<int>(plan->lanes.size()) - 1 : hot.lane;
  hot = ffn.hot.value_or(hot);
  if (hot.is_there()) hot.lane = ffn.hot_lane.value_or(planned);
  if (ffn.hot_lane && !hot.is_there()) refuse_lane_without_hot();
}

void choose_ffn(const FfnChoice& ffn, plan::Plan* plan) {
  plan->ffn.form = ffn.form.value_or(plan->ffn.form);
  choose_hot(ffn, plan);
  if (!plan->ffn.is_by_neuron()) plan->ffn.thresholds.clear();
  if (plan->ffn.form != plan::FfnForm::kByNeuron) {
    plan->ffn.predictor = {};
  } else if (ffn.predictor && ffn.may_predict) {
    plan->ffn.gates = plan::gates_for(ffn.gates, plan->ffn);
    plan->ffn.predictor = *ffn.predictor;
  }
  if (ffn.planned) plan->streamed_neurons = ffn.planned;
  // What was planned for one form says nothing of another.
  if (plan->streamed_neurons && plan->streamed_neurons->form != plan->ffn.form) {
    plan->streamed_neurons.reset();
  }
  plan::check_ffn(*plan);
  plan::check_streamed_neurons(*plan);
}

// Says where int8 weights come from.
void explain_prefill(const Options& options, const model::Blueprint& blueprint,
                     const weights::Store& weights, plan::Plan* plan) {
  if (plan->prefill != plan::Prefill::kInt8) return;
  if (options.memory.layouts == Layouts::kSwitch) {
    plan->prefill_reason = "packed, until the blocks change their layout";
    return;
  }
  const std::vector<model::WeightId> matrices = weights::prompt_matrices(blueprint);
  const std::vector<model::WeightId> packed = packed_matrices(options, blueprint, weights, *plan);
  plan->prefill_reason = packed.empty()                    ? "unpacked for each chunk"
                         : packed.size() < matrices.size() ? "in part unpacked for each chunk"
                                                           : "from packed copies";
}

// Decides what does not depend on memory.
plan::Plan begin_plan(const Options& options, const weights::Store& weights) {
  if (options.plan.base) {
    plan::Plan plan = *options.plan.base;
    if (options.memory.layouts) plan.packed_bytes = most_packed_bytes(options);
    if (options.prompts.int8) {
      plan.prefill = plan::Prefill::kInt8;
      plan.prefill_reason = "int8 was asked for";
    }
    return plan;
  }
  plan::Plan plan;
  plan.lanes = choose_lanes(options.lanes);
  plan::limit_lanes(options.lanes.limits, &plan.lanes);
  plan::cap_lanes(options.lanes.caps, &plan.lanes);
  plan::check_placements(options.lanes.placements, plan.lanes.size());
  plan.placements = options.lanes.placements;
  plan.activations = options.activations;
  plan.kv_type = options.memory.kv_type;
  choose_prefill(options, weights.main_type(), &plan);
  return plan;
}

// Limits packed copies to what a useful context, or the one that is asked for, leaves of the limit.
void limit_copies(const Options& options, const model::Blueprint& blueprint,
                  const weights::Store& weights, const MemoryFigures& memory, plan::Plan* plan) {
  if (options.memory.limit_bytes == 0 || plan->packed_bytes == 0 || needs_copies(options, *plan))
    return;
  if (options.memory.layouts == Layouts::kBoth) return;  // asks for all of them
  plan::Plan useful = *plan;
  if (options.memory.context == 0) {
    useful.context = std::min(most_sensible_tokens(blueprint), kUsefulContext);
  }
  const plan::Ledger ledger = expected_memory(options, blueprint, weights, useful, memory);
  plan->packed_bytes =
      std::min<uint64_t>(plan->packed_bytes, ledger.room_for(plan::Owner::kPacked));
}

// Takes over cuts and lengths. What was asked for counts before what the plan says.
void apply_cuts(const LaneChoice& lanes, plan::Plan* plan) {
  if (!lanes.has_cuts) {
    plan->cuts.clear();
    plan->lengths.clear();
  }
  plan->cuts.insert(plan->cuts.begin(), lanes.cuts.begin(), lanes.cuts.end());
  for (const plan::LengthCut& length : lanes.lengths) {
    std::erase_if(plan->lengths,
                  [&](const plan::LengthCut& other) { return other.n_tokens == length.n_tokens; });
    plan->lengths.push_back(length);
  }
  std::sort(
      plan->lengths.begin(), plan->lengths.end(),
      [](const plan::LengthCut& a, const plan::LengthCut& b) { return a.n_tokens < b.n_tokens; });
  plan::check_cuts(*plan);
}

// Leaves out prompt shapes beyond a context, and makes one that was asked for no longer than that:
// buffers have room for its rows. Steps of several sequences may have more rows.
void leave_out_beyond(int context, int asked, std::vector<int>* shapes) {
  while (shapes->size() > 1 && (*shapes)[shapes->size() - 2] >= context) shapes->pop_back();
  if (shapes->back() != asked) return;
  const int whole_tiles =
      (context + plan::kAttentionTile - 1) / plan::kAttentionTile * plan::kAttentionTile;
  shapes->back() = std::min(asked, whole_tiles);
}

// Returns the context that was asked for, or the longest that is chosen unasked.
int longest_context(const Options& options, const model::Blueprint& blueprint) {
  return options.memory.context > 0 ? options.memory.context : most_sensible_tokens(blueprint);
}

// Returns the plan with the context that was asked for, or one that is worth having, and without
// shapes that it will not keep.
plan::Plan with_useful_context(const Options& options, const model::Blueprint& blueprint,
                               plan::Plan plan) {
  const int longest = longest_context(options, blueprint);
  plan.context = options.memory.context > 0 ? longest : std::min(longest, kUsefulContext);
  leave_out_beyond(longest, options.prompts.chunk, &plan.prompt_shapes);
  return plan;
}

// Says whether prompts of a plan by neuron read whole matrices that memory has no room for.
bool reads_too_much(const Options& options, const model::Blueprint& blueprint,
                    const weights::Store& weights, const MemoryFigures& memory,
                    const plan::Plan& plan) {
  return lacks_room_for_prompts(options, blueprint, weights,
                                with_useful_context(options, blueprint, plan), memory);
}

// Where steps read neurons, lets prompts do so too if memory has no room for whole matrices, unless
// another way was asked for.
void take_neurons_for_prompts(const Options& options, const model::Blueprint& blueprint,
                              const weights::Store& weights, const MemoryFigures& memory,
                              plan::Plan* plan) {
  if (options.plan.base || options.prompts.prefill || options.prompts.int8) return;
  if (!reads_too_much(options, blueprint, weights, memory, *plan)) return;
  plan::Plan same = *plan;
  same.prefill = plan::Prefill::kSame;
  // Lanes that divide the tokens of prompts have to share whole matrices.
  if (!may_stream(options, blueprint, same)) return;
  plan->prefill = same.prefill;
  plan->prefill_reason = "by neuron too, as memory has too little room for whole matrices";
}

// Where memory has too little room for weights that several lanes share, lets one chunk of a prompt
// be in flight, unless another number was asked for: two would be at different blocks, and blocks
// could not take turns.
void let_lanes_take_turns(const Options& options, const model::Blueprint& blueprint,
                          const weights::Store& weights, const MemoryFigures& memory,
                          plan::Plan* plan) {
  if (plan->lanes.size() == 1 || options.prompts.chunks_in_flight > 0) return;
  const plan::Plan several = with_useful_context(options, blueprint, *plan);
  plan::Plan one = several;
  one.chunks_in_flight = 1;
  if (!may_stream(options, blueprint, one)) return;
  const plan::Ledger limited = expected_memory(options, blueprint, weights, one, memory);
  const plan::Ledger whole = expected_memory(options, blueprint, weights, several, memory);
  if (!limited.is_limited()) return;
  if (are_streamed(blueprint, weights, one, limited) ||
      whole.total_bytes() > limited.limit_bytes()) {
    plan->chunks_in_flight = 1;
  }
}

}  // namespace

void apply_chunk_options(const Options& options, plan::Plan* plan) {
  if (options.prompts.order) plan->order = *options.prompts.order;
  if (options.prompts.chunks_in_flight > 0)
    plan->chunks_in_flight = options.prompts.chunks_in_flight;
  if (options.lanes.has_fast_handover) plan->handover = plan::HandoverKind::kFast;
  if (options.lanes.splits.at_norms) plan->splits.at_norms = true;
  if (options.lanes.splits.at_activations) plan->splits.at_activations = true;
  apply_cuts(options.lanes, plan);
  choose_ffn(options.ffn, plan);
  // A plan that is being made decides later whether memory has room for int8.
  if (options.plan.file.empty() || !options.prompts.int8) return;
  plan->prefill = plan::Prefill::kInt8;
  plan->prefill_reason = "int8 was asked for";
  plan->int8.method = *options.prompts.int8;
}

std::vector<plan::PlannedLane> choose_lanes(const LaneChoice& lanes) {
  if (!lanes.cores.empty()) return lanes.cores;
  return {{{}, lanes.n_threads > 0 ? lanes.n_threads : usable_cores()}};
}

plan::Prefill safe_prefill(plan::Activations activations, const std::string& kernels,
                           tensor::Type type) {
  if (activations == plan::Activations::kF32) return plan::Prefill::kF32;
  // Where many tokens are multiplied with 16 rows at once, whole numbers beat bfloat16, but for a
  // matrix unit, which multiplies either at several times that speed and has no products of blocks.
  const kernels::Kernels chosen = kernels::choose(detect_cpu_features(), kernels);
  const bool has_tiles = kernels::source_of(chosen, "matmul_bf16") == "amx";
  const bool is_fast = kernels::find(chosen.table.matmul_q8_strips, type) != nullptr;
  return is_fast && !has_tiles ? plan::Prefill::kQ8 : plan::Prefill::kBf16;
}

bool leaves_base(const Options& options, const model::Blueprint& blueprint,
                 const weights::Store& weights, const MemoryFigures& memory) {
  if (!options.plan.base || !options.plan.may_leave_base) return false;
  // Where all weights were asked for in memory, another plan would need as much.
  if (options.memory.load == Load::kCopy || options.prompts.int8) return false;
  if (!has_room(options, blueprint, weights, *options.plan.base, memory)) return true;
  if (options.prompts.prefill) return false;
  // Prompts of the base plan may read whole matrices where there is room for single neurons only.
  plan::Plan asked = *options.plan.base;
  choose_ffn(options.ffn, &asked);
  return asked.ffn.is_by_neuron() && reads_too_much(options, blueprint, weights, memory, asked);
}

bool has_short_context(const Options& options, const model::Blueprint& blueprint,
                       const plan::Plan& plan) {
  return options.memory.context == 0 && options.plan.file.empty() &&
         plan.context < most_sensible_tokens(blueprint);
}

void fit_context(const Options& options, const model::Blueprint& blueprint,
                 const weights::Store& weights, plan::Plan* plan, const MemoryFigures& memory) {
  plan::Plan expected = *plan;
  expected.context = longest_context(options, blueprint);
  leave_out_beyond(expected.context, options.prompts.chunk, &expected.prompt_shapes);
  limit_copies(options, blueprint, weights, memory, &expected);
  plan->packed_bytes = expected.packed_bytes;
  plan::Ledger ledger = expected_memory(options, blueprint, weights, expected, memory);
  take_context_out(context_bytes(blueprint, expected, expected.context), &ledger);
  plan->context = ContextChoice(options, blueprint, *plan, ledger, memory).tokens();
}

plan::Plan make_plan(const Options& options, const model::Blueprint& blueprint,
                     const weights::Store& weights, const MemoryFigures& memory) {
  check_options(options);
  if (leaves_base(options, blueprint, weights, memory)) {
    Options without = options;
    without.plan.base.reset();
    return make_plan(without, blueprint, weights, memory);
  }
  plan::Plan plan = begin_plan(options, weights);
  cache::check_head_length(plan.kv_type, blueprint.head_dim);
  apply_chunk_options(options, &plan);
  if (options.prompts.chunk > 0) {
    std::erase_if(plan.prompt_shapes, [&](int n) { return n >= options.prompts.chunk; });
    plan.prompt_shapes.push_back(options.prompts.chunk);
  }
  choose_attention(options, blueprint, &plan);
  let_lanes_take_turns(options, blueprint, weights, memory, &plan);
  take_neurons_for_prompts(options, blueprint, weights, memory, &plan);
  fit_context(options, blueprint, weights, &plan, memory);
  if (!options.plan.base) explain_prefill(options, blueprint, weights, &plan);
  leave_out_beyond(plan.context, options.prompts.chunk, &plan.prompt_shapes);
  if (!options.plan.base) place_within_limits(blueprint, weights, &plan);
  return plan;
}

}  // namespace troika::prepare
