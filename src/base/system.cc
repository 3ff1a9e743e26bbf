#include "base/system.h"

#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <optional>
#include <string>

namespace troika {
namespace {

// The value of a line "KEY:   123 kB", in bytes.
std::optional<size_t> kilobytes_of(const char* path, const std::string& key) {
  std::ifstream file(path);
  size_t kilobytes = 0;
  std::string line;
  while (std::getline(file, line)) {
    if (line.compare(0, key.size() + 1, key + ":") != 0) continue;
    if (std::sscanf(line.c_str() + key.size() + 1, "%zu", &kilobytes) == 1) {
      return kilobytes * 1024;
    }
  }
  return std::nullopt;
}

// A file that holds one number; "max" means none.
std::optional<size_t> number_in(const std::string& path) {
  std::ifstream file(path);
  size_t value = 0;
  if (file >> value) return value;
  return std::nullopt;
}

struct CgroupMemory {
  std::optional<size_t> limit;
  std::optional<size_t> used;
};

// The tightest limit on the way from this process's cgroup (version 2) to the root, or that of
// version 1.
CgroupMemory cgroup_memory() {
  CgroupMemory memory;
  std::ifstream file("/proc/self/cgroup");
  std::string line;
  std::string path;
  while (std::getline(file, line)) {
    if (line.compare(0, 3, "0::") == 0) path = line.substr(3);
  }
  while (!path.empty()) {
    const std::string folder = "/sys/fs/cgroup" + path;
    const std::optional<size_t> limit = number_in(folder + "/memory.max");
    if (limit && (!memory.limit || *limit < *memory.limit)) {
      memory = {limit, number_in(folder + "/memory.current")};
    }
    if (path == "/") break;
    const size_t slash = path.rfind('/');
    path = slash == 0 ? "/" : path.substr(0, slash);
  }
  if (!memory.limit) {
    memory = {number_in("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
              number_in("/sys/fs/cgroup/memory/memory.usage_in_bytes")};
  }
  return memory;
}

}  // namespace

std::vector<int> usable_core_numbers() {
  cpu_set_t set;
  std::vector<int> cores;
  if (sched_getaffinity(0, sizeof(set), &set) == 0) {
    for (int core = 0; core < CPU_SETSIZE; ++core) {
      if (CPU_ISSET(core, &set)) cores.push_back(core);
    }
  }
  if (cores.empty()) cores.push_back(0);
  return cores;
}

int usable_cores() { return static_cast<int>(usable_core_numbers().size()); }

std::string processor_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const size_t colon = line.find(':');
    if (line.compare(0, 10, "model name") == 0 && colon != std::string::npos) {
      return line.substr(std::min(colon + 2, line.size()));
    }
  }
  return "unknown processor";
}

void bind_to_cores(const std::vector<int>& cores) {
  if (cores.empty()) return;
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int core : cores) {
    if (core >= 0 && core < CPU_SETSIZE) CPU_SET(core, &set);
  }
  // Only a wish: where the system refuses, the thread runs elsewhere.
  sched_setaffinity(0, sizeof(set), &set);
}

size_t memory_limit_bytes() {
  const size_t machine = kilobytes_of("/proc/meminfo", "MemTotal").value_or(SIZE_MAX);
  return std::min(machine, cgroup_memory().limit.value_or(SIZE_MAX));
}

size_t available_memory_bytes() {
  const size_t machine = kilobytes_of("/proc/meminfo", "MemAvailable").value_or(SIZE_MAX);
  const CgroupMemory cgroup = cgroup_memory();
  if (!cgroup.limit) return machine;
  const size_t used = std::min(cgroup.used.value_or(0), *cgroup.limit);
  return std::min(machine, *cgroup.limit - used);
}

size_t last_cache_bytes() {
  size_t largest = 0;
  for (int index = 0; index < 8; ++index) {
    std::ifstream file("/sys/devices/system/cpu/cpu0/cache/index" + std::to_string(index) +
                       "/size");
    size_t size = 0;
    char unit = 0;
    if (!(file >> size)) continue;
    file >> unit;
    largest = std::max(largest, size * (unit == 'K' ? 1024 : unit == 'M' ? 1024 * 1024 : 1));
  }
  return largest;
}

size_t resident_bytes() { return kilobytes_of("/proc/self/status", "VmRSS").value_or(0); }

size_t peak_resident_bytes() {
  // VmHWM counts mapped files as well, as ru_maxrss does, but can be reset between measurements.
  return kilobytes_of("/proc/self/status", "VmHWM").value_or(0);
}

}  // namespace troika
