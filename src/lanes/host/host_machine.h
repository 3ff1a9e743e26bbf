// This machine as the engine sees it: lanes on cores of their own, and devices.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "kernels/kernels.h"
#include "lanes/disk/disk_lane.h"
#include "lanes/int8_rule.h"
#include "lanes/machine.h"
#include "plan/plan.h"

namespace troika::lanes {

// Makes the lane of a device (plan/device.h), or throws Error.
using DeviceMaker = std::function<std::unique_ptr<Lane>(const plan::PlannedLane&)>;

class HostMachine : public Machine {
 public:
  // A single lane works on the calling thread; several lanes have a thread each. `kernels` must
  // outlive the machine, and the rules must live until executables are built. Where a file of
  // columns is given, one more lane that reads columns stands behind the plan's. Throws Error where
  // that file cannot be opened. REQUIRES: the plan has no devices, or there is a maker of them.
  HostMachine(const kernels::Table& kernels, const plan::Plan& plan,
              const Int8Rules* int8_rules = nullptr, const DiskOptions* channels = nullptr,
              const DeviceMaker& make_device = nullptr);

  std::span<Lane* const> lanes() const override { return lanes_; }
  const Clock& clock() const override { return clock_; }
  void wait(const Latch& latch) override { latch.wait(); }

 private:
  RealClock clock_;
  std::vector<std::unique_ptr<Lane>> owned_;
  std::vector<Lane*> lanes_;
};

}  // namespace troika::lanes
