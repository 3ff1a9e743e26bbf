// Which of its kernels a lane takes: those that need an extension of the device, or others.
#pragma once

#include <string>

#include "lanes/opencl/driver/device.h"
#include "lanes/opencl/panels.h"

namespace troika::lanes::opencl {

class Variants {
 public:
  Variants(const DeviceEntry& entry, Extensions extensions);

  // Says whether exact products read four levels as one number.
  bool has_quads() const { return has_dots_; }
  // Returns the options with which kernels for a form are compiled.
  std::string options(const PanelForm& form) const;
  // Says to people how prompts in int8 are multiplied: "in integer dot products".
  std::string exact_products() const;

 private:
  bool has_dots_;
  bool emulates_dots_;
};

}  // namespace troika::lanes::opencl
