// OpenCL's library, found and loaded when a plan wants it, and the devices that it knows.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lanes/opencl/driver/opencl_api.h"

namespace troika::lanes::opencl {

// One device of one of the platforms, as it describes itself.
struct DeviceEntry {
  DeviceId id = nullptr;
  std::string name, platform, version, driver;
  // Says why lanes cannot use the device, to stand behind its name; empty: they can.
  std::string refusal;
  bool is_cpu = false;
  // Whether the device shares memory with the processor that this program runs on.
  bool shares_memory = false;
  // Whether sums and products of floats, and floats of whole numbers, are the nearest ones.
  bool rounds_to_nearest = false;
  // Whether the device rounds divisions and roots correctly where a program asks for that.
  bool rounds_divisions = false;
  // Whether the device multiplies 4 bytes with 4 and adds the products
  // (cl_khr_integer_dot_product).
  bool has_dots = false;
  // Whether the device computes in half floats (cl_khr_fp16).
  bool has_halves = false;
  size_t most_group_items = 0;  // counts work items that may share memory
  size_t most_group_side = 0;   // counts them along the second and the third dimension
  size_t most_allocation_bytes = 0;
  uint64_t memory_bytes = 0;

  std::string identity() const {
    return name + " of " + platform + ", " + version + ", driver " + driver;
  }
};

// OpenCL's library. Threads may take turns with it.
class Library {
 public:
  // Loads a file; an empty name means the library that the system finds. Throws Error, with what to
  // do, where there is none.
  explicit Library(const std::string& file);
  // Uses functions from elsewhere, for tests.
  explicit Library(const Api& api) : api_(api) {}

  const Api& api() const { return api_; }
  // Returns the devices of all platforms, also those that lanes cannot use: their places in this
  // list are the numbers behind "opencl:". A driver may start its threads here.
  std::vector<DeviceEntry> devices() const;
  // Returns a device by its number. Throws an Error that lists the devices that can be used where
  // none has the number, and one that says why where this one cannot be used.
  DeviceEntry device(int number) const;

 private:
  DeviceEntry describe(Platform platform, DeviceId id) const;
  std::string refusal_of(const DeviceEntry& entry) const;

  Api api_ = {};
};

// Returns the name of an error, for people: "CL_OUT_OF_RESOURCES".
std::string status_name(Int status);
// Throws an Error that says what could not be done, and why, unless the status is kOk.
void check(Int status, std::string_view what);

}  // namespace troika::lanes::opencl
