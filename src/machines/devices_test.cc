#include "machines/devices.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "base/error.h"
#include "kernels/choose.h"

namespace troika::machines {
namespace {

TEST(Devices, CoresNeedNone) {
  plan::Plan plan;
  plan.lanes = plan::lanes_from_text("0;1", {0, 1});
  EXPECT_NO_THROW(check_devices(plan));
}

TEST(Devices, OpenClThatIsNotThereIsASentence) {
  const char* const before = std::getenv("TROIKA_OPENCL");
  const std::string file = before != nullptr ? before : "";
  setenv("TROIKA_OPENCL", "/nonexistent/libOpenCL.so", 1);
  plan::Plan plan;
  plan.lanes = plan::lanes_from_text("0;opencl:0", {0, 1});
  std::string problem = "no error";
  try {
    check_devices(plan);
  } catch (const Error& error) {
    problem = error.what();
  }
  const kernels::Kernels kernels = kernels::choose(detect_cpu_features());
  EXPECT_THROW(make_device_lane(kernels.table, plan.lanes[1], plan, nullptr, false), Error);
  before != nullptr ? setenv("TROIKA_OPENCL", file.c_str(), 1) : unsetenv("TROIKA_OPENCL");
  EXPECT_NE(problem.find("OpenCL"), std::string::npos) << problem;
#ifndef TROIKA_STATIC  // a static program looks for no library
  EXPECT_NE(problem.find("/nonexistent/libOpenCL.so"), std::string::npos) << problem;
#endif
}

TEST(Devices, ExtensionsThatNobodyKnowsAreASentence) {
  setenv("TROIKA_OPENCL_EXTENSIONS", "some", 1);
  plan::Plan plan;
  plan.lanes = plan::lanes_from_text("opencl:0", {0});
  std::string problem = "no error";
  try {
    check_devices(plan);
  } catch (const Error& error) {
    problem = error.what();
  }
  unsetenv("TROIKA_OPENCL_EXTENSIONS");
  EXPECT_NE(problem.find("'some'"), std::string::npos) << problem;
}

// What would be refused behind a model's weights, which take long to read, is refused before them.
TEST(Devices, OpenclHalvesThatNoLaneHasAreASentence) {
  const auto problem_of = [](const plan::Plan& plan) -> std::string {
    try {
      check_devices(plan);
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  };
  plan::Plan plan;
  plan.prefill = plan::Prefill::kF16;
  const std::string on_cores = problem_of(plan);
  EXPECT_NE(on_cores.find("Name an OpenCL device in ‹lanes›"), std::string::npos) << on_cores;
  plan.lanes = plan::lanes_from_text("0;opencl:0", {0});
  plan.prefill = plan::Prefill::kF32;
  const std::string without = problem_of(plan);
  if (without != "no error") GTEST_SKIP() << without;
  setenv("TROIKA_OPENCL_EXTENSIONS", "none", 1);
  plan.prefill = plan::Prefill::kF16;
  const std::string of_device = problem_of(plan);
  setenv("TROIKA_OPENCL_EXTENSIONS", "emulated", 1);
  EXPECT_EQ(problem_of(plan), "no error");
  unsetenv("TROIKA_OPENCL_EXTENSIONS");
  EXPECT_NE(of_device.find("half floats"), std::string::npos) << of_device;
}

TEST(Devices, AKindThatIsNotBuiltIsASentence) {
  plan::Plan plan;
  plan.lanes = {{}, {{}, 0, "abacus"}};
  plan.lanes[1].device = "0";
  try {
    check_devices(plan);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("abacus"), std::string::npos) << error.what();
  }
}

TEST(Devices, OpenVinoThatIsNotThereIsASentence) {
  const char* const before = std::getenv("TROIKA_OPENVINO");
  const std::string folder = before != nullptr ? before : "";
  setenv("TROIKA_OPENVINO", "/nonexistent/folder", 1);
  plan::Plan plan;
  plan.lanes = plan::lanes_from_text("0;openvino:CPU@1", {0, 1});
  std::string problem = "no error";
  try {
    check_devices(plan);
  } catch (const Error& error) {
    problem = error.what();
  }
  before != nullptr ? setenv("TROIKA_OPENVINO", folder.c_str(), 1) : unsetenv("TROIKA_OPENVINO");
  EXPECT_NE(problem.find("OpenVINO"), std::string::npos) << problem;
#ifndef TROIKA_STATIC  // a static program looks for no library
  EXPECT_NE(problem.find("/nonexistent/folder"), std::string::npos) << problem;
#endif
}

}  // namespace
}  // namespace troika::machines
