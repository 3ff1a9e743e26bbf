#include "engine/make_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "base/system.h"
#include "engine/outlier_channels.h"

namespace troika::engine {
namespace {

// Enough for long conversations; who needs more says so. Nothing is allocated before it is used.
constexpr int kSensibleContext = 8192;
// Where memory is short, other programs get their half only beyond this.
constexpr int kUsefulContext = 512;
constexpr int kMostThreads = 1024;
// Room for the program itself, its buffers, and whatever else runs.
constexpr size_t kReserveBytes = 256u << 20;

// Tokens whose keys and values fit beside the weights.
int64_t most_tokens_in_memory(const weights::Store& weights, size_t packed_bytes,
                              size_t bytes_per_token, const MemoryFigures& memory) {
  const size_t needed = weights.total_bytes() + packed_bytes + kReserveBytes;
  const size_t left =
      memory.limit_bytes > needed ? memory.limit_bytes - needed : memory.limit_bytes / 16;
  return static_cast<int64_t>(std::min(left, memory.available_bytes) / bytes_per_token);
}

int choose_context(const Options& options, const model::Blueprint& blueprint,
                   const weights::Store& weights, const plan::Plan& plan, size_t packed_bytes,
                   const MemoryFigures& memory) {
  const size_t per_token = kv_shape(plan, blueprint).bytes_per_token();
  const int64_t fitting = most_tokens_in_memory(weights, packed_bytes, per_token, memory);
  if (fitting < 1) {
    throw Error(fmt::format(
        "There is no memory for a context of even one token, which needs {} bytes: {:.1f} MB are "
        "free. End other programs, or use a smaller model.",
        per_token, 1e-6 * static_cast<double>(memory.available_bytes)));
  }
  if (options.context > 0) {
    if (options.context > fitting) {
      const bool can_shrink = plan.kv_type != tensor::Type::kQ8_0 &&
                              cache::holds_heads(tensor::Type::kQ8_0, blueprint.head_dim);
      throw Error(fmt::format(
          "A context of {} tokens needs {:.1f} GB for keys and values, and memory allows {} tokens "
          "beside the model. Use --context {} or less{}.",
          options.context, 1e-9 * static_cast<double>(per_token) * options.context, fitting,
          fitting, can_shrink ? ", or --kv q8_0 for smaller ones" : ""));
    }
    return options.context;
  }
  int64_t sensible = std::min(blueprint.trained_context, kSensibleContext);
  for (const model::Rope& rope : blueprint.ropes) {
    // Beyond it positions turn otherwise; that must not depend on how much memory is free.
    if (!rope.long_divisors.empty()) sensible = std::min<int64_t>(sensible, rope.original_context);
  }
  // Half of what fits, so that other programs live.
  const int64_t wanted = std::max(fitting / 2, std::min<int64_t>(fitting, kUsefulContext));
  return static_cast<int>(std::min(wanted, sensible));
}

// Methods whose weights have no scale of their own for each row cannot be unpacked when needed.
bool needs_copies(const Options& options) {
  return options.int8_weights == "tensor" ||
         options.int8 == plan::int8_method_name(plan::Int8Method::kSmooth) ||
         options.int8 == plan::int8_method_name(plan::Int8Method::kGroup);
}

std::vector<model::WeightId> packed_matrices(const Options& options,
                                             const model::Blueprint& blueprint,
                                             const weights::Store& weights, uint64_t bytes) {
  const uint64_t most = needs_copies(options) ? std::numeric_limits<uint64_t>::max() : bytes;
  return weights.packable(weights::prompt_matrices(blueprint), most);
}

uint64_t most_packed_bytes(const Options& options) {
  return options.layouts == "both" ? std::numeric_limits<int64_t>::max() : options.packed_bytes;
}

// Decides how prompts are computed.
void choose_prefill(const Options& options, const model::Blueprint& blueprint,
                    const weights::Store& weights, plan::Plan* plan) {
  if (!options.int8.empty() && options.prefill != "auto" && options.prefill != "int8") {
    throw UsageError(
        fmt::format("--int8 is for prompts in int8, but --prefill asks for {}.", options.prefill));
  }
  if (options.prefill == "auto" && options.int8.empty()) {
    plan->prefill = safe_prefill(options.activations);
    plan->prefill_reason = plan->prefill == plan::Prefill::kF32
                               ? "float activations were asked for"
                               : "auto: safe for a model whose activations nobody has measured";
    return;
  }
  plan->prefill =
      options.int8.empty() ? plan::prefill_from_name(options.prefill) : plan::Prefill::kInt8;
  if (plan->prefill != plan::Prefill::kInt8) return;
  plan->packed_bytes = most_packed_bytes(options);
  if (options.layouts == "switch") {
    plan->prefill_reason = "packed, until the blocks change their layout";
    return;
  }
  const std::vector<model::WeightId> matrices = weights::prompt_matrices(blueprint);
  const std::vector<model::WeightId> packed =
      packed_matrices(options, blueprint, weights, plan->packed_bytes);
  plan->prefill_reason = packed.empty()                    ? "unpacked for each chunk"
                         : packed.size() < matrices.size() ? "in part unpacked for each chunk"
                                                           : "from packed copies";
}

std::vector<plan::HostLane> choose_lanes(const Options& options) {
  if (options.lanes.empty()) {
    return {{{}, options.n_threads > 0 ? options.n_threads : usable_cores()}};
  }
  if (options.n_threads > 0) {
    throw UsageError("--lanes already says how many threads there are; leave --threads out.");
  }
  return plan::lanes_from_text(options.lanes, usable_core_numbers());
}

// By how much one copy whose blocks change their layout is larger than the file's blocks; and one
// block, which is there twice while it changes.
size_t switched_bytes(const model::Blueprint& blueprint, const weights::Store& weights) {
  size_t bytes = 0, largest = 0;
  for (const model::WeightId id : weights::prompt_matrices(blueprint)) {
    const weights::Matrix& matrix = weights.matrix(id);
    const size_t rows = matrix.row_bytes * static_cast<size_t>(matrix.n_rows);
    const size_t panels = weights::fits_int8(matrix) ? weights::int8_panel_bytes(matrix) : rows;
    bytes += std::max(rows, panels) - rows;
    largest += std::max(rows, panels);
  }
  return bytes + largest / static_cast<size_t>(std::max(blueprint.n_layers, 1));
}

}  // namespace

MemoryFigures MemoryFigures::here() { return {memory_limit_bytes(), available_memory_bytes()}; }

tensor::Type kv_type_from_name(const std::string& name) {
  const std::optional<tensor::Type> type = tensor::type_from_name(name);
  if (type == tensor::Type::kF32 || type == tensor::Type::kF16 || type == tensor::Type::kQ8_0) {
    return *type;
  }
  throw UsageError(
      fmt::format("'{}' is no type for keys and values. Known are f32, f16 and q8_0.", name));
}

cache::KvShape kv_shape(const plan::Plan& plan, const model::Blueprint& blueprint) {
  return {blueprint.n_layers, blueprint.n_kv_heads, blueprint.head_dim, plan.kv_type, plan.context};
}

void apply_chunk_options(const Options& options, plan::Plan* plan) {
  if (!options.order.empty()) plan->order = plan::order_from_name(options.order);
  if (options.chunks_in_flight < 0 || options.chunks_in_flight > plan::kMostChunksInFlight) {
    throw UsageError(fmt::format("--in-flight {} makes no sense; use 1 to {} chunks.",
                                 options.chunks_in_flight, plan::kMostChunksInFlight));
  }
  // Up to so many tokens executables are those of generation.
  if (options.chunk != 0 && options.chunk < plan::kMostDecodeTokens) {
    throw UsageError(fmt::format("--chunk {} makes no sense; use {} tokens or more.", options.chunk,
                                 plan::kMostDecodeTokens));
  }
  if (options.chunks_in_flight > 0) plan->chunks_in_flight = options.chunks_in_flight;
  if (options.is_cut_at_norms) plan->is_cut_at_norms = true;
}

plan::Prefill safe_prefill(plan::Activations activations) {
  const bool is_exact = activations == plan::Activations::kF32;
  return is_exact ? plan::Prefill::kF32 : plan::Prefill::kBf16;
}

void fit_context(const Options& options, const model::Blueprint& blueprint,
                 const weights::Store& weights, plan::Plan* plan, const MemoryFigures& memory) {
  size_t copies = resident_channel_bytes(options, blueprint, weights, *plan);
  if (plan->prefill == plan::Prefill::kInt8) {
    for (const model::WeightId id :
         packed_matrices(options, blueprint, weights, plan->packed_bytes)) {
      copies += weights::int8_panel_bytes(weights.matrix(id));
    }
  }
  if (options.layouts == "switch") copies += switched_bytes(blueprint, weights);
  plan->context = choose_context(options, blueprint, weights, *plan, copies, memory);
}

plan::Plan make_plan(const Options& options, const model::Blueprint& blueprint,
                     const weights::Store& weights, const MemoryFigures& memory) {
  if (options.n_threads < 0 || options.n_threads > kMostThreads) {
    throw UsageError(fmt::format("--threads {} makes no sense; use 1 to {}, or 0 for all cores.",
                                 options.n_threads, kMostThreads));
  }
  if (options.context < 0) {
    throw UsageError(
        fmt::format("--context {} makes no sense; it is a number of tokens.", options.context));
  }
  plan::Plan plan;
  plan.lanes = choose_lanes(options);
  for (const std::string& text : options.placements) {
    plan.placements.push_back(plan::placement_from_text(text, static_cast<int>(plan.lanes.size())));
  }
  plan.activations = options.activations;
  plan.kv_type = options.kv_type;
  cache::check_head_length(plan.kv_type, blueprint.head_dim);
  choose_prefill(options, blueprint, weights, &plan);
  fit_context(options, blueprint, weights, &plan, memory);
  apply_chunk_options(options, &plan);
  if (options.chunk > 0) {
    std::erase_if(plan.shapes, [&](int n) { return n >= options.chunk; });
    plan.shapes.push_back(options.chunk);
  }
  // No executable for more tokens than the context holds.
  while (plan.shapes.size() > 1 && plan.shapes[plan.shapes.size() - 2] >= plan.context) {
    plan.shapes.pop_back();
  }
  return plan;
}

}  // namespace troika::engine
