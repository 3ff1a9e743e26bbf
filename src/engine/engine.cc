#include "engine/engine.h"

#include <fmt/format.h>

#include <chrono>
#include <filesystem>

#include "base/cpu_features.h"
#include "base/error.h"
#include "engine/make_plan.h"
#include "engine/outlier_channels.h"
#include "engine/phone_setup.h"
#include "engine/saved_plan.h"
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
  plan::Plan plan = load_plan(options.plan, plan_identity(file));
  apply_chunk_options(options, &plan);
  return plan;
}

}  // namespace

Engine::Engine(const Options& options)
    : started_(begin(options)),
      has_values_(is_here(options) || options.has_values),
      hollow_(make_hollow(options)),
      file_(hollow_ != nullptr ? hollow_->open() : gguf::File::open(options.model)),
      blueprint_(model::read(file_)),
      tokenizer_(make_tokenizer(file_, options, hollow_ != nullptr)),
      kernels_(kernels::choose(detect_cpu_features(), options.kernels)),
      weights_(file_, blueprint_),
      phone_setup_(is_here(options) ? nullptr
                                    : make_phone_setup(options, file_, blueprint_, weights_)),
      plan_(phone_setup_ != nullptr ? phone_setup_->plan
            : options.made_plan     ? *options.made_plan
            : options.plan.empty()  ? make_plan(options, blueprint_, weights_)
                                    : loaded_plan(options, file_)),
      pages_(has_values_ ? place_weights(options, file_) : WeightPages()),
      int8_(options, blueprint_, weights_, &plan_),
      rope_angles_(blueprint_.ropes, plan_.context),
      machine_(make_machine(options)),
      graphs_(blueprint_, plan_, *machine_, weights_,
              {.has_values = has_values_,
               .shadow = phone_setup_ != nullptr ? phone_setup_->shadow : schedule::ShadowOptions(),
               .is_op_by_op = options.is_op_by_op}) {
  if (options.is_strict_npu) check_static_scales(*machine_, has_values_);
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

void Engine::set_trace(Trace* trace) {
  trace_ = trace;
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
  if (is_here && plan_.prefill == plan::Prefill::kInt8 && plan_.chunk() > plan::kMostDecodeTokens) {
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
}

}  // namespace troika::engine
