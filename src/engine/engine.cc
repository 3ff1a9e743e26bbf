#include "engine/engine.h"

#include <fmt/format.h>

#include <chrono>
#include <utility>

#include "base/bytes_text.h"
#include "base/clock.h"
#include "base/cpu_features.h"
#include "engine/memory/device_context.h"
#include "engine/memory/taken_memory.h"
#include "machines/devices.h"
#include "machines/heads_here.h"
#include "machines/make_machine.h"
#include "machines/phone_neurons.h"
#include "machines/phone_prompts.h"
#include "prepare/plan/choose_plan.h"

namespace troika::engine {
namespace {

// A phone's cache of neurons starts as it would be behind a text of kWarmTokens tokens.
constexpr int kWarmTokens = 12;

}  // namespace

Engine::Engine(const prepare::Options& options) {
  const auto start = std::chrono::steady_clock::now();
  prepare::check_options(options);
  most_texts_ = options.memory.most_texts;
  has_values_ = prepare::is_here(options) || options.phone.has_values;
  model_ = prepare::open_model(options);
  kernels_ = kernels::choose(detect_cpu_features(), options.kernels);
  if (!options.plan.is_read_as_steps) start_.plan_file = options.plan.file;
  const std::string about_plan = choose_plan(options);
  loaded_ = prepare::load_weights(options, kernels_.table, ledger_, model_.get(), &plan_);
  loaded_.add_note(about_plan);
  const auto build_start = std::chrono::steady_clock::now();
  make_machine(options.memory.has_side_files);
  fit_context(options);
  make_graphs(options);
  passes_ = std::make_unique<Passes>(*this, &ledger_);
  check_memory();
  start_.build_seconds = seconds_since(build_start);
  start_.seconds = seconds_since(start);
}

Engine::~Engine() = default;

std::string Engine::choose_plan(const prepare::Options& options) {
  if (!prepare::is_here(options)) {
    phone_setup_ = machines::make_phone_setup(options, file(), blueprint(), weights());
    plan_ = phone_setup_->plan;
    return {};
  }
  prepare::ChosenPlan chosen = prepare::choose_plan(options, *model_);
  machines::check_devices(chosen.plan);
  chosen.ledger.check();
  plan_ = std::move(chosen.plan);
  ledger_ = chosen.ledger;
  start_.has_left_plan = chosen.has_left_base;
  start_.has_short_context = prepare::has_short_context(options, blueprint(), plan_);
  return chosen.note;
}

void Engine::make_machine(bool keeps_files) {
  if (phone_setup_ != nullptr) {
    machine_ = machines::make_phone(*phone_setup_, kernels_.table, plan_, has_values_);
  } else {
    machine_ = machines::make_host(kernels_.table, plan_, loaded_, keeps_files);
  }
}

void Engine::fit_context(const prepare::Options& options) {
  if (phone_setup_ != nullptr) return;
  for (lanes::Lane* const lane : machine_->lanes()) {
    const lanes::Memory* const memory = lane->memory();
    if (memory == nullptr) continue;
    const bool may_be_less =
        options.memory.context == 0 && options.plan.file.empty() && !options.plan.exact;
    const int context = context_within(prepare::kv_shape(plan_, blueprint()),
                                       {lane->info().name, memory->most_bytes(), may_be_less});
    if (context == plan_.context) return;
    plan_.context = context;
    start_.has_short_context = true;
    loaded_.add_note(fmt::format("the context is shorter because lane {} gives {} at once",
                                 lane->info().name, bytes_text(memory->most_bytes())));
    return;
  }
}

void Engine::make_graphs(const prepare::Options& options) {
  schedule::GraphOptions how;
  how.has_values = has_values_;
  how.is_op_by_op = options.lanes.is_op_by_op;
  how.range_cut = options.lanes.range_cut;
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
  // Nothing was attended to yet, so lists of attention come on top, for a whole context.
  const size_t lists = prepare::context_bytes(blueprint(), plan_, plan_.context).lists;
  ledger_.set(plan::Owner::kLanes, ledger_.bytes(plan::Owner::kLanes) + lists);
  ledger_.check();
}

EnginePhone Engine::phone() const {
  if (phone_setup_ == nullptr) return {};
  return {.machine = static_cast<const lanes::VirtualPhone*>(machine_.get()),
          .setup = phone_setup_.get(),
          .prompts = phone_prompts_.get(),
          .neurons = phone_neurons_.get()};
}

}  // namespace troika::engine
