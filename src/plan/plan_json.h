// The plan as a JSON file that a person can read and edit (docs/plan.md).
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "plan/plan.h"

namespace troika::plan {

// Says what a plan was made for. A plan made for another model or machine is not used silently.
struct PlanFor {
  std::string model;         // names the file, for people
  uint64_t model_bytes = 0;  // the file's size
  std::string model_hash;    // hashes the file's header: sizes, metadata, tensor descriptions
  std::string machine;       // names the processor and its number of cores

  bool operator==(const PlanFor&) const = default;
};

// Says how 'troika tune' came by a plan that it keeps for later runs.
struct Tuned {
  std::string when;  // "2026-11-22T22:15:00Z"
  // Version and kernels of the program: another program's plan is not used unless asked for.
  std::string program;
  std::string model_key;  // the key of the model's content
  // Names the devices that the plan has lanes of; empty: it has none.
  std::string devices = {};

  bool operator==(const Tuned&) const = default;
};

struct PlanFile {
  PlanFor made_for;
  Plan plan;
  std::optional<Tuned> tuned = std::nullopt;
};

inline constexpr int kPlanVersion = 2;
// Limits the bytes of a file. Those of a calibration with SmoothQuant are the largest: four for
// each channel of each input.
inline constexpr uint64_t kMostPlanBytes = uint64_t{64} << 20;

std::string to_json(const PlanFile& file);
// Throws Error that names file and field for whatever is not a plan. `name` stands for the file in
// messages.
PlanFile plan_from_json(const std::string& text, const std::string& name);

}  // namespace troika::plan
