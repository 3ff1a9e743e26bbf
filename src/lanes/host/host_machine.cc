#include "lanes/host/host_machine.h"

#include "base/error.h"
#include "lanes/capped_lane.h"
#include "lanes/disk/channel_lane.h"
#include "lanes/host/host_lane.h"
#include "lanes/threaded_lane.h"

namespace troika::lanes {

HostMachine::HostMachine(const kernels::Table& kernels, const plan::Plan& plan,
                         const Int8Rules* int8_rules, const DiskOptions* channels,
                         const DeviceMaker& make_device) {
  for (const plan::PlannedLane& lane : plan.lanes) {
    std::unique_ptr<Lane> made;
    if (lane.is_device()) {
      TROIKA_ASSERT(make_device != nullptr);
      made = make_device(lane);
    } else {
      made = std::make_unique<HostLane>(kernels, lane, plan.activations, plan.prefill, int8_rules,
                                        plan.attention);
    }
    if (lane.is_capped()) {
      made = std::make_unique<CappedLane>(std::move(made), lane.busy_share(), clock_);
    }
    // A lane with a queue has a thread of its own already.
    if (plan.lanes.size() > 1 && made->info().queue_depth == 1) {
      made = std::make_unique<ThreadedLane>(std::move(made), plan.handover);
    }
    lanes_.push_back(made.get());
    owned_.push_back(std::move(made));
  }
  if (channels == nullptr) return;
  owned_.push_back(std::make_unique<ChannelLane>(*channels));
  lanes_.push_back(owned_.back().get());
}

}  // namespace troika::lanes
