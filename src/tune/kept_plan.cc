#include "tune/kept_plan.h"

#include <fmt/format.h>

#include <filesystem>

#include "base/atomic_file.h"
#include "base/cache_folder.h"
#include "base/cpu_features.h"
#include "base/error.h"
#include "base/hash.h"
#include "machines/devices.h"
#include "prepare/plan/saved_plan.h"
#include "weights/content_key.h"

namespace troika::tune {
namespace {

namespace fs = std::filesystem;

// Is the version of how numbers are computed. Another version makes earlier plans stale. Count it
// up when prompts or steps compute something else by the same plan.
constexpr int kNumericsVersion = 4;
constexpr const char* kPrefix = "plan-";

std::string key_of(const gguf::File& model) {
  return fmt::format("{:016x}", weights::content_key(model));
}

// Names the processor, its cores and its instructions.
uint64_t machine_hash(const gguf::File& model) {
  Fnv hash;
  hash.add(prepare::plan_identity(model).machine);
  hash.add(to_string(detect_cpu_features()));
  return hash.value();
}

std::string path_of(const std::string& key, uint64_t machine) {
  return fmt::format("{}/{}{}-{:016x}.json", cache_folder(), kPrefix, key, machine);
}

// Returns the name of a file in the folder of side files that begins so; empty where there is none.
std::string any_that_begins(const std::string& folder, const std::string& prefix) {
  std::error_code failure;
  for (auto entry = fs::directory_iterator(folder, failure);
       !failure && entry != fs::directory_iterator(); entry.increment(failure)) {
    const std::string name = entry->path().filename().string();
    if (name.starts_with(prefix) && name.ends_with(".json")) return name;
  }
  return {};
}

std::string advice_for(const std::string& path) {
  return fmt::format(
      "'troika tune MODEL' makes it again, 'troika cache --remove {}' takes it away.",
      fs::path(path).filename().string());
}

KeptPlan read(const std::string& path, const gguf::File& model, const std::string& key) {
  const std::string advice = advice_for(path);
  KeptPlan kept;
  kept.path = path;
  try {
    kept.file = prepare::load_plan(path, prepare::plan_identity(model), advice);
  } catch (const Error& error) {
    const std::string what = error.what();
    throw Error(what.ends_with(advice) ? what : what + " " + advice);
  }
  const std::string program = program_name(kernels::choose(detect_cpu_features()));
  if (!kept.file.tuned || kept.file.tuned->model_key != key) {
    throw Error(fmt::format("{}: says of itself that it is of another model. {}", path, advice));
  }
  if (kept.file.tuned->program != program) {
    throw Error(fmt::format("{}: was made by {}, and this is {}. {}", path,
                            kept.file.tuned->program, program, advice));
  }
  return kept;
}

std::optional<KeptPlan> find(const std::string& folder, const gguf::File& model) {
  const std::string key = key_of(model);
  const std::string path = path_of(key, machine_hash(model));
  std::error_code ignored;
  const fs::file_status state = fs::status(path, ignored);
  if (fs::is_regular_file(state)) return read(path, model, key);
  if (fs::exists(state)) {  // reading a pipe might never end
    throw Error(fmt::format("{}: is no file. Remove it; 'troika tune MODEL' makes a plan.", path));
  }
  const std::string other = any_that_begins(folder, kPrefix + key);
  if (other.empty()) return std::nullopt;
  throw Error(
      fmt::format("{}/{}: was made on another machine. 'troika tune MODEL' makes a plan for this "
                  "one.",
                  folder, other));
}

}  // namespace

std::string program_name(const kernels::Kernels& kernels) {
  return fmt::format("troika {} (numerics {}, plans {}, kernels {:08x})", TROIKA_VERSION,
                     kNumericsVersion, plan::kPlanVersion,
                     static_cast<uint32_t>(hash_of(kernels::describe(kernels))));
}

std::string kept_plan_path(const gguf::File& model) {
  return path_of(key_of(model), machine_hash(model));
}

std::optional<KeptPlan> find_kept_plan(const std::string& model_path, std::string* problem) {
  std::error_code ignored;
  std::string folder;
  std::optional<gguf::File> model;
  try {
    folder = cache_folder();
    if (any_that_begins(folder, kPrefix).empty()) return std::nullopt;
    if (!fs::is_regular_file(model_path, ignored)) return std::nullopt;
    model = gguf::File::open(model_path);
  } catch (const Error&) {
    // Without a folder nothing is kept. Whoever runs the model is told what is wrong with it.
    return std::nullopt;
  }
  try {
    return find(folder, *model);
  } catch (const Error& error) {
    *problem = error.what();
  }
  return std::nullopt;
}

std::string device_problem(const KeptPlan& kept) {
  const std::string& before = kept.file.tuned->devices;
  std::string here;
  try {
    here = machines::device_identities(kept.file.plan);
  } catch (const Error& error) {
    return fmt::format("{}: has a device that cannot be used. {} {}", kept.path, error.what(),
                       advice_for(kept.path));
  }
  if (here == before) return {};
  return fmt::format("{}: was made for other devices ({}; here: {}). {}", kept.path,
                     before.empty() ? "none" : before, here, advice_for(kept.path));
}

std::string keep_plan(const gguf::File& model, const plan::PlanFile& file) {
  const std::string path = kept_plan_path(model);
  make_kept_folder(fs::path(path).parent_path().string());
  write_file(path, plan::to_json(file));
  return path;
}

std::string summary(const plan::Plan& plan) {
  std::string prompts = plan::prefill_name(plan.prefill);
  if (plan.prefill == plan::Prefill::kInt8) {
    prompts += fmt::format(" ({})", plan::int8_method_name(plan.int8.method));
  }
  const int n_threads = plan.n_threads();
  std::string lanes = fmt::format("{} thread{}", n_threads, n_threads == 1 ? "" : "s");
  if (plan.lanes.size() > 1) lanes = fmt::format("{} lanes", plan.lanes.size());
  return fmt::format("prompts {}, chunks of {}, {}{}", prompts, plan.chunk(), lanes,
                     plan.attention.is_sparse() ? ", sparse attention" : "");
}

}  // namespace troika::tune
