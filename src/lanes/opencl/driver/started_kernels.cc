#include "lanes/opencl/driver/started_kernels.h"

namespace troika::lanes::opencl {

Int StartedKernels::take_problem() {
  Int problem = kOk;
  for (const Event event : events_) {
    Int state = kOk;
    const Int asked = api_->event_info(event, kEventStatus, sizeof(state), &state, nullptr);
    if (problem == kOk) problem = asked != kOk ? asked : state < kComplete ? state : kOk;
    api_->release_event(event);
  }
  events_.clear();
  return problem;
}

}  // namespace troika::lanes::opencl
