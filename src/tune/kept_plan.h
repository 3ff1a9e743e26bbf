// Keeps the plans of 'troika tune' for later runs in the folder of side files, by the content of
// the model file, the machine and the program.
#pragma once

#include <optional>
#include <string>

#include "gguf/file.h"
#include "kernels/choose.h"
#include "plan/plan_json.h"

namespace troika::tune {

// Returns what a plan's numbers and arithmetic depend on in the program: its version and kernels.
std::string program_name(const kernels::Kernels& kernels);

// Returns where the plan of a model on this machine is kept. Throws Error where there is no such
// folder.
std::string kept_plan_path(const gguf::File& model);

struct KeptPlan {
  std::string path;
  plan::PlanFile file;
};

// Returns the plan that is kept for this model here; empty where there is none. A plan that must
// not be used (damaged, made by another program or on another machine) counts as none, and
// `problem` gets a sentence that says why and what to do. Does not throw, and looks at the model
// only where some plan is kept.
std::optional<KeptPlan> find_kept_plan(const std::string& model_path, std::string* problem);

// Says why the plan must not be used here, and what to do: a device of it is gone, or is another
// one by now. Empty: it may. Loads the drivers of the plan's devices, if it has any.
std::string device_problem(const KeptPlan& kept);

// Writes by atomic rename, and returns the path. Throws Error.
std::string keep_plan(const gguf::File& model, const plan::PlanFile& file);

// Returns a text as "prompts int8 (token-shadow), chunks of 512, 2 threads".
std::string summary(const plan::Plan& plan);

}  // namespace troika::tune
