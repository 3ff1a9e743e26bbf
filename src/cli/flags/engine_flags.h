// Holds the options of every command that runs a model. A flag is an option as it stands on the
// command line; prepare::Options is what the flags mean.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/options.h"
#include "prepare/options.h"

namespace troika::cli {

// Stands behind --cut for the cuts of least time, on a phone.
inline constexpr std::string_view kCutAuto = "auto";
inline constexpr std::string_view kCutMargin = "margin";

// Says whether --help lists the options of virtual phones, says where they are listed, or says
// nothing of them, because the command refuses them.
enum class PhoneHelp : unsigned char { kElsewhere, kListed, kNone };

// The options of every command that computes with a model.
struct EngineFlags {
  prepare::Options options;
  // What --lanes, --place, --lane-memory and --lane-busy mean depends on --machine.
  std::string lanes;
  std::vector<std::string> placements;
  std::vector<std::string> cuts;
  std::vector<std::string> lengths;
  std::vector<std::string> lane_limits;
  std::vector<std::string> lane_caps;
  std::vector<std::string> constants;
  // Says that the command writes plans, which keep what is given though it counts elsewhere.
  bool writes_plans = false;

  void add_to(Command& command, PhoneHelp phones = PhoneHelp::kElsewhere);
  // Is for commands that run as 'troika tune' found best, unless --no-plan forbids it.
  void add_kept_plan(Command& command);
  bool uses_kept_plan() const { return uses_kept_plan_; }
  // Throws UsageError for lanes that are not known, and for options that cannot do anything.
  prepare::Options checked() const;
  // Says whether the command line has this option: "--order".
  bool is_given(const std::string& name) const;

 private:
  const Command* command_ = nullptr;  // the command to which the flags were added
  bool uses_kept_plan_ = false;
};

// Returns the files that are read where a model runs with these options, and `more`: what a command
// must not write over.
std::vector<std::string> files_read(const prepare::Options& options,
                                    std::vector<std::string> more = {});
// Returns the same but for the plan, which a new one may replace: it has been read by then.
std::vector<std::string> files_read_for_plan(const prepare::Options& options,
                                             std::vector<std::string> more);

// These add the options that several commands have: how prompts, keys and values are computed. The
// variables must live as long as the command.
Option* add_prefill(Command& command, std::optional<plan::Prefill>& prefill,
                    const std::string& help);
Option* add_activations(Command& command, plan::Activations& activations);
Option* add_kv(Command& command, tensor::Type& type);
// Adds --lanes, the cores of this machine.
Option* add_cores(Command& command, std::vector<plan::PlannedLane>& lanes, const std::string& help);
Option* add_kernels(Command& command, std::string& name);

}  // namespace troika::cli
