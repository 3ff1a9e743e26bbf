// Measures what each lane of a machine can do (H1, H9 of docs/techniques.md). Everything goes
// through the interface of lanes, so that a virtual machine is profiled like a real one.
#pragma once

#include <limits>
#include <vector>

#include "base/clock.h"
#include "base/progress.h"
#include "lanes/machine.h"
#include "plan/profile.h"
#include "solve/profile/op_bench.h"

namespace troika::solve {

struct ProfileOptions {
  std::vector<plan::OpShape> shapes;  // the shapes that are wanted, the important ones first
  // The time of `wall` for the ops; when it is spent, only one of each kind is measured.
  double budget_us = 40e6;
  size_t arena_bytes = 0;  // 0: several times the last cache
  Patience patience;
  int n_visits = 3;  // counts visits to each op, with all others in between; the median counts
  // Kept times that were taken under more load than this are taken again.
  double doubted_load = std::numeric_limits<double>::infinity();
  double busy_load = 0.0;  // is noted beside each time that is taken: see plan::OpTime
};

// `kept`, if not null, is a profile of the same lanes: what it holds is not measured again, unless
// something disturbed it. Then this comes behind what is missing, and the lesser time stays, as one
// that nothing disturbed if nothing does now. The
// caller fills in the machine's identity, cores and storage. `wall` is the time that the user
// waits, which a virtual machine's clock is not.
plan::Profile profile_machine(lanes::Machine& machine, const ProfileOptions& options,
                              const plan::Profile* kept, const Clock& wall,
                              const ProgressFunction& progress);

// Returns what a profile says of the lanes of a machine.
std::vector<plan::ProfileLane> profile_lanes(const lanes::Machine& machine);

// Measures the rates of a machine with a single lane on one core.
plan::CoreRate measure_core(lanes::Machine& machine, int core, size_t arena_bytes);

}  // namespace troika::solve
