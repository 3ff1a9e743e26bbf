#include "engine/engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "base/clock.h"
#include "base/cpu_features.h"
#include "base/error.h"
#include "base/system.h"
#include "engine/taken_memory.h"
#include "machines/devices.h"
#include "machines/heads_here.h"
#include "machines/make_machine.h"
#include "machines/phone_neurons.h"
#include "machines/phone_prompts.h"
#include "prepare/make_plan.h"
#include "prepare/saved_plan.h"
#include "prepare/side_files.h"

namespace troika::engine {
namespace {

// A phone's cache of neurons starts as it would be behind a text of kWarmTokens tokens.
constexpr int kWarmTokens = 12;

// The memory that the process has.
struct Resident {
  size_t bytes = 0;
  size_t anonymous_bytes = 0;  // counts the bytes among them that belong to no file
};

Resident resident_now() { return {resident_bytes(), resident_anonymous_bytes()}; }

// Measures memory when the tokenizer and everything else is read except the weights. Only the
// file's pages before the tensors belong to the description: mapped pages of tensors near them
// count as weights.
prepare::MemoryFigures figures_since(const Resident& before, std::optional<size_t> held_bytes,
                                     const gguf::File& file) {
  prepare::MemoryFigures figures = prepare::MemoryFigures::here();
  const size_t now = figures.program_bytes;
  figures.model_bytes = held_bytes ? 0 : now - std::min(before.anonymous_bytes, now);
  for (const gguf::File::Shard& shard : file.shards()) {
    figures.model_bytes += std::min<size_t>(shard.data_offset, shard.bytes.size());
  }
  figures.program_bytes = held_bytes.value_or(before.bytes);
  return figures;
}

plan::Plan plan_here(const prepare::Options& options, const prepare::OpenedModel& model,
                     const prepare::MemoryFigures& memory) {
  if (options.plan.exact) return *options.plan.exact;
  if (options.plan.file.empty()) {
    return prepare::make_plan(options, model.blueprint, model.weights, memory);
  }
  plan::Plan plan = prepare::load_plan(options.plan.file, prepare::plan_identity(model.file)).plan;
  prepare::apply_chunk_options(options, &plan);
  if (options.plan.is_read_as_steps) {
    plan.prefill = plan::Prefill::kSame;
    plan.prefill_reason = "a text is read as steps are computed";
    plan.attention = {};
    plan.context = std::max(plan.context, options.memory.context);
  }
  plan::check_attention(plan);  // cuts were added
  plan::check_head_shares(plan.attention, model.blueprint.n_layers, model.blueprint.n_heads);
  const bool fixes_scales =
      plan.attention.form != plan::AttentionForm::kQuery || plan.attention.n_buckets > 0;
  if (options.lanes.is_strict_npu && !fixes_scales) {
    throw UsageError(fmt::format(
        "‹strict-npu› allows only scales that are fixed beforehand, and by {} the estimate of "
        "‹attention› query finds its own as it runs. Make the plan again with ‹strict-npu›, or "
        "leave it out.",
        options.plan.file));
  }
  return plan;
}

// Lets a plan count the memory of the predictor that is asked for.
prepare::Options with_predictor(const prepare::Options& options, const gguf::File& file) {
  prepare::Options all = options;
  all.ffn.predictor = prepare::asked_predictor(options, file);
  return all;
}

}  // namespace

Engine::Engine(const prepare::Options& options) {
  const auto start = std::chrono::steady_clock::now();
  prepare::check_options(options);
  has_values_ = prepare::is_here(options) || options.phone.has_values;
  const Resident before = resident_now();
  model_ = prepare::open_model(options);
  start_.memory = figures_since(before, options.memory.held_bytes, model_->file);
  kernels_ = kernels::choose(detect_cpu_features(), options.kernels);
  choose_plan(options);
  loaded_ = prepare::load_weights(options, kernels_.table, ledger_, model_.get(), &plan_);
  const auto build_start = std::chrono::steady_clock::now();
  make_machine();
  make_graphs(options);
  passes_ = std::make_unique<Passes>(*this, &ledger_);
  check_memory();
  start_.build_seconds = seconds_since(build_start);
  start_.seconds = seconds_since(start);
}

Engine::~Engine() = default;

void Engine::choose_plan(const prepare::Options& options) {
  if (!prepare::is_here(options)) {
    phone_setup_ = machines::make_phone_setup(options, file(), blueprint(), weights());
    plan_ = phone_setup_->plan;
    return;
  }
  const prepare::Options all = with_predictor(options, file());
  plan_ = plan_here(all, *model_, start_.memory);
  start_.has_left_plan = prepare::leaves_base(all, blueprint(), weights(), start_.memory);
  machines::check_devices(plan_);
  prepare::choose_predictor(options, file(), &plan_);
  prepare::Options reckoned = options;
  // A plan from a file keeps its context, whatever the options name, and weights leave it room.
  if (!options.plan.file.empty()) reckoned.memory.context = plan_.context;
  ledger_ = prepare::expected_memory(reckoned, blueprint(), weights(), plan_, start_.memory);
  ledger_.check();
}

void Engine::make_machine() {
  if (phone_setup_ != nullptr) {
    machine_ = machines::make_phone(*phone_setup_, kernels_.table, plan_, has_values_);
  } else {
    machine_ = machines::make_host(kernels_.table, plan_, loaded_);
  }
}

void Engine::make_graphs(const prepare::Options& options) {
  schedule::GraphOptions how;
  how.has_values = has_values_;
  how.is_op_by_op = options.lanes.is_op_by_op;
  how.parts = options.lanes.parts;
  if (phone_setup_ != nullptr) {
    how.shadow = phone_setup_->shadow;
    how.heads = phone_setup_->heads;
  } else {
    how.heads = machines::heads_here(plan_, blueprint());
  }
  if (phone_setup_ != nullptr && plan_.neurons) {
    phone_neurons_ = std::make_unique<machines::PhoneNeurons>(phone_setup_->model,
                                                              *phone_setup_->neurons, plan_);
    phone_neurons_->work().warm(kWarmTokens);
    how.ffn = &phone_neurons_->tasks();
  }
  graphs_ = std::make_unique<schedule::Graphs>(blueprint(), plan_, *machine_, weights(), how);
  if (phone_setup_ == nullptr) return;
  phone_prompts_ = std::make_unique<machines::PhonePrompts>(
      *graphs_, blueprint(), weights(), static_cast<lanes::VirtualPhone&>(*machine_));
}

// Compares the limit with what is needed. What was only expected before has been taken by now, and
// is known.
void Engine::check_memory() {
  if (phone_setup_ != nullptr) return;
  enter_taken(*this, &ledger_);
  ledger_.check();
}

PhoneParts Engine::phone() const {
  if (phone_setup_ == nullptr) return {};
  return {.machine = static_cast<const lanes::VirtualPhone*>(machine_.get()),
          .setup = phone_setup_.get(),
          .prompts = phone_prompts_.get(),
          .neurons = phone_neurons_.get()};
}

}  // namespace troika::engine
