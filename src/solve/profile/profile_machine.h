// Measures what each lane of a machine can do (H1, H9 of docs/techniques.md). Everything goes
// through the door of lanes, so that a virtual machine is profiled like a real one.
#pragma once

#include <vector>

#include "base/clock.h"
#include "base/progress.h"
#include "lanes/machine.h"
#include "plan/profile.h"
#include "solve/profile/op_bench.h"

namespace troika::solve {

struct ProfileOptions {
  std::vector<plan::OpShape> shapes;  // wanted, the important ones first
  double budget_us = 40e6;            // of `wall`, for the ops; then only one of each kind
  size_t arena_bytes = 0;             // 0: several times the last cache
  Patience patience;
  int n_visits = 3;  // to each op, with all others in between; the median counts
};

// `kept`, if not null, is a profile of the same lanes: what it holds is not measured again. The
// machine's identity is the caller's to fill in, as are cores and storage. `wall` is the time that
// the user waits, which a virtual machine's clock is not.
plan::Profile profile_machine(lanes::Machine& machine, const ProfileOptions& options,
                              const plan::Profile* kept, const Clock& wall,
                              const ProgressFunction& progress);

// What a profile says of the lanes of a machine.
std::vector<plan::ProfileLane> profile_lanes(const lanes::Machine& machine);

// Rates of a machine with a single lane on one core.
plan::CoreRate measure_core(lanes::Machine& machine, int core, size_t arena_bytes);

}  // namespace troika::solve
