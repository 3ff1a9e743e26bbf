#include "base/system.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <vector>

#include "tests/support/temp_folder.h"

namespace troika {
namespace {

TEST(System, FiguresAreConsistent) {
  EXPECT_GE(usable_cores(), 1);
  EXPECT_LE(available_memory_bytes(), memory_limit_bytes());
  EXPECT_GT(available_memory_bytes(), 0u);
  EXPECT_GE(peak_resident_bytes(), resident_bytes() / 2);
}

// A machine of 8 GB, described as the system describes machines.
class FakeMachine {
 public:
  FakeMachine() {
    write("proc/meminfo", "MemTotal: 8000000 kB\nMemFree: 1 kB\nMemAvailable:  6000000 kB\n");
  }
  void write(const std::string& path, const std::string& text) {
    const std::filesystem::path whole = folder_.file(path);
    std::filesystem::create_directories(whole.parent_path());
    test::write_whole(whole.string(), text);
  }
  std::string root() const { return folder_.file(""); }

 private:
  test::TempFolder folder_;
};

TEST(System, WithoutACgroupTheMachineCounts) {
  FakeMachine machine;
  EXPECT_EQ(memory_limit_bytes(machine.root()), size_t{8000000} * 1024);
  EXPECT_EQ(available_memory_bytes(machine.root()), size_t{6000000} * 1024);
  EXPECT_FALSE(is_memory_left_by_cgroup(machine.root()));
  machine.write("proc/self/cgroup", "0::/\n");
  machine.write("sys/fs/cgroup/memory.max", "max\n");
  EXPECT_EQ(memory_limit_bytes(machine.root()), size_t{8000000} * 1024);
}

TEST(System, AProcessorIsCalledByItsModelName) {
  FakeMachine machine;
  EXPECT_EQ(processor_name(machine.root()), "unknown processor");
  machine.write("proc/cpuinfo",
                "processor\t: 0\nvendor_id\t: GenuineIntel\nmodel\t\t: 85\n"
                "model name\t: A Processor: 9 @ 2.00GHz\n\nprocessor\t: 1\n"
                "model name\t: Another\nHardware\t: A Board\n");
  EXPECT_EQ(processor_name(machine.root()), "A Processor: 9 @ 2.00GHz");
}

// Processors of ARM have no name there, and two machines with as many cores are not the same.
TEST(System, AProcessorWithoutAModelNameIsCalledByItsCoresAndBoard) {
  const std::string small = "processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd05\n\n";
  const std::string large = "processor\t: 1\nCPU implementer\t: 0x41\nCPU part\t: 0xd0b\n\n";
  const std::string board = "Hardware\t: A Board\n";
  FakeMachine machine;
  const auto name_of = [&](const std::string& text) {
    machine.write("proc/cpuinfo", text);
    return processor_name(machine.root());
  };
  EXPECT_EQ(name_of(small + small), "0x41 0xd05");
  EXPECT_EQ(name_of(small + large), "0x41 0xd05 0xd0b");
  EXPECT_EQ(name_of(small + large + board), "0x41 0xd05 0xd0b A Board");
  EXPECT_EQ(name_of("processor\t: 0\nBogoMIPS\t: 50\nCPU part\n"), "unknown processor");
}

TEST(System, FilesReadLatelyAreNoUsedMemory) {
  FakeMachine machine;
  machine.write("proc/self/cgroup", "0::/app\n");
  machine.write("sys/fs/cgroup/app/memory.max", "4000000000\n");
  machine.write("sys/fs/cgroup/app/memory.current", "3900000000\n");
  machine.write("sys/fs/cgroup/app/memory.stat",
                "anon 400000000\nfile 3500000000\nactive_file 1000000000\n"
                "inactive_file 2500000000\n");
  EXPECT_EQ(memory_limit_bytes(machine.root()), 4000000000u);
  EXPECT_EQ(available_memory_bytes(machine.root()), 3600000000u);
  EXPECT_TRUE(is_memory_left_by_cgroup(machine.root()));
}

TEST(System, EveryLevelOfTheCgroupLimits) {
  FakeMachine machine;
  machine.write("proc/self/cgroup", "1:name=x:/y\n0::/outer/inner\n");
  machine.write("sys/fs/cgroup/outer/inner/memory.max", "3000000000\n");
  machine.write("sys/fs/cgroup/outer/inner/memory.current", "100\n");
  machine.write("sys/fs/cgroup/outer/memory.max", "5000000000\n");
  machine.write("sys/fs/cgroup/outer/memory.current", "4999999000\n");
  EXPECT_EQ(memory_limit_bytes(machine.root()), 3000000000u);
  EXPECT_EQ(available_memory_bytes(machine.root()), 1000u);
}

// Beyond this the system slows the process down, which is worse than streaming.
TEST(System, P10AWishOfTheCgroupLimitsToo) {
  FakeMachine machine;
  machine.write("proc/self/cgroup", "0::/outer/inner\n");
  machine.write("sys/fs/cgroup/outer/inner/memory.max", "max\n");
  machine.write("sys/fs/cgroup/outer/inner/memory.high", "2000000000\n");
  machine.write("sys/fs/cgroup/outer/inner/memory.current", "500000000\n");
  machine.write("sys/fs/cgroup/outer/memory.max", "3000000000\n");
  machine.write("sys/fs/cgroup/outer/memory.high", "max\n");
  EXPECT_EQ(memory_limit_bytes(machine.root()), 2000000000u);
  EXPECT_EQ(available_memory_bytes(machine.root()), 1500000000u);
}

TEST(System, P10LimitsAboveAContainerOfTheFirstVersionCount) {
  FakeMachine machine;
  machine.write("proc/self/cgroup", "4:memory:/pod/container\n");
  machine.write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  machine.write("sys/fs/cgroup/memory/memory.usage_in_bytes", "500000000\n");
  machine.write("sys/fs/cgroup/memory/memory.stat", "hierarchical_memory_limit 2000000000\n");
  EXPECT_EQ(memory_limit_bytes(machine.root()), 2000000000u);
  EXPECT_EQ(available_memory_bytes(machine.root()), 1500000000u);
}

TEST(System, TheFirstVersionOfCgroupsCountsToo) {
  FakeMachine machine;
  machine.write("proc/self/cgroup", "4:memory:/docker/1\n");
  machine.write("sys/fs/cgroup/memory/memory.limit_in_bytes", "2000000000\n");
  machine.write("sys/fs/cgroup/memory/memory.usage_in_bytes", "1500000000\n");
  machine.write("sys/fs/cgroup/memory/memory.stat", "cache 7\ntotal_inactive_file 1000000000\n");
  EXPECT_EQ(memory_limit_bytes(machine.root()), 2000000000u);
  EXPECT_EQ(available_memory_bytes(machine.root()), 1500000000u);
}

// A process may be in a cgroup of its own, whose limit is not that of the root.
TEST(System, TheOwnCgroupOfTheFirstVersionCounts) {
  FakeMachine machine;
  machine.write("proc/self/cgroup", "9:cpu,cpuacct:/\n4:hugetlb,memory:/outer/inner\n0::/\n");
  machine.write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  machine.write("sys/fs/cgroup/memory/outer/memory.limit_in_bytes", "3000000000\n");
  machine.write("sys/fs/cgroup/memory/outer/inner/memory.limit_in_bytes", "2000000000\n");
  machine.write("sys/fs/cgroup/memory/outer/inner/memory.usage_in_bytes", "500000000\n");
  EXPECT_EQ(memory_limit_bytes(machine.root()), 2000000000u);
  EXPECT_EQ(available_memory_bytes(machine.root()), 1500000000u);
}

TEST(System, AQuotaOfTimeLimitsTheCores) {
  const int n_cores = static_cast<int>(usable_core_numbers().size());
  FakeMachine machine;
  EXPECT_EQ(usable_cores(machine.root()), n_cores);
  machine.write("proc/self/cgroup", "0::/outer/inner\n");
  machine.write("sys/fs/cgroup/outer/inner/cpu.max", "max 100000\n");
  EXPECT_EQ(usable_cores(machine.root()), n_cores);
  machine.write("sys/fs/cgroup/outer/cpu.max", "120000 100000\n");
  EXPECT_EQ(usable_cores(machine.root()), 1);
  machine.write("sys/fs/cgroup/outer/cpu.max", "150000 100000\n");
  EXPECT_EQ(usable_cores(machine.root()), std::min(n_cores, 2));
  machine.write("sys/fs/cgroup/outer/inner/cpu.max", "60000 50000\n");
  EXPECT_EQ(usable_cores(machine.root()), 1);
  machine.write("sys/fs/cgroup/outer/inner/cpu.max", "1000 100000\n");
  EXPECT_EQ(usable_cores(machine.root()), 1);
  machine.write("sys/fs/cgroup/outer/inner/cpu.max", "-7 x\n");
  EXPECT_EQ(usable_cores(machine.root()), std::min(n_cores, 2));
}

TEST(System, AContainerSeesItsQuotaAtTheRoot) {
  FakeMachine machine;
  machine.write("proc/self/cgroup", "0::/\n");
  machine.write("sys/fs/cgroup/cpu.max", "100000 100000\n");
  EXPECT_EQ(usable_cores(machine.root()), 1);
}

TEST(System, AQuotaOfTheFirstVersionCountsToo) {
  const int n_cores = static_cast<int>(usable_core_numbers().size());
  FakeMachine machine;
  machine.write("proc/self/cgroup", "4:cpu,cpuacct:/docker/1\n");
  machine.write("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  machine.write("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
  EXPECT_EQ(usable_cores(machine.root()), n_cores);
  machine.write("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "110000\n");
  EXPECT_EQ(usable_cores(machine.root()), 1);
  machine.write("sys/fs/cgroup/cpu/cpu.cfs_period_us", "0\n");
  EXPECT_EQ(usable_cores(machine.root()), n_cores);
}

TEST(System, TouchedMemoryIsSeen) {
  const size_t before = resident_bytes();
  std::vector<char> memory(64u << 20);
  std::memset(memory.data(), 1, memory.size());
  EXPECT_GE(resident_bytes(), before + (48u << 20));
}

}  // namespace
}  // namespace troika
