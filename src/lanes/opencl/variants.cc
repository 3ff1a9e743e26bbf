#include "lanes/opencl/variants.h"

namespace troika::lanes::opencl {
namespace {

// The extension's functions are there in the version of the language that it was written for.
constexpr const char* kDeviceDots = "-cl-std=CL3.0 -DDOT=dot_4x8packed_ss_int ";
constexpr const char* kEmulatedDots = "-DDOT=dot_of_bytes ";

}  // namespace

Variants::Variants(const DeviceEntry& entry, Extensions extensions)
    : has_dots_(extensions == Extensions::kEmulated ||
                (extensions == Extensions::kOfDevice && entry.has_dots)),
      emulates_dots_(has_dots_ && !entry.has_dots) {}

std::string Variants::options(const PanelForm& form) const {
  const std::string options = form.options();
  if (form.levels != PanelForm::Levels::kQuads) return options;
  return (emulates_dots_ ? kEmulatedDots : kDeviceDots) + options;
}

std::string Variants::exact_products() const {
  if (!has_dots_) return "in floats that hold whole numbers";
  return emulates_dots_ ? "in emulated integer dot products" : "in integer dot products";
}

}  // namespace troika::lanes::opencl
