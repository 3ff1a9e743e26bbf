#include "machines/devices.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace troika::machines {
namespace {

TEST(Devices, CoresNeedNone) {
  plan::Plan plan;
  plan.lanes = plan::lanes_from_text("0;1", {0, 1});
  EXPECT_NO_THROW(check_devices(plan));
}

TEST(Devices, AKindThatIsNotBuiltIsASentence) {
  plan::Plan plan;
  plan.lanes = plan::lanes_from_text("0;opencl:0", {0, 1});
  try {
    check_devices(plan);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("opencl:0"), std::string::npos) << error.what();
  }
  EXPECT_THROW(make_device_lane(plan.lanes[1], plan, nullptr), Error);
}

}  // namespace
}  // namespace troika::machines
