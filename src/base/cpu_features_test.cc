#include "base/cpu_features.h"

#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

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

#if defined(__x86_64__)

// Returns the words of the first line of flags in /proc/cpuinfo.
std::set<std::string> flags_of_cpuinfo() {
  std::ifstream file("/proc/cpuinfo");
  std::set<std::string> words;
  for (std::string line; words.empty() && std::getline(file, line);) {
    if (!line.starts_with("flags")) continue;
    std::istringstream flags(line.substr(line.find(':') + 1));
    for (std::string word; flags >> word;) words.insert(word);
  }
  return words;
}

// Says whether Linux grants this process the registers of AMX, which it may refuse.
bool has_tiles() {
  constexpr long kArchReqXcompPerm = 0x1023, kTileData = 18;
  return syscall(SYS_arch_prctl, kArchReqXcompPerm, kTileData) == 0;
}

#endif

// What is found is what the operating system knows: with less, slower kernels would be used and
// nobody would be told.
TEST(CpuFeatures, DetectedOnesAreThoseOfCpuinfo) {
#if defined(__x86_64__)
  const std::set<std::string> flags = flags_of_cpuinfo();
  if (flags.empty()) GTEST_SKIP() << "/proc/cpuinfo lists no flags";
  const CpuFeatures found = detect_cpu_features();
  for (uint8_t i = 0; i < static_cast<uint8_t>(CpuFeature::kCount); ++i) {
    const auto feature = static_cast<CpuFeature>(i);
    const std::string name = to_string(CpuFeatures(feature));
    // This one has no flag there: the maker of the processor tells.
    if (feature == CpuFeature::kFullRateBf16) continue;
    const bool is_granted = !name.starts_with("amx_") || has_tiles();
    EXPECT_EQ(found.has(feature), flags.contains(name) && is_granted) << name;
  }
#else
  GTEST_SKIP() << "only x86 lists the same names in /proc/cpuinfo";
#endif
}

}  // namespace
}  // namespace troika
