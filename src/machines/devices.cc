#include "machines/devices.h"

#include <fmt/format.h>

#include "base/error.h"

namespace troika::machines {
namespace {

[[noreturn]] void refuse(const plan::HostLane& lane) {
  throw Error(fmt::format(
      "The lane {}: this program has no lanes of the kind '{}' yet. Leave it out of ‹lanes›.",
      plan::lane_text(lane), lane.kind));
}

}  // namespace

std::unique_ptr<lanes::Lane> make_device_lane(const plan::HostLane& lane,
                                              const plan::Plan& /*plan*/,
                                              const lanes::Int8Rules* /*int8_rules*/) {
  refuse(lane);
}

void check_devices(const plan::Plan& plan) {
  for (const plan::HostLane& lane : plan.lanes) {
    if (lane.is_device()) refuse(lane);
  }
}

}  // namespace troika::machines
