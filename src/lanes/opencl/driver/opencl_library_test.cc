#include "lanes/opencl/driver/opencl_library.h"

#include <gtest/gtest.h>

#include <cstring>

#include "base/error.h"
#include "lanes/opencl/opencl_lane.h"

namespace troika::lanes::opencl {
namespace {

template <typename Body>
std::string problem_of(Body body) {
  try {
    body();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

// Returns a platform with one device, whose description a test can set.
Platform platform() { return reinterpret_cast<Platform>(uintptr_t{1}); }

Int give_text(const char* text, size_t size, void* to, size_t* length) {
  if (length != nullptr) *length = std::strlen(text) + 1;
  if (to != nullptr) std::memcpy(to, text, std::min(size, std::strlen(text) + 1));
  return kOk;
}

constexpr size_t kGroupSides[] = {1, 64, 8};

template <bool kShares, bool kIsThere, bool kIsNew>
Int describe(DeviceId, UInt info, size_t size, void* to, size_t* length) {
  switch (info) {
    case kDeviceName:
      return give_text("a phone's", size, to, length);
    case kDeviceVersion:
      return give_text(kIsNew ? "OpenCL 3.0 full" : "OpenCL 1.1 full", size, to, length);
    case kDriverVersion:
      return give_text("7", size, to, length);
    case kDeviceExtensions:
      return give_text("cl_khr_fp64 cl_khr_integer_dot_product", size, to, length);
    case kMostGroupSides:
      if (length != nullptr) *length = sizeof(kGroupSides);
      if (to != nullptr) std::memcpy(to, kGroupSides, std::min(size, sizeof(kGroupSides)));
      return kOk;
    default:
      std::memset(to, 0, size);
      const bool is_set = info == kSharesMemory ? kShares : info != kIsAvailable || kIsThere;
      static_cast<unsigned char*>(to)[0] = is_set ? 1 : 0;
      return kOk;
  }
}

Api fake(decltype(Api::device_info) info) {
  Api api = {};
  api.platforms = [](UInt, Platform* platforms, UInt* n) {
    if (n != nullptr) *n = 1;
    if (platforms != nullptr) *platforms = platform();
    return kOk;
  };
  api.platform_info = [](Platform, UInt, size_t size, void* to, size_t* length) {
    return give_text("Makers", size, to, length);
  };
  api.devices = [](Platform, Bits, UInt, DeviceId* ids, UInt* n) {
    if (n != nullptr) *n = 1;
    if (ids != nullptr) *ids = reinterpret_cast<DeviceId>(uintptr_t{2});
    return kOk;
  };
  api.device_info = info;
  return api;
}

TEST(OpenclLibrary, ThatIsNotThereIsASentence) {
  const std::string problem = problem_of([] { Library("/nonexistent/libOpenCL.so"); });
  EXPECT_NE(problem.find("OpenCL"), std::string::npos) << problem;
#ifndef TROIKA_STATIC  // a static program looks for no library
  EXPECT_NE(problem.find("/nonexistent/libOpenCL.so"), std::string::npos) << problem;
  EXPECT_NE(problem.find("TROIKA_OPENCL"), std::string::npos) << problem;
#endif
}

TEST(OpenclLibrary, WithoutADeviceIsASentence) {
  Api api = {};
  api.platforms = [](UInt, Platform*, UInt*) { return kNoPlatform; };
  const std::string problem = problem_of([&] { Library(api).device(0); });
  EXPECT_NE(problem.find("no device"), std::string::npos) << problem;
  api.platforms = [](UInt, Platform*, UInt* n) {
    *n = 0;
    return kOk;
  };
  EXPECT_TRUE(Library(api).devices().empty());
  api = fake(describe<true, true, true>);
  api.devices = [](Platform, Bits, UInt, DeviceId*, UInt*) { return kNoDevice; };
  EXPECT_TRUE(Library(api).devices().empty());
}

TEST(OpenclLibrary, NamesTheDevicesThatThereAre) {
  const Library library(fake(describe<true, true, true>));
  EXPECT_EQ(library.device(0).name, "a phone's");
  EXPECT_EQ(library.device(0).memory_bytes, 1u);
  EXPECT_EQ(library.device(0).most_group_side, 8u);
  const std::string problem = problem_of([&] { library.device(1); });
  EXPECT_NE(problem.find("opencl:0 is 'a phone's' of Makers"), std::string::npos) << problem;
}

// A PC's GPU with memory of its own often stands before a device of the cores.
TEST(OpenclLibrary, AdvisesOnlyDevicesThatLanesCanUse) {
  const std::string alone =
      problem_of([] { Library(fake(describe<false, true, true>)).device(1); });
  EXPECT_NE(alone.find("opencl:0 is 'a phone's' of Makers, which has memory of its own"),
            std::string::npos)
      << alone;
  EXPECT_EQ(alone.find("Name one"), std::string::npos) << alone;
  EXPECT_NE(alone.find("Leave lanes of the kind 'opencl' out"), std::string::npos) << alone;
  Api two = fake([](DeviceId id, UInt info, size_t size, void* to, size_t* length) {
    const bool is_first = reinterpret_cast<uintptr_t>(id) == 1;
    return is_first ? describe<false, true, true>(id, info, size, to, length)
                    : describe<true, true, true>(id, info, size, to, length);
  });
  two.devices = [](Platform, Bits, UInt, DeviceId* ids, UInt* n) {
    if (n != nullptr) *n = 2;
    for (uintptr_t i = 0; ids != nullptr && i < 2; ++i) ids[i] = reinterpret_cast<DeviceId>(i + 1);
    return kOk;
  };
  const std::string beside = problem_of([&] { Library(two).device(2); });
  EXPECT_EQ(beside.find("opencl:0"), std::string::npos) << beside;
  EXPECT_NE(beside.find("opencl:1 is 'a phone's' of Makers. Name one"), std::string::npos)
      << beside;
  EXPECT_EQ(Library(two).device(1).name, "a phone's");
}

TEST(OpenclLibrary, KnowsExtensionsByTheirWholeNames) {
  const auto entry = [](auto info) { return Library(fake(info)).devices()[0]; };
  EXPECT_TRUE(entry(describe<true, true, true>).has_dots);
  // The extension's functions are there from OpenCL C 3.0 on.
  EXPECT_FALSE(entry(describe<true, true, false>).has_dots);
  EXPECT_FALSE(entry([](DeviceId id, UInt info, size_t size, void* to, size_t* length) {
                 if (info != kDeviceExtensions) {
                   return describe<true, true, true>(id, info, size, to, length);
                 }
                 return give_text("cl_khr_integer_dot_product2", size, to, length);
               }).has_dots);
}

TEST(OpenclLibrary, RefusesDevicesThatLanesCannotUse) {
  const auto problem = [](auto info) { return problem_of([&] { Library(fake(info)).device(0); }); };
  EXPECT_NE(problem(describe<false, true, true>).find("memory of its own"), std::string::npos);
  EXPECT_NE(problem(describe<true, false, true>).find("not available"), std::string::npos);
  EXPECT_NE(problem(describe<true, true, false>).find("OpenCL 1.2"), std::string::npos);
}

template <Bits kAbilities>
Int describe_floats(DeviceId id, UInt info, size_t size, void* to, size_t* length) {
  if (info != kFloatAbilities) return describe<true, true, true>(id, info, size, to, length);
  const Bits abilities = kAbilities;
  std::memcpy(to, &abilities, sizeof(abilities));
  return kOk;
}

TEST(OpenclLibrary, KnowsWhichDevicesRoundToTheNearestFloat) {
  const auto rounds = [](auto info) { return Library(fake(info)).device(0).rounds_to_nearest; };
  EXPECT_TRUE(rounds(describe_floats<kRoundsToNearest>));
  EXPECT_TRUE(rounds(describe_floats<kRoundsToNearest | kRoundsDivisions>));
  EXPECT_FALSE(rounds(describe_floats<kRoundsDivisions>));
}

TEST(OpenclLibrary, StatusesHaveNames) {
  EXPECT_EQ(status_name(-5), "CL_OUT_OF_RESOURCES");
  EXPECT_EQ(status_name(-9999), "the error -9999 of OpenCL");
  EXPECT_NO_THROW(check(kOk, "nothing"));
  EXPECT_THROW(check(-5, "something"), Error);
}

}  // namespace
}  // namespace troika::lanes::opencl
