#include "base/cpu_features.h"

#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <sstream>

namespace troika {
namespace {

TEST(CpuFeatures, EachHasANameOfItsOwn) {
  std::set<std::string> names;
  for (uint8_t i = 0; i < static_cast<uint8_t>(CpuFeature::kCount); ++i) {
    const std::string name = to_string(CpuFeatures(static_cast<CpuFeature>(i)));
    EXPECT_FALSE(name.empty());
    EXPECT_TRUE(names.insert(name).second) << name;
  }
}

TEST(CpuFeatures, SetsAddRemoveAndCompare) {
  CpuFeatures set(CpuFeature::kAvx2, CpuFeature::kFma);
  EXPECT_EQ(to_string(set), "avx2 fma");
  EXPECT_TRUE(set.has_all(CpuFeatures(CpuFeature::kFma)));
  EXPECT_TRUE(set.has_all(CpuFeatures()));
  EXPECT_FALSE(CpuFeatures().has_all(set));
  set.remove(CpuFeature::kAvx2);
  EXPECT_EQ(set, CpuFeatures(CpuFeature::kFma));
}

// The operating system must know each feature that is found.
TEST(CpuFeatures, DetectedOnesStandInCpuinfo) {
#if defined(__x86_64__)
  std::ifstream file("/proc/cpuinfo");
  std::stringstream words;
  words << file.rdbuf();
  const std::string text = words.str();
  if (text.find("flags") == std::string::npos) GTEST_SKIP() << "/proc/cpuinfo lists no flags";
  std::istringstream found(to_string(detect_cpu_features()));
  for (std::string name; found >> name;) {
    if (name == "full_rate_bf16") continue;  // has no flag there: the maker of the processor tells
    EXPECT_NE(text.find(" " + name), std::string::npos) << name;
  }
#else
  GTEST_SKIP() << "only x86 lists the same names in /proc/cpuinfo";
#endif
}

}  // namespace
}  // namespace troika
