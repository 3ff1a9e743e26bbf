// Checks that any text is either refused with an Error, or is a plan that stays what it is when it
// is written and read again.
#include <cstdint>

#include "base/error.h"
#include "plan/plan_json.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace troika::plan;  // NOLINT(google-build-using-namespace)
  PlanFile file;
  try {
    file = plan_from_json({reinterpret_cast<const char*>(data), size}, "fuzz");
  } catch (const troika::Error&) {
    return 0;
  }
  const std::string written = to_json(file);
  TROIKA_ASSERT(to_json(plan_from_json(written, "written")) == written);
  // What people are told of a plan, and what makes executables of it, takes any that was read.
  TROIKA_ASSERT(!file.plan.body_shapes().empty());
  TROIKA_ASSERT(!lanes_text(file.plan.lanes).empty());
  for (const Shape shape : file.plan.body_shapes()) {
    const int lane = file.plan.lane_of("ffn", shape, 0);
    TROIKA_ASSERT(lane >= 0 && static_cast<size_t>(lane) < file.plan.lanes.size());
  }
  return 0;
}
