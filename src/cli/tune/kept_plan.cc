#include "cli/tune/kept_plan.h"

#include <fmt/format.h>

#include "base/system.h"
#include "cli/output.h"
#include "tune/kept_plan.h"

namespace troika::cli {
namespace {

// Returns the option that asks for something else than the plan says; empty where none does.
// Options that lie over a plan (context, order, int8, ...) do not count.
std::string option_against(const EngineFlags& flags, const plan::Plan& plan) {
  const prepare::Options wanted = flags.checked();
  const auto differs = [&](const char* name, bool is_other) {
    return flags.is_given(name) && is_other;
  };
  const int n_threads = wanted.lanes.n_threads > 0 ? wanted.lanes.n_threads : usable_cores();
  const bool other_threads = plan.lanes.size() != 1 || plan.n_threads() != n_threads;
  if (differs("--threads", other_threads)) return "--threads";
  if (differs("--kv", wanted.memory.kv_type != plan.kv_type)) return "--kv";
  if (differs("--activations", wanted.activations != plan.activations)) return "--activations";
  const std::optional<plan::Prefill>& prefill = wanted.prompts.prefill;  // empty: auto
  if (differs("--prefill", prefill && *prefill != plan.prefill)) return "--prefill";
  for (const char* name : {"--lanes", "--place", "--lane-memory", "--lane-busy", "--packed",
                           "--layouts", "--kernels", "--strict-npu"}) {
    if (flags.is_given(name)) return name;
  }
  return {};
}

// Returns the plan that is kept for the model, if the flags allow it to count for anything.
std::optional<tune::KeptPlan> kept_for(const EngineFlags& flags) {
  const prepare::Options& options = flags.options;
  if (!options.plan.file.empty() || !options.memory.has_side_files || !prepare::is_here(options)) {
    return std::nullopt;
  }
  std::string problem;
  std::optional<tune::KeptPlan> kept = tune::find_kept_plan(options.model.file, &problem);
  if (!problem.empty()) note("note: the tuned plan is not used: " + problem + "\n");
  return kept;
}

// Heads are the model's, whatever computes them.
void take_heads(const plan::PromptAttention& attention, prepare::PromptChoice* prompts) {
  prompts->head_scales = attention.head_scales;
  prompts->head_shares = attention.head_shares;
}

}  // namespace

std::string day_of(const std::string& when) {
  constexpr const char* kMonths[] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                     "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  int year = 0, month = 0, day = 0;
  if (std::sscanf(when.c_str(), "%4d-%2d-%2dT", &year, &month, &day) != 3 || month < 1 ||
      month > 12) {
    return when;
  }
  return fmt::format("{} {} {}", day, kMonths[month - 1], year);
}

std::optional<plan::Plan> kept_plan(const EngineFlags& flags, prepare::PromptChoice* prompts) {
  if (!flags.uses_kept_plan()) return std::nullopt;
  const std::optional<tune::KeptPlan> kept = kept_for(flags);
  if (!kept) return std::nullopt;
  const plan::Plan& plan = kept->file.plan;
  if (const std::string option = option_against(flags, plan); !option.empty()) {
    note(
        fmt::format("note: {} is given, so the plan that 'troika tune' found ({}) is not used; "
                    "--no-plan says that without this note\n",
                    option, tune::summary(plan)));
    take_heads(plan.attention, prompts);
    return std::nullopt;
  }
  if (const std::string problem = tune::device_problem(*kept); !problem.empty()) {
    note("note: the tuned plan is not used: " + problem + "\n");
    take_heads(plan.attention, prompts);
    return std::nullopt;
  }
  note(fmt::format("Plan: tuned on {} ({}); --no-plan runs without it.\n",
                   day_of(kept->file.tuned->when), tune::summary(plan)));
  return plan;
}

void take_heads_of_kept_plan(const EngineFlags& flags, prepare::PromptChoice* prompts) {
  const std::optional<tune::KeptPlan> kept = kept_for(flags);
  if (kept) take_heads(kept->file.plan.attention, prompts);
}

}  // namespace troika::cli
