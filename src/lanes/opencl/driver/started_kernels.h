// Remembers kernels that were put into a device's queue, until somebody asks how they ended. A
// command that waits for the end of the whole queue does not say whether what came before it
// failed, and with PoCL 3.1 one that waits for the event of a kernel that failed never ends.
#pragma once

#include <vector>

#include "lanes/opencl/driver/opencl_api.h"

namespace troika::lanes::opencl {

// One thread at a time uses it. Must not outlive the functions of the driver.
class StartedKernels {
 public:
  explicit StartedKernels(const Api& api) : api_(&api) {}
  ~StartedKernels() { take_problem(); }
  StartedKernels(const StartedKernels&) = delete;
  StartedKernels& operator=(const StartedKernels&) = delete;

  void add(Event event) { events_.push_back(event); }
  // Returns kOk, or how one of the kernels failed, and forgets them. REQUIRES: they have ended.
  Int take_problem();
  void swap(StartedKernels& other) { events_.swap(other.events_); }

 private:
  const Api* api_;
  std::vector<Event> events_;
};

}  // namespace troika::lanes::opencl
