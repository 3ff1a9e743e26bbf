#include "prepare/plan/saved_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/system.h"
#include "plan/device.h"
#include "prepare/open_model.h"

namespace troika::prepare {
namespace {

// Hashes what stands before the weights in every shard of the model.
uint64_t hash_of_headers(const gguf::File& file) {
  Fnv hash;
  for (const gguf::File::Shard& shard : file.shards()) hash.add(header_of(shard));
  return hash.value();
}

std::string read_file(const std::string& path) {
  std::optional<std::string> text = read_whole_file(path, plan::kMostPlanBytes);
  if (!text) {
    throw Error(
        fmt::format("{}: the plan cannot be read; check the path, or make one with "
                    "'troika plan MODEL -o {}'.",
                    path, path));
  }
  return *std::move(text);
}

void check_identity(const std::string& path, const plan::PlanFor& made_for,
                    const plan::PlanFor& here, const std::string& advice) {
  const auto refuse = [&](const char* what, const std::string& theirs, const std::string& ours) {
    throw Error(fmt::format("{}: the plan was made for another {} ({}, and here is {}). {}", path,
                            what, theirs, ours, advice));
  };
  // The name of the file may change; what stands in it may not.
  if (made_for.model_bytes != here.model_bytes || made_for.model_hash != here.model_hash) {
    refuse("model", made_for.model, here.model);
  }
  if (made_for.machine != here.machine) refuse("machine", made_for.machine, here.machine);
}

}  // namespace

plan::PlanFor plan_identity(const gguf::File& file, const std::string& machine) {
  plan::PlanFor identity;
  identity.model = file.path();
  identity.model_bytes = file.file_bytes();
  identity.model_hash = fmt::format("{:016x}", hash_of_headers(file));
  identity.machine =
      !machine.empty() ? machine : fmt::format("{}, {} cores", processor_name(), usable_cores());
  return identity;
}

plan::PlanFile load_plan(const std::string& path, const plan::PlanFor& here,
                         const std::string& advice) {
  const std::string what_to_do =
      !advice.empty() ? advice : fmt::format("Make it again with 'troika plan MODEL -o {}'.", path);
  plan::PlanFile saved = plan::plan_from_json(read_file(path), path);
  check_identity(path, saved.made_for, here, what_to_do);
  const std::vector<int> usable = usable_core_numbers();
  for (const plan::PlannedLane& lane : saved.plan.lanes) {
    for (const int core : lane.cores) {
      if (std::find(usable.begin(), usable.end(), core) == usable.end()) {
        throw Error(fmt::format("{}: the plan uses core {}, which this process may not use. {}",
                                path, core, what_to_do));
      }
    }
  }
  return saved;
}

void check_is_here(const std::string& path, const plan::Plan& plan) {
  for (const plan::PlannedLane& lane : plan.lanes) {
    if (lane.kind == "host" || lane.is_device()) continue;
    throw Error(fmt::format(
        "{}: the plan has a lane of the kind '{}', a processor of a virtual phone, and this run is "
        "on this machine. Name lanes of the kinds host, {} in its 'lanes'.",
        path, lane.kind, plan::device_kind_names()));
  }
  const char* const part = plan.npu               ? "npu"
                           : plan.heads           ? "heads"
                           : plan.neurons         ? "neurons"
                           : plan.changes_layouts ? "changes_layouts"
                                                  : nullptr;
  if (part == nullptr) return;
  throw Error(fmt::format(
      "{}: the plan has '{}', which is for a virtual phone, and this run is on this machine. Leave "
      "it out of the plan.",
      path, part));
}

}  // namespace troika::prepare
