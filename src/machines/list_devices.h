// Lists the devices of this machine that lanes may name.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace troika::machines {

struct ListedDevice {
  std::string lane;  // is what ‹lanes› calls it, as "opencl:0"
  std::string kind;
  int number = 0;  // counts the devices of its kind
  std::string name;
  uint64_t memory_bytes = 0;  // 0: the device does not say, or shares that of the cores
  std::string refusal;        // says why no lane can use it, behind its name; empty: one can
};

// A kind of device without a runtime here.
struct MissingRuntime {
  std::string kind;
  std::string problem;  // is a sentence, with what to do
};

struct DeviceList {
  std::vector<ListedDevice> devices;
  std::vector<MissingRuntime> missing;
};

// Asks each runtime that this program knows. Their drivers may start threads.
DeviceList list_devices();

}  // namespace troika::machines
