#include "engine/engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <climits>
#include <filesystem>

#include "base/cpu_features.h"
#include "base/error.h"
#include "base/system.h"
#include "engine/make_plan.h"
#include "engine/outlier_channels.h"
#include "engine/phone_setup.h"
#include "engine/saved_plan.h"
#include "engine/weight_strips.h"
#include "lanes/host/host_lane.h"
#include "lanes/host/host_machine.h"
#include "model/architecture.h"

namespace troika::engine {
namespace {

double now_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// The time at which loading begins, if the options make sense without a look at the model.
double begin(const Options& options) {
  check_layouts(options);
  check_memory(options);
  return now_seconds();
}

// A model that is only a name has shapes, and no weights.
std::unique_ptr<weights::HollowModel> make_hollow(const Options& options) {
  if (is_here(options) || options.has_values) return nullptr;
  std::error_code ignored;
  if (std::filesystem::exists(options.model, ignored)) return nullptr;
  const model::KnownModel* known = model::find_known(options.model);
  if (known == nullptr) return nullptr;
  return std::make_unique<weights::HollowModel>(*known, options.type);
}

std::unique_ptr<text::Tokenizer> make_tokenizer(const gguf::File& file, const Options& options,
                                                bool is_hollow) {
  if (is_hollow) return nullptr;
  return text::make_tokenizer(file, {options.pre_tokenizer});
}

plan::Plan loaded_plan(const Options& options, const gguf::File& file) {
  plan::Plan plan = load_plan(options.plan, plan_identity(file)).plan;
  apply_chunk_options(options, &plan);
  return plan;
}

// The tokenizer and all else that was read of the model are there, but nothing of its weights. Of
// the file's pages only those before the tensors are the description's: what the map has of tensors
// near what was read counts as weights.
MemoryFigures figures_here(size_t program_bytes, size_t anonymous_bytes, const gguf::File& file) {
  MemoryFigures figures = MemoryFigures::here();
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
  cache::KvShape shape = kv_shape(engine.plan(), engine.blueprint());
  shape.most_positions = engine.plan().context;
  const bool is_here = engine.phone_setup() == nullptr;
  const int64_t n_slots =
      is_here ? most_slots(engine.ledger(), shape, kMostTexts, available_memory_bytes())
              : int64_t{shape.most_slots} * kMostTexts;
  shape.most_slots = static_cast<int>(std::min<int64_t>(n_slots, INT_MAX));
  if (!engine.has_values()) shape.n_layers = 0;
  return shape;
}

plan::Ledger checked_memory(const Options& options, const model::Blueprint& blueprint,
                            const weights::Store& weights, const plan::Plan& plan,
                            const MemoryFigures& memory) {
  plan::Ledger ledger = expected_memory(options, blueprint, weights, plan, memory);
  ledger.check();
  return ledger;
}

}  // namespace

Engine::Engine(const Options& options)
    : started_(begin(options)),
      program_bytes_(resident_bytes()),
      anonymous_bytes_(resident_anonymous_bytes()),
      has_values_(is_here(options) || options.has_values),
      hollow_(make_hollow(options)),
      file_(hollow_ != nullptr ? hollow_->open() : gguf::File::open(options.model)),
      blueprint_(model::read(file_)),
      tokenizer_(make_tokenizer(file_, options, hollow_ != nullptr)),
      kernels_(kernels::choose(detect_cpu_features(), options.kernels)),
      weights_(file_, blueprint_),
      phone_setup_(is_here(options) ? nullptr
                                    : make_phone_setup(options, file_, blueprint_, weights_)),
      figures_(figures_here(program_bytes_, anonymous_bytes_, file_)),
      plan_(phone_setup_ != nullptr ? phone_setup_->plan
            : options.made_plan     ? *options.made_plan
            : options.plan.empty()  ? make_plan(options, blueprint_, weights_, figures_)
                                    : loaded_plan(options, file_)),
      ledger_(phone_setup_ != nullptr
                  ? plan::Ledger()
                  : checked_memory(options, blueprint_, weights_, plan_, figures_)),
      pages_(has_values_ ? place_weights(options, file_) : WeightPages()),
      int8_(options, blueprint_, weights_, &plan_),
      rope_angles_(blueprint_.ropes, plan_.context),
      machine_(make_machine(options)),
      graphs_(blueprint_, plan_, *machine_, weights_,
              {.has_values = has_values_,
               .shadow = phone_setup_ != nullptr ? phone_setup_->shadow : schedule::ShadowOptions(),
               .is_op_by_op = options.is_op_by_op,
               .parts = options.parts}),
      runner_(*machine_),
      chunk_policy_(schedule::make_policy(plan_.order)),
      kv_(largest_cache(*this)),
      sequences_(kv_, kMostIdleTexts),
      batch_runner_(*this) {
  runner_.reserve(graphs_.most_nodes());
  runner_.set_watch(layouts_.get());
  if (options.is_strict_npu) check_static_scales(*machine_, has_values_);
  if (phone_setup_ == nullptr) {
    enter_taken(*this, &ledger_);
    ledger_.check();
  }
  build_seconds_ = now_seconds() - graphs_started_;
  load_seconds_ = now_seconds() - started_;
}

std::unique_ptr<lanes::Machine> Engine::make_machine(const Options& options) {
  prepare_weights(options);
  graphs_started_ = now_seconds();
  if (phone_setup_ == nullptr) {
    if (channel_file_ == nullptr) {
      return std::make_unique<lanes::HostMachine>(kernels_.table, plan_, int8_.rules());
    }
    // The file that was checked, whatever takes its name meanwhile.
    lanes::DiskOptions disk;
    disk.files = {fmt::format("/proc/self/fd/{}", channel_file_->descriptor())};
    disk.names = {channel_file_->path()};
    return std::make_unique<lanes::HostMachine>(kernels_.table, plan_, int8_.rules(), &disk);
  }
  std::unique_ptr<lanes::Lane> values;
  if (has_values_) {
    const plan::HostLane all_cores = {{}, phone_setup_->n_threads, "host"};
    values = std::make_unique<lanes::HostLane>(kernels_.table, all_cores, plan_.activations,
                                               plan::Prefill::kSame);
  }
  auto phone = std::make_unique<lanes::VirtualPhone>(phone_setup_->model, phone_setup_->options,
                                                     std::move(values));
  phone_ = phone.get();
  return phone;
}

Engine::~Engine() = default;

void Engine::count_texts(int n_more) {
  n_texts_ += n_more;
  const cache::KvShape shape = kv_shape(plan_, blueprint_);
  const int n_counted = std::clamp(n_texts_, 1, kMostTexts);
  int64_t n_slots = kv_.shape().most_slots;
  if (phone_setup_ == nullptr) {
    // What the cache has taken already is no less available to it.
    const size_t available = available_memory_bytes() + kv_.bytes();
    n_slots = std::min(n_slots, most_slots(ledger_, shape, n_counted, available));
    ledger_.set(plan::Owner::kCache, cache_bytes(shape, n_slots));
  }
  kv_.limit_slots(static_cast<int>(n_slots));
}

void Engine::set_trace(Trace* trace) {
  trace_ = trace;
  runner_.set_trace(trace);
  if (layouts_ != nullptr) layouts_->set_trace(trace, static_cast<int>(machine().lanes().size()));
}

std::vector<std::string> Engine::trace_rows() {
  std::vector<std::string> rows;
  for (const lanes::Lane* lane : machine().lanes()) rows.push_back(lane->info().name);
  if (layouts_ != nullptr) rows.insert(rows.end(), {"layout", "loads"});
  return rows;
}

void Engine::prepare_weights(const Options& options) {
  const bool is_here = phone_setup_ == nullptr;
  const double start = now_seconds();
  if (apply_layouts(options, &plan_)) {
    auto blocks = std::make_unique<weights::SwitchedBlocks>(blueprint_, weights_, file_);
    layouts_ = std::make_unique<LayoutLoader>(file_, *blocks, plan_.n_threads());
    weights_.set_switched(std::move(blocks));
    layouts_->load_all(options.progress);
    pages_ = place_weights_beside(options, file_, layouts_->blocks().file_ranges());
  }
  if (is_here && plan_.prefill == plan::Prefill::kInt8) {
    // Experts are unpacked when they are needed, by whatever method the rest is computed.
    weights_.measure_int8(weights::expert_matrices(blueprint_), plan_.n_threads(),
                          options.progress);
    const std::vector<model::WeightId> ids = weights::prompt_matrices(blueprint_);
    const weights::Int8Packing packing = int8_.packing();
    if (plan_.int8.method == plan::Int8Method::kGroup) {
      weights_.group_int8(ids, plan_.n_threads(), options.progress);
    } else if (packing.is_plain()) {
      if (plan_.packed_bytes > 0) {
        weights_.pack_int8(weights_.packable(ids, plan_.packed_bytes), plan_.n_threads(),
                           options.progress);
      }
      weights_.measure_int8(ids, plan_.n_threads(), options.progress);
    } else {
      weights_.pack_int8(ids, plan_.n_threads(), options.progress, packing);
    }
    pack_seconds_ = now_seconds() - start;
  }
  OutlierChannels outliers = make_channels(options, file_, blueprint_, weights_, plan_, int8_);
  weights_.set_channels(std::move(outliers.channels));
  channel_file_ = std::move(outliers.side_file);
  note_ = std::move(outliers.note);
  if (is_here && layouts_ == nullptr) {
    place_in_strips(file_, blueprint_, kernels_.table, plan_, &weights_, &pages_);
  }
}

}  // namespace troika::engine
