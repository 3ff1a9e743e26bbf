#include "lanes/opencl/opencl_lane.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/system.h"
#include "base/units.h"
#include "lanes/host/experts/experts.h"
#include "lanes/machine.h"
#include "lanes/opencl/opencl_executable.h"
#include "model/rope.h"

namespace troika::lanes {
namespace {

using model::OpKind;
using opencl::kQueueDepth;

// Returns op `index` of a subgraph alone, with the subgraph's slice of it.
Subgraph one_of(const Subgraph& subgraph, size_t index) {
  Subgraph one = subgraph;
  one.ops = subgraph.ops.subspan(index, 1);
  if (!subgraph.slice.columns.empty()) one.slice.columns = {subgraph.slice.columns[index]};
  return one;
}

// Says whether an op reads which experts tokens take.
bool reads_routes(const BoundOp& bound) {
  return bound.op.kind == OpKind::kExpertLinear || bound.op.kind == OpKind::kExpertSum;
}

// Returns the precision in which cores compute their part of a lane's prompts.
plan::Prefill prefill_of_cores(plan::Prefill prefill) {
  return prefill == plan::Prefill::kF16 ? plan::Prefill::kF32 : prefill;
}

// Returns whose times a lane's are: those of a device change with its driver, and with the
// extensions that kernels use.
std::string identity_with(const opencl::DeviceEntry& entry, const opencl::Variants& variants) {
  return entry.identity() + variants.identity();
}

int n_threads_of(const opencl::DeviceOptions& options) {
  return std::max(1, static_cast<int>(options.cores.size()));
}

std::string lane_name(const opencl::DeviceOptions& options) {
  return fmt::format("opencl:{}", options.number);
}

// Refuses prompts in half floats on a device that does not compute in them.
void check_halves(const opencl::DeviceEntry& entry, const opencl::DeviceOptions& options,
                  plan::Prefill prefill) {
  if (prefill != plan::Prefill::kF16 || opencl::Variants(entry, options).has_halves()) return;
  throw Error(
      fmt::format("The device {}, '{}' of {}, does not compute in half floats: {}. Use ‹prefill› "
                  "f32.",
                  lane_name(options), entry.name, entry.platform,
                  entry.has_halves ? "TROIKA_OPENCL_EXTENSIONS turns that off"
                                   : "its driver has no cl_khr_fp16"));
}

}  // namespace

OpenclLane::OpenclLane(const opencl::DeviceOptions& options, const kernels::Table& kernels,
                       const OpenclPrecision& precision)
    : OpenclLane(std::make_shared<const opencl::Device>(options), options, kernels, precision) {}

OpenclLane::OpenclLane(std::shared_ptr<const opencl::Device> device,
                       const opencl::DeviceOptions& options, const kernels::Table& kernels,
                       const OpenclPrecision& precision)
    : device_(std::move(device)),
      kernels_(kernels),
      precision_(precision),
      memory_(device_),
      programs_(device_, options.program_folder),
      variants_(device_->entry(), options),
      shelf_(device_),
      pool_(&memory_, variants_.has_quads()),
      group_sums_(device_),
      halves_(device_),
      parts_(device_),
      host_(kernels, {options.cores, n_threads_of(options)}, precision.activations,
            prefill_of_cores(precision.prefill), precision.int8_rules, precision.attention),
      is_fast_(options.has_fast_handover) {
  info_.name = lane_name(options);
  info_.cores = options.cores;
  info_.n_threads = n_threads_of(options);
  info_.capabilities = kVector;
  info_.queue_depth = kQueueDepth;
  info_.identity = identity_with(device_->entry(), variants_);
  check_halves(device_->entry(), options, precision.prefill);
  for (int i = 0; i < kQueueDepth; ++i) {
    run_data_.push_back(std::make_unique<opencl::RunData>(&memory_));
    tasks_.emplace_back(this);
  }
  thread_ = std::thread([this] { work(); });
}

OpenclLane::~OpenclLane() {
  {
    const std::lock_guard<std::mutex> lock(handover_);
    stop_ = true;
    n_submitted_.fetch_add(1, std::memory_order_release);
    n_submitted_.notify_one();
    n_changes_.fetch_add(1, std::memory_order_release);
    n_changes_.notify_one();
  }
  thread_.join();
  const std::lock_guard<std::mutex> lock(telling_);
}

std::string OpenclLane::identity_of(const opencl::DeviceOptions& options, plan::Prefill prefill) {
  const opencl::Device device(options);
  check_halves(device.entry(), options, prefill);
  return identity_with(device.entry(), {device.entry(), options});
}

void OpenclLane::refuse(const Subgraph& subgraph, const std::string& why) const {
  throw Error(fmt::format("The lane {} cannot run '{}': {}. Compute that on a lane of cores.",
                          info_.name, subgraph.name, why));
}

void OpenclLane::refuse_numbers(const Subgraph& subgraph, plan::Phase phase) const {
  const char* const activations = plan::activations_name(precision_.activations);
  if (phase == plan::Phase::kStep) {
    throw Error(fmt::format(
        "The lane {} cannot run '{}' in steps with activations in {}: it takes them in floats. "
        "Compute with activations in f32, or steps on a lane of cores.",
        info_.name, subgraph.name, activations));
  }
  const std::string form = precision_.prefill == plan::Prefill::kSame
                               ? fmt::format("as steps, with activations in {}", activations)
                               : fmt::format("in {}", plan::prefill_name(precision_.prefill));
  throw Error(fmt::format(
      "The lane {} cannot run '{}' of prompts {}: it computes them in f32{} or int8 with one scale "
      "for a token. Compute prompts in one of these, or on a lane of cores.",
      info_.name, subgraph.name, form, variants_.has_halves() ? ", f16" : ""));
}

void OpenclLane::check(const Subgraph& subgraph, const weights::Store& weights, bool is_float,
                       plan::Phase phase) const {
  if (subgraph.role != Role::kWhole) refuse(subgraph, "outliers are tasks of their own");
  check_slice(subgraph, info_);
  const bool is_int8 = phase == plan::Phase::kPrompt && precision_.prefill == plan::Prefill::kInt8;
  if (!is_float && !is_int8) refuse_numbers(subgraph, phase);
  if (is_float && !subgraph.slice.tokens.is_all()) {
    refuse(subgraph,
           "its floats are not those of cores, so that results would depend on which "
           "tokens it has");
  }
  for (const model::Op& op : subgraph.ops) {
    if (op.kind == OpKind::kLinear && weights.is_switched(op.weight)) {
      refuse(subgraph, "weights change their place");
    }
  }
}

OpenclLane::Place OpenclLane::place_of(const Subgraph& subgraph, const BoundOp& bound,
                                       bool is_float) const {
  const BoundProduct* const product = bound.product();
  if (const ExpertCounts* const experts = experts_of(bound)) {
    // Whoever reads experts of a route hands them to cores, and exact products of experts are
    // theirs.
    const bool are_here = experts->source == nullptr;
    const bool is_plain =
        product == nullptr || (product->neurons == nullptr && product->bias == nullptr);
    return is_float && are_here && is_plain ? Place::kDevice : Place::kHost;
  }
  const bool has_odd_heads = subgraph.blueprint->head_dim % 2 != 0;
  if (bound.op.kind == OpKind::kAttention && has_odd_heads) return Place::kHost;
  if (bound.op.kind != OpKind::kLinear || is_float) return is_float ? Place::kDevice : Place::kHost;
  // A product that keeps floats has the bits of the host lane only on cores.
  if (product->form == InputForm::kFloat) return Place::kHost;
  const std::string& name = subgraph.blueprint->weights[static_cast<size_t>(bound.op.weight)].name;
  if (product->form != InputForm::kInt8) {
    refuse(subgraph, fmt::format("{} is not multiplied in int8 with one scale for a token", name));
  }
  if (product->int8_rule.takes_outliers()) {
    refuse(subgraph, fmt::format("activations of {} are taken out", name));
  }
  if (!device_->entry().rounds_to_nearest) {
    refuse(subgraph,
           "its driver says that it does not round to the nearest float as cores do, so that "
           "results in int8 would depend on which lane computes them. Compute prompts in floats "
           "(‹prefill› f32)");
  }
  return Place::kExactProduct;
}

// Says whether an op is a product of half floats, where `is_half` asks for these.
bool OpenclLane::takes_halves(const BoundOp& bound, bool is_half) {
  const BoundProduct* const product = bound.product();
  if (product == nullptr || !is_half || bound.op.keeps_float) return false;
  const bool in_halves = opencl::fits_halves(opencl::form_of(product->weight.matrix.type));
  halves_of_prompts_.add(in_halves);
  return in_halves;
}

std::unique_ptr<opencl::DeviceOp> OpenclLane::device_op(const Subgraph& subgraph,
                                                        const BoundOp& bound, int n_tokens,
                                                        bool is_half, bool makes_table) {
  switch (bound.op.kind) {
    case OpKind::kLinear:
      return make_product(tools(), bound, n_tokens, takes_halves(bound, is_half));
    case OpKind::kRoute:
    case OpKind::kExpertLinear:
    case OpKind::kExpertSum:
      return make_expert_op(tools(), bound, n_tokens, takes_halves(bound, is_half), makes_table);
    case OpKind::kEmbed:
      return make_embedding(tools(), bound);
    case OpKind::kAttention:
      return make_attention(tools(), bound, subgraph.blueprint->n_kv_heads, precision_.kv_type);
    default:
      return make_pointwise(tools(), bound);
  }
}

std::unique_ptr<Executable> OpenclLane::build(const Subgraph& subgraph, plan::Shape shape,
                                              const weights::Store& weights,
                                              const Buffers& buffers) {
  const bool is_prompt = shape.phase == plan::Phase::kPrompt;
  const bool is_half = is_prompt && precision_.prefill == plan::Prefill::kF16;
  const Precision precision = {
      precision_.activations,
      is_prompt ? prefill_of_cores(precision_.prefill) : plan::Prefill::kSame,
      precision_.int8_rules};
  const bool is_float = precision.prefill == plan::Prefill::kF32 ||
                        (precision.prefill == plan::Prefill::kSame &&
                         precision_.activations == plan::Activations::kF32);
  check(subgraph, weights, is_float, shape.phase);
  const TokenSlice tokens(subgraph);
  const int n_rows = tokens.n_rows(shape.n_rows);
  const std::vector<BoundOp> ops = bind_ops(subgraph, weights, buffers, kernels_, precision);
  std::vector<OpenclStage> stages;
  const float* quantized = nullptr;  // the value whose levels stand in the pool
  const float* tabled = nullptr;     // the routes of which kernels know where the parts stand
  for (size_t i = 0; i < ops.size(); ++i) {
    const BoundOp& bound = ops[i];
    const Place place = place_of(subgraph, bound, is_float);
    if (bound.output == quantized) quantized = nullptr;
    if (bound.output == tabled) tabled = nullptr;
    if (n_rows == 0 || bound.n_columns() == 0) continue;
    if (place == Place::kHost) {
      stages.emplace_back().host = host_.build(one_of(subgraph, i), shape, weights, buffers);
      host_ops_.insert(model::op_kind_name(bound.op.kind));
      continue;
    }
    const bool quantizes = place == Place::kExactProduct && bound.inputs[0] != quantized;
    if (stages.empty() || quantizes) stages.emplace_back();
    if (quantizes) {
      pool_.reserve(static_cast<size_t>(n_rows), static_cast<size_t>(bound.input_width));
      stages.back().quantizer.emplace(bound);
      quantized = bound.inputs[0];
    }
    const bool makes_table = bound.inputs[1] != tabled;
    if (place == Place::kDevice && reads_routes(bound)) tabled = bound.inputs[1];
    stages.back().ops.push_back({place == Place::kDevice
                                     ? device_op(subgraph, bound, n_rows, is_half, makes_table)
                                     : make_exact_product(tools(), bound, pool_),
                                 bound});
  }
  const std::vector<model::Rope>& ropes = subgraph.blueprint->ropes;
  auto executable = std::make_unique<OpenclExecutable>(
      shape.n_rows, tokens, buffers.set_stride(),
      model::first_pair_of(ropes, static_cast<int>(ropes.size())), std::move(stages));
  if (executable->reads_run()) reserve_run_data(n_rows, executable->n_pairs());
  return executable;
}

void OpenclLane::reserve_run_data(int n_tokens, int n_pairs) {
  for (const auto& data : run_data_) {
    if (data->reserve(static_cast<size_t>(n_tokens), static_cast<size_t>(n_pairs))) continue;
    throw Error(fmt::format(
        "No memory that the lane {} shares, for what runs of {} tokens bring along. Use shorter "
        "parts of prompts (‹chunk›).",
        info_.name, n_tokens));
  }
}

size_t OpenclLane::held_bytes() const {
  size_t n = host_.held_bytes() + shelf_.bytes() + pool_.bytes() + group_sums_.bytes() +
             halves_.bytes() + parts_.bytes();
  for (const auto& data : run_data_) n += data->bytes();
  return n;
}

std::string OpenclLane::problem() const {
  const std::lock_guard<std::mutex> lock(problem_mutex_);
  return problem_;
}

std::string OpenclLane::note() const {
  const opencl::ProgramCosts& costs = programs_.costs();
  std::string text = fmt::format(
      "{} is '{}' of {}: {} programs compiled in {:.2f} s, {} taken from a folder in {:.2f} s",
      info_.name, device_->entry().name, device_->entry().platform, costs.n_compiled,
      costs.compile_us / kUsPerS, costs.n_imported, costs.import_us / kUsPerS);
  const std::string products = variants_.prompt_products(precision_.prefill, halves_of_prompts_);
  if (!products.empty()) text += ". Prompts are multiplied " + products;
  if (!host_ops_.empty()) {
    text += ". Cores compute for it:";
    for (const std::string& name : host_ops_) text += " " + name;
  }
  const std::string problem = programs_.problem();
  return problem.empty() ? text : text + ". " + problem;
}

}  // namespace troika::lanes
