// Makes lanes of devices, of the kinds that this program knows.
#pragma once

#include <memory>
#include <string>

#include "kernels/kernels.h"
#include "lanes/int8_rule.h"
#include "lanes/lane.h"
#include "plan/plan.h"

namespace troika::machines {

// Makes the lane of a device. Throws Error, with what to do, where this program has no lanes of the
// kind, or the device is not there. `kernels` must outlive the lane, and the rules must live until
// executables are built; null: there are no rules. `keeps_programs` says that what an OpenCL driver
// compiles is kept for later runs.
std::unique_ptr<lanes::Lane> make_device_lane(const kernels::Table& kernels,
                                              const plan::PlannedLane& lane, const plan::Plan& plan,
                                              const lanes::Int8Rules* int8_rules,
                                              bool keeps_programs);

// Says which devices a plan has lanes of, with the versions of their drivers: what was measured
// with others is not taken for theirs. Empty: it has none. Throws the Error that `make_device_lane`
// would throw.
std::string device_identities(const plan::Plan& plan);
// Throws the same, and an Error where no lane computes prompts as the plan says, before other work
// takes time.
void check_devices(const plan::Plan& plan);

}  // namespace troika::machines
