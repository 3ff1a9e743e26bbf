#include "lanes/opencl/variants.h"

namespace troika::lanes::opencl {
namespace {

// The extension's functions are there in the version of the language that it was written for.
constexpr const char* kDeviceDots = "-cl-std=CL3.0 -DDOT=dot_4x8packed_ss_int ";
constexpr const char* kEmulatedDots = "-DDOT=dot_of_bytes ";
constexpr const char* kDeviceHalves = "-DHALF=1 ";
constexpr const char* kEmulatedHalves = "-DHALF=2 ";

}  // namespace

Variants::Variants(const DeviceEntry& entry, Extensions extensions) {
  const auto choose = [&](bool is_there) {
    if (is_there && extensions != Extensions::kNone) return Extension::kOfDevice;
    return extensions == Extensions::kEmulated ? Extension::kEmulated : Extension::kMissing;
  };
  dots_ = choose(entry.has_dots);
  halves_ = choose(entry.has_halves);
}

std::string Variants::options(const PanelForm& form, bool is_half) const {
  std::string options = form.options();
  if (is_half) {
    return (halves_ == Extension::kEmulated ? kEmulatedHalves : kDeviceHalves) + options;
  }
  if (form.levels != PanelForm::Levels::kQuads) return options;
  return (dots_ == Extension::kEmulated ? kEmulatedDots : kDeviceDots) + options;
}

std::string Variants::prompt_products(plan::Prefill prefill) const {
  if (prefill == plan::Prefill::kF16) {
    return halves_ == Extension::kEmulated ? "in emulated half floats" : "in half floats";
  }
  if (prefill != plan::Prefill::kInt8) return "";
  if (dots_ == Extension::kMissing) return "in floats that hold whole numbers";
  return dots_ == Extension::kEmulated ? "in emulated integer dot products"
                                       : "in integer dot products";
}

}  // namespace troika::lanes::opencl
