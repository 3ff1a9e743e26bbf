#include "engine/engine.h"

#include <chrono>

#include "base/cpu_features.h"
#include "engine/make_plan.h"
#include "engine/saved_plan.h"
#include "lanes/host/host_machine.h"
#include "model/architecture.h"

namespace troika::engine {
namespace {

double now_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

Engine::Engine(const Options& options)
    : started_(now_seconds()),
      file_(gguf::File::open(options.model)),
      blueprint_(model::read(file_)),
      tokenizer_(text::make_tokenizer(file_, {options.pre_tokenizer})),
      kernels_(kernels::choose(detect_cpu_features(), options.kernels)),
      weights_(file_, blueprint_),
      plan_(options.plan.empty() ? make_plan(options, blueprint_, weights_)
                                 : load_plan(options.plan, file_)),
      rope_angles_(blueprint_.rope),
      machine_(std::make_unique<lanes::HostMachine>(kernels_.table, plan_)),
      graphs_(blueprint_, plan_, *machine_, packed(options.progress)) {
  load_seconds_ = now_seconds() - started_;
}

Engine::~Engine() = default;

const weights::Store& Engine::packed(const ProgressFunction& progress) {
  if (plan_.prefill == plan::Prefill::kInt8 && plan_.chunk() > plan::kMostDecodeTokens) {
    const double start = now_seconds();
    weights_.pack_int8(weights::prompt_matrices(blueprint_), plan_.n_threads(), progress);
    pack_seconds_ = now_seconds() - start;
  }
  return weights_;
}

}  // namespace troika::engine
