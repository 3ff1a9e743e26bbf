#include "measure/profile_here.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <thread>

#include "base/cache_folder.h"
#include "base/cpu_features.h"
#include "base/error.h"
#include "base/system.h"
#include "base/utc.h"
#include "kernels/choose.h"
#include "lanes/host/host_machine.h"
#include "machines/devices.h"
#include "model/architecture.h"
#include "plan/profile_cache.h"
#include "prepare/layouts/weight_strips.h"
#include "prepare/plan/make_plan.h"
#include "solve/predict_pass.h"
#include "solve/profile/op_shapes.h"
#include "solve/profile/profile_machine.h"
#include "solve/profile/profile_storage.h"

namespace troika::measure {
namespace {

using plan::OpShape;

plan::Plan lanes_of(const ProfileRequest& request) {
  plan::Plan plan;
  plan.activations = request.activations;
  plan.prefill = request.prefill;
  plan.kv_type = request.kv_type;
  prepare::check_lanes(request.lanes);
  plan.lanes = prepare::choose_lanes(request.lanes);
  return plan;
}

// Says whether there is no such file, but a known model of this name.
bool is_known_name(const std::string& model) {
  std::error_code ignored;
  return !std::filesystem::exists(model, ignored) && model::find_known(model) != nullptr;
}

std::vector<OpShape> shapes_of_model(const std::string& model, const ProfileRequest& request) {
  if (is_known_name(model)) {
    return solve::model_shapes(*model::find_known(model), request.type, request.kv_type);
  }
  const gguf::File file = gguf::File::open(model);
  const model::Blueprint blueprint = model::read(file);
  return solve::model_shapes(blueprint, weights::Store(file, blueprint), request.kv_type);
}

std::vector<OpShape> wanted_shapes(const ProfileRequest& request) {
  std::vector<OpShape> shapes;
  const auto append = [&](const std::vector<OpShape>& more) {
    shapes.insert(shapes.end(), more.begin(), more.end());
  };
  for (const std::string& model : request.models) {
    const std::vector<OpShape> of_model = shapes_of_model(model, request);
    append(of_model);
    if (request.lanes.cores.size() > 1) append(solve::part_shapes(of_model));
  }
  append(solve::stage_shapes(request.type));
  append(solve::order_shapes(request.type));
  append(solve::grid_shapes(request.type, request.kv_type));
  return shapes;
}

// Says whether a copy of a model has the rows that these kernels multiply side by side.
bool has_strips(const kernels::Kernels& kernels, const plan::Plan& plan) {
  return prepare::reads_strips(plan) &&
         kernels::find(kernels.table.matmul_q8_strips, tensor::Type::kQ4_0) != nullptr;
}

// Returns the name of the kernels that multiply, and of the form in which they find weights.
std::string arithmetic_name(const kernels::Kernels& kernels, const plan::Plan& plan) {
  std::string implementation = "reference";
  for (const kernels::KernelChoice& choice : kernels.choices) {
    if (choice.function.rfind("matmul", 0) == 0) {
      implementation = choice.implementation;
      break;
    }
  }
  return fmt::format("{}, {}, prompts {}{}", implementation,
                     plan::activations_name(plan.activations), plan::prefill_name(plan.prefill),
                     has_strips(kernels, plan) ? ", rows side by side" : "");
}

double load_average() {
  std::ifstream file("/proc/loadavg");
  double load = 0.0;
  file >> load;
  return load;
}

// Measures each core alone, on a thread that is bound to it: a lane of one thread works on its
// caller's.
std::vector<plan::CoreRate> measure_cores(const kernels::Table& kernels, plan::Plan plan,
                                          const ProgressFunction& progress) {
  const std::vector<int> cores = usable_core_numbers();
  std::vector<plan::CoreRate> rates;
  for (const int core : cores) {
    std::exception_ptr failure;
    std::thread thread([&] {
      try {
        bind_to_cores(std::vector<int>{core});
        plan.lanes = {{{core}, 1}};
        lanes::HostMachine machine(kernels, plan);
        rates.push_back(solve::measure_core(machine, core, 0));
      } catch (...) {
        failure = std::current_exception();
      }
    });
    thread.join();
    if (failure) std::rethrow_exception(failure);
    progress(rates.size(), cores.size());
  }
  return rates;
}

// Throws Error where a lane refuses an op of a pass, and could not run it by itself.
void check_runs(const plan::Profile& profile, int lane, const model::Blueprint& blueprint,
                const weights::Store& weights, const solve::PassShape& pass) {
  for (const model::Op& op : blueprint.ops) {
    const bool per_output = blueprint.values[static_cast<size_t>(op.output)].per_output;
    const plan::Shape built = {per_output ? plan::Phase::kStep : pass.phase,
                               per_output ? pass.n_outputs : pass.n_tokens};
    const OpShape shape =
        solve::shape_of(blueprint, op, weights, pass.kv_type, built, pass.context);
    if (!profile.refuses(lane, shape.op, shape.phase)) continue;
    throw Error(fmt::format(
        "Lane {} refuses the op '{}' (phase {}), so it runs no such pass by itself; 'troika plan "
        "MODEL --choose' chooses lanes for all ops.",
        lane, model::op_kind_name(shape.op), plan::phase_name(shape.phase)));
  }
}

// Is the share of a kept time's load below which it is taken again.
constexpr double kWorthAnotherTime = 0.5;

plan::Storage measure_storage(const std::string& way_out, const ProgressFunction& progress) {
  solve::StorageOptions options;
  options.folder = cache_folder();
  options.way_out = way_out;
  make_kept_folder(options.folder, way_out);
  return solve::profile_storage(options, progress);
}

// Notes beside each op that the machine was busy, where a profile says so of all ops together.
void doubt_all_ops(plan::Profile* kept) {
  if (kept->load_average <= kept->machine.n_cores) return;
  for (const plan::OpTime& time : kept->ops) {
    if (time.busy_load > 0.0) return;
  }
  for (plan::OpTime& time : kept->ops) time.busy_load = kept->load_average;
}

// Fills in what a profile has of the kept one.
void take_from_kept(const plan::Profile& kept, double load, plan::Profile* profile) {
  const bool was_busy = kept.load_average > kept.machine.n_cores;
  profile->load_average = was_busy ? load : std::max(load, kept.load_average);
  for (const plan::OpTime& time : profile->ops) {
    profile->load_average = std::max(profile->load_average, time.busy_load);
  }
  if (profile->n_measured == 0) {
    profile->taken = kept.taken;
    profile->load_average = kept.load_average;
  }
  profile->cores = kept.cores;
  profile->storage = kept.storage;
}

}  // namespace

std::optional<tensor::Type> main_type_of(const std::string& model) {
  if (is_known_name(model)) return std::nullopt;
  const gguf::File file = gguf::File::open(model);
  return weights::Store(file, model::read(file)).main_type();
}

ProfileResult profile_here(const ProfileRequest& request, const StageFunction& stage) {
  const kernels::Kernels kernels = kernels::choose(detect_cpu_features(), request.kernels);
  const plan::Plan plan = lanes_of(request);
  solve::ProfileOptions options;
  options.shapes = wanted_shapes(request);
  options.budget_us = request.budget_s * 1e6;
  if (plan.prefill == plan::Prefill::kInt8) options.patience.pack_threads = plan.n_threads();
  options.patience.in_strips = has_strips(kernels, plan);
  plan::MachineIdentity identity = plan::this_machine();
  identity.arithmetic = arithmetic_name(kernels, plan);

  lanes::HostMachine machine(
      kernels.table, plan, nullptr, nullptr, [&](const plan::PlannedLane& lane) {
        return machines::make_device_lane(kernels.table, lane, plan, nullptr, request.use_cache);
      });
  const bool may_keep = request.use_cache && request.keeps;
  if (may_keep) check_kept_file(plan::kept_profile_path(identity, solve::profile_lanes(machine)));
  ProfileResult result;
  std::optional<plan::Profile> kept;
  if (request.use_cache && !request.again) {
    kept = plan::kept_profile(identity, solve::profile_lanes(machine), &result.problem);
  }
  const double load = load_average();
  if (kept) doubt_all_ops(&*kept);
  // Where more wanted to run than there are cores, every time is too long.
  options.doubted_load = std::max<double>(identity.n_cores, load / kWorthAnotherTime);
  options.busy_load = load > identity.n_cores ? load : 0.0;
  const RealClock clock;
  result.profile = solve::profile_machine(machine, options, kept ? &*kept : nullptr, clock,
                                          stage("ops on lanes"));
  plan::Profile& profile = result.profile;
  result.n_measured = profile.n_measured;
  profile.machine = identity;
  profile.taken = utc_now();
  profile.load_average = load;
  if (kept) take_from_kept(*kept, load, &profile);
  if (request.with_cores && profile.cores.empty()) {
    profile.cores = measure_cores(kernels.table, plan, stage("cores"));
  }
  const auto keep = [&] {
    if (!may_keep || profile.ops.empty()) return;
    try {
      result.kept_path = plan::keep_profile(profile);
    } catch (const Error& error) {  // the disk may have become full
      result.keep_problem = error.what();
    }
  };
  keep();
  if (request.with_storage && !profile.storage) {
    profile.storage = measure_storage(request.storage_way_out, stage("storage"));
    keep();
  }
  return result;
}

std::optional<plan::Profile> kept_profile_of(engine::Engine& engine, std::string* problem) {
  plan::MachineIdentity identity = plan::this_machine();
  identity.arithmetic = arithmetic_name(engine.kernels(), engine.plan());
  return plan::kept_profile(identity, solve::profile_lanes(engine.machine()), problem);
}

PassPredictions predict_passes(const plan::Profile& profile, const std::vector<std::string>& models,
                               tensor::Type kv_type) {
  const solve::CostPredictor predictor(profile);
  PassPredictions found;
  const auto add_problem = [&](const std::string& problem) {
    if (std::find(found.problems.begin(), found.problems.end(), problem) == found.problems.end()) {
      found.problems.push_back(problem);
    }
  };
  for (const std::string& model : models) {
    if (is_known_name(model)) {
      add_problem(fmt::format(
          "{} is a name without a file, so no pass of it is predicted. Name a file.", model));
      continue;
    }
    const gguf::File file = gguf::File::open(model);
    const model::Blueprint blueprint = model::read(file);
    const weights::Store weights(file, blueprint);
    for (int lane = 0; lane < static_cast<int>(profile.lanes.size()); ++lane) {
      for (const solve::PassShape& pass :
           {solve::PassShape{kv_type, 128, 1, 128, plan::Phase::kPrompt},
            solve::PassShape{kv_type, 512, 1, 512, plan::Phase::kPrompt},
            solve::PassShape{kv_type, 1, 1, 129, plan::Phase::kStep}}) {
        try {
          check_runs(profile, lane, blueprint, weights, pass);
          found.passes.push_back(
              {model, lane, pass.n_tokens, pass.context,
               solve::predict_pass_us(predictor, lane, blueprint, weights, pass)});
        } catch (const Error& error) {
          add_problem(error.what());
        }
      }
    }
  }
  return found;
}

}  // namespace troika::measure
