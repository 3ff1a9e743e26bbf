// Describes the lanes that are no cores: processors that a driver runs, found when the program
// runs.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "plan/plan.h"

namespace troika::plan {

struct DeviceKind {
  const char* name;     // stands in a lane's `kind`
  const char* meaning;  // says to people what stands behind the colon of a lane's text
  bool is_numbered;     // says that devices are counted from 0; else they have names
  // Say in which numerics classes its lanes compute. `has_exact_int8`: products of prompts in int8
  // have the bits of cores. `takes_steps`: it computes other phases too. `only_multiplies`: cores
  // of the lane compute whatever is no product.
  bool has_exact_int8;
  bool takes_steps;
  bool only_multiplies;
};

// Finds a kind that a plan may name; null where `name` is no device's kind. Whether this program
// can make such a lane is for machines/ to say.
const DeviceKind* device_kind(std::string_view name);
std::string device_kind_names();  // "opencl, openvino"

// Calls `fail` with the end of a sentence where the lane's kind or device makes no sense.
void check_device(const PlannedLane& lane, const std::function<void(const std::string&)>& fail);

// A lane's text, taken apart: KIND:DEVICE or KIND:DEVICE@CORE,CORE. The cores are those of the
// driver's threads. They are left as text, which is empty where there are none.
struct DeviceText {
  PlannedLane lane;
  std::string_view cores;
};
DeviceText device_from_text(std::string_view text);

}  // namespace troika::plan
