#include "engine/engine.h"

#include <algorithm>
#include <chrono>
#include <climits>
#include <filesystem>

#include "base/clock.h"
#include "base/cpu_features.h"
#include "base/system.h"
#include "engine/taken_memory.h"
#include "machines/make_machine.h"
#include "model/architecture.h"
#include "prepare/make_plan.h"
#include "prepare/saved_plan.h"

namespace troika::engine {
namespace {

using SteadyClock = std::chrono::steady_clock;

// The time at which loading begins, if the options make sense without a look at the model.
SteadyClock::time_point begin(const prepare::Options& options) {
  prepare::check_options(options);
  return SteadyClock::now();
}

// A model that is only a name has shapes, and no weights.
std::unique_ptr<forge::HollowModel> make_hollow(const prepare::Options& options) {
  if (prepare::is_here(options) || options.phone.has_values) return nullptr;
  std::error_code ignored;
  if (std::filesystem::exists(options.model.file, ignored)) return nullptr;
  const model::KnownModel* known = model::find_known(options.model.file);
  if (known == nullptr) return nullptr;
  return std::make_unique<forge::HollowModel>(*known, options.model.type);
}

std::unique_ptr<text::Tokenizer> make_tokenizer(const gguf::File& file,
                                                const prepare::Options& options, bool is_hollow) {
  if (is_hollow) return nullptr;
  return text::make_tokenizer(file, {options.model.pre_tokenizer});
}

plan::Plan loaded_plan(const prepare::Options& options, const gguf::File& file) {
  plan::Plan plan = prepare::load_plan(options.plan.file, prepare::plan_identity(file)).plan;
  prepare::apply_chunk_options(options, &plan);
  return plan;
}

// The tokenizer and all else that was read of the model are there, but nothing of its weights. Of
// the file's pages only those before the tensors are the description's: what the map has of tensors
// near what was read counts as weights.
prepare::MemoryFigures figures_here(size_t program_bytes, size_t anonymous_bytes,
                                    const gguf::File& file) {
  prepare::MemoryFigures figures = prepare::MemoryFigures::here();
  const size_t now = figures.program_bytes;
  figures.model_bytes = now - std::min(anonymous_bytes, now);
  for (const gguf::File::Part& part : file.parts()) {
    figures.model_bytes += std::min<size_t>(part.data_offset, part.bytes.size());
  }
  figures.program_bytes = program_bytes;
  return figures;
}

// Texts that are counted to grow to a full context at once, and closed ones that stay for those who
// begin alike.
constexpr int kMostTexts = 64;
constexpr int kMostIdleTexts = 64;

// As many slots as there may ever be; `count_texts` says how many there are. Where nothing is
// computed, positions count, but keys and values need no room.
cache::KvShape largest_cache(const Engine& engine) {
  cache::KvShape shape = prepare::kv_shape(engine.plan(), engine.blueprint());
  shape.most_positions = engine.plan().context;
  const bool is_here = engine.phone_setup() == nullptr;
  const int64_t n_slots =
      is_here ? prepare::most_slots(engine.ledger(), shape, kMostTexts, available_memory_bytes())
              : int64_t{shape.most_slots} * kMostTexts;
  shape.most_slots = static_cast<int>(std::min<int64_t>(n_slots, INT_MAX));
  if (!engine.has_values()) shape.n_layers = 0;
  return shape;
}

plan::Ledger checked_memory(const prepare::Options& options, const model::Blueprint& blueprint,
                            const weights::Store& weights, const plan::Plan& plan,
                            const prepare::MemoryFigures& memory) {
  plan::Ledger ledger = prepare::expected_memory(options, blueprint, weights, plan, memory);
  ledger.check();
  return ledger;
}

}  // namespace

Engine::Engine(const prepare::Options& options)
    : started_(begin(options)),
      program_bytes_(resident_bytes()),
      anonymous_bytes_(resident_anonymous_bytes()),
      has_values_(prepare::is_here(options) || options.phone.has_values),
      hollow_(make_hollow(options)),
      file_(hollow_ != nullptr ? hollow_->open() : gguf::File::open(options.model.file)),
      blueprint_(model::read(file_)),
      tokenizer_(make_tokenizer(file_, options, hollow_ != nullptr)),
      kernels_(kernels::choose(detect_cpu_features(), options.kernels)),
      weights_(file_, blueprint_),
      phone_setup_(prepare::is_here(options)
                       ? nullptr
                       : machines::make_phone_setup(options, file_, blueprint_, weights_)),
      figures_(figures_here(program_bytes_, anonymous_bytes_, file_)),
      plan_(phone_setup_ != nullptr ? phone_setup_->plan
            : options.plan.exact    ? *options.plan.exact
            : options.plan.file.empty()
                ? prepare::make_plan(options, blueprint_, weights_, figures_)
                : loaded_plan(options, file_)),
      ledger_(phone_setup_ != nullptr
                  ? plan::Ledger()
                  : checked_memory(options, blueprint_, weights_, plan_, figures_)),
      loaded_(
          prepare::load_weights(options, kernels_.table, blueprint_, &file_, &weights_, &plan_)),
      rope_angles_(blueprint_.ropes, plan_.context),
      graphs_started_(SteadyClock::now()),
      machine_(make_machine()),
      graphs_(blueprint_, plan_, *machine_, weights_,
              {.has_values = has_values_,
               .shadow = phone_setup_ != nullptr ? phone_setup_->shadow : schedule::ShadowOptions(),
               .is_op_by_op = options.lanes.is_op_by_op,
               .parts = options.lanes.parts}),
      runner_(*machine_),
      chunk_policy_(schedule::make_policy(plan_.order)),
      kv_(largest_cache(*this)),
      sequences_(kv_, kMostIdleTexts),
      batch_runner_(*this) {
  runner_.reserve(graphs_.most_nodes());
  runner_.set_watch(layouts());
  if (options.lanes.is_strict_npu) machines::check_static_scales(*machine_, has_values_);
  if (phone_setup_ == nullptr) {
    enter_taken(*this, &ledger_);
    ledger_.check();
  }
  build_seconds_ = seconds_since(graphs_started_);
  load_seconds_ = seconds_since(started_);
}

Engine::~Engine() = default;

std::unique_ptr<lanes::Machine> Engine::make_machine() const {
  if (phone_setup_ == nullptr) return machines::make_host(kernels_.table, plan_, loaded_);
  return machines::make_phone(*phone_setup_, kernels_.table, plan_, has_values_);
}

const lanes::VirtualPhone* Engine::phone() const {
  return phone_setup_ != nullptr ? static_cast<const lanes::VirtualPhone*>(machine_.get())
                                 : nullptr;
}

void Engine::count_texts(int n_more) {
  n_texts_ += n_more;
  const cache::KvShape shape = prepare::kv_shape(plan_, blueprint_);
  const int n_counted = std::clamp(n_texts_, 1, kMostTexts);
  int64_t n_slots = kv_.shape().most_slots;
  if (phone_setup_ == nullptr) {
    // What the cache has taken already is no less available to it.
    const size_t available = available_memory_bytes() + kv_.bytes();
    n_slots = std::min(n_slots, prepare::most_slots(ledger_, shape, n_counted, available));
    ledger_.set(plan::Owner::kCache, prepare::cache_bytes(shape, n_slots));
  }
  kv_.limit_slots(static_cast<int>(n_slots));
}

void Engine::set_trace(Trace* trace) {
  trace_ = trace;
  runner_.set_trace(trace);
  if (layouts() != nullptr) layouts()->set_trace(trace, static_cast<int>(machine().lanes().size()));
}

std::vector<std::string> Engine::trace_rows() {
  std::vector<std::string> rows;
  for (const lanes::Lane* lane : machine().lanes()) rows.push_back(lane->info().name);
  if (layouts() != nullptr) rows.insert(rows.end(), {"layout", "loads"});
  return rows;
}

}  // namespace troika::engine
