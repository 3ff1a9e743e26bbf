// OpenCL's library, found and loaded when it is wanted, and the devices that it knows.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lanes/opencl/opencl_api.h"

namespace troika::lanes::opencl {

// One device of one of the platforms, as it describes itself.
struct DeviceEntry {
  DeviceId id = nullptr;
  std::string name, platform, version, driver;
  bool is_cpu = false;
  bool shares_memory = false;     // with the processor that this program runs on
  bool rounds_divisions = false;  // and roots, correctly, where it is told to
  size_t most_allocation_bytes = 0;
};

// Threads may take turns with it.
class Library {
 public:
  // A file; empty: the one that the system finds by its name. Throws Error, with what to do, where
  // there is none.
  explicit Library(const std::string& file);
  // Functions from elsewhere, for tests.
  explicit Library(const Api& api) : api_(api) {}

  const Api& api() const { return api_; }
  // Those that can be computed with, over all platforms: their places are the numbers behind
  // "opencl:". A driver may start its threads here.
  std::vector<DeviceEntry> devices() const;
  // Throws Error that lists the devices where there is none of that number, or it cannot be used.
  DeviceEntry device(int number) const;

 private:
  DeviceEntry describe(Platform platform, DeviceId id) const;

  Api api_ = {};
};

// What an error is called, for people: "CL_OUT_OF_RESOURCES".
std::string status_name(Int status);
// Throws Error that says what could not be done, and why.
void check(Int status, std::string_view what);

}  // namespace troika::lanes::opencl
