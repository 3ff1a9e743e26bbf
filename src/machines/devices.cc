#include "machines/devices.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "base/cache_folder.h"
#include "base/error.h"
#include "lanes/host/bound_product.h"
#include "lanes/opencl/opencl_lane.h"
#include "lanes/vendor/vendor_lane.h"
#include "text/utf8.h"

namespace troika::machines {
namespace {

// What a device's lane is made from.
struct DeviceRequest {
  const kernels::Table& kernels;
  const plan::PlannedLane& lane;
  const plan::Plan& plan;
  const lanes::Int8Rules* int8_rules;
  bool keeps_programs;
};

std::string environment(const char* name) {
  const char* const text = std::getenv(name);
  return text != nullptr ? text : "";
}

lanes::VendorOptions vendor_options(const plan::PlannedLane& lane) {
  return {environment("TROIKA_OPENVINO"), lane.device, lane.cores,
          environment("TROIKA_OPENVINO_BLOBS")};
}

// Returns which extensions of OpenCL kernels use. Throws UsageError that lists the names.
lanes::opencl::Extensions opencl_extensions() {
  using lanes::opencl::Extensions;
  const std::string name = environment("TROIKA_OPENCL_EXTENSIONS");
  if (name.empty()) return Extensions::kOfDevice;
  if (name == "none") return Extensions::kNone;
  if (name == "emulated") return Extensions::kEmulated;
  throw UsageError(
      fmt::format("TROIKA_OPENCL_EXTENSIONS is '{}', which is not understood. Let it be 'none', "
                  "'emulated' (for tests), or nothing for those that the device has.",
                  name));
}

// Returns the folder in which compiled programs of OpenCL are kept: the one that somebody names, or
// that of side files. A system without such a folder keeps none.
std::string program_folder() {
  const std::string named = environment("TROIKA_OPENCL_PROGRAMS");
  if (!named.empty()) return named;
  try {
    return cache_folder();
  } catch (const Error&) {
    return {};
  }
}

// Returns the options of an OpenCL device, without a folder for programs. REQUIRES: the device is a
// number, as plans are checked for.
lanes::opencl::DeviceOptions opencl_options(const plan::PlannedLane& lane) {
  lanes::opencl::DeviceOptions options;
  options.library = environment("TROIKA_OPENCL");
  options.number = std::stoi(lane.device);
  options.cores = lane.cores;
  options.extensions = opencl_extensions();
  return options;
}

std::unique_ptr<lanes::Lane> make_opencl(const DeviceRequest& request) {
  const plan::Plan& plan = request.plan;
  const lanes::OpenclPrecision precision = {plan.activations, plan.prefill, plan.kv_type,
                                            request.int8_rules, plan.attention};
  lanes::opencl::DeviceOptions options = opencl_options(request.lane);
  // With a single lane nothing is handed over.
  options.has_fast_handover = plan.handover == plan::HandoverKind::kFast && plan.lanes.size() > 1;
  if (request.keeps_programs) options.program_folder = program_folder();
  return std::make_unique<lanes::OpenclLane>(options, request.kernels, precision);
}

std::unique_ptr<lanes::Lane> make_vendor(const DeviceRequest& request) {
  return std::make_unique<lanes::VendorLane>(vendor_options(request.lane), request.kernels,
                                             request.plan.activations, request.plan.prefill,
                                             request.int8_rules);
}

// Makes lanes of one kind of plan/device.h.
struct Maker {
  std::string_view kind;
  std::unique_ptr<lanes::Lane> (*make)(const DeviceRequest&);
  // Throws the Error that `make` would throw.
  std::string (*identity)(const plan::PlannedLane&, const plan::Plan&);
};
constexpr Maker kMakers[] = {
    {"opencl", make_opencl,
     [](const plan::PlannedLane& lane, const plan::Plan& plan) {
       return lanes::OpenclLane::identity_of(opencl_options(lane), plan.prefill);
     }},
    {"openvino", make_vendor,
     [](const plan::PlannedLane& lane, const plan::Plan&) {
       return lanes::VendorLane::identity_of(vendor_options(lane));
     }},
};

const Maker& maker_of(const plan::PlannedLane& lane) {
  for (const Maker& maker : kMakers) {
    if (maker.kind == lane.kind) return maker;
  }
  throw Error(fmt::format(
      "The lane {}: this program has no lanes of the kind '{}' yet. Leave it out of ‹lanes›.",
      plan::lane_text(lane), lane.kind));
}

}  // namespace

std::unique_ptr<lanes::Lane> make_device_lane(const kernels::Table& kernels,
                                              const plan::PlannedLane& lane, const plan::Plan& plan,
                                              const lanes::Int8Rules* int8_rules,
                                              bool keeps_programs) {
  return maker_of(lane).make({kernels, lane, plan, int8_rules, keeps_programs});
}

std::string device_identities(const plan::Plan& plan) {
  std::string all;
  for (const plan::PlannedLane& lane : plan.lanes) {
    if (!lane.is_device()) continue;
    all += fmt::format("{}{}: {}", all.empty() ? "" : "; ", plan::lane_text(lane),
                       text::replace_invalid_utf8(maker_of(lane).identity(lane, plan)));
  }
  return all;
}

void check_devices(const plan::Plan& plan) {
  (void)device_identities(plan);
  const bool has_opencl = std::ranges::any_of(
      plan.lanes, [](const plan::PlannedLane& lane) { return lane.kind == "opencl"; });
  if (plan.prefill == plan::Prefill::kF16 && !has_opencl) lanes::refuse_halves();
}

}  // namespace troika::machines
