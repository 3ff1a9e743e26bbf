#include "lanes/host/host_machine.h"

#include "lanes/disk/channel_lane.h"
#include "lanes/host/host_lane.h"
#include "lanes/threaded_lane.h"

namespace troika::lanes {

HostMachine::HostMachine(const kernels::Table& kernels, const plan::Plan& plan,
                         const Int8Rules* int8_rules, const DiskOptions* channels) {
  for (const plan::HostLane& lane : plan.lanes) {
    std::unique_ptr<Lane> host =
        std::make_unique<HostLane>(kernels, lane, plan.activations, plan.prefill, int8_rules);
    if (plan.lanes.size() > 1) host = std::make_unique<ThreadedLane>(std::move(host));
    lanes_.push_back(host.get());
    owned_.push_back(std::move(host));
  }
  if (channels == nullptr) return;
  owned_.push_back(std::make_unique<ChannelLane>(*channels));
  lanes_.push_back(owned_.back().get());
}

}  // namespace troika::lanes
