#include "base/system.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <limits>
#include <optional>
#include <string>

#include "base/threads/core_set.h"

namespace troika {
namespace {

// Returns the value of a line "KEY:   123 kB", in bytes.
std::optional<size_t> kilobytes_of(const std::string& path, const std::string& key) {
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

// Reads a file that holds one number; "max" means that there is no number.
std::optional<size_t> number_in(const std::string& path) {
  std::ifstream file(path);
  size_t value = 0;
  if (file >> value) return value;
  return std::nullopt;
}

// Returns the value of a line "KEY 123".
size_t entry_of(const std::string& path, const std::string& key) {
  std::ifstream file(path);
  std::string name;
  size_t value = 0;
  while (file >> name >> value) {
    if (name == key) return value;
  }
  return 0;
}

struct CgroupMemory {
  size_t limit = SIZE_MAX;
  size_t available = SIZE_MAX;

  // Takes account of one more level that limits this process. Its pages of files that were read
  // lately count as used, but the system takes them back when they are needed: so a model that was
  // read before is no obstacle.
  void narrow(size_t level_limit, size_t used, size_t used_by_files) {
    limit = std::min(limit, level_limit);
    used -= std::min(used, used_by_files);
    available = std::min(available, level_limit - std::min(used, level_limit));
  }
};

// Says whether a line "4:cpu,cpuacct:/path" of /proc/self/cgroup is about this controller.
bool names_controller(const std::string& line, const std::string& controller) {
  const size_t begin = line.find(':') + 1, end = line.find(':', begin);
  if (begin == 0 || end == std::string::npos) return false;
  return ("," + line.substr(begin, end - begin) + ",").find("," + controller + ",") !=
         std::string::npos;
}

// Returns the folder of this process's cgroup, and the folders above it up to the root, of version
// 2 or of a controller of version 1. A container may see its own folder as the root, and then not
// the others.
std::vector<std::string> cgroup_folders(const std::string& root,
                                        const std::string& controller = "") {
  std::vector<std::string> folders;
  std::ifstream file(root + "/proc/self/cgroup");
  std::string line;
  std::string path = controller.empty() ? "" : "/";
  while (std::getline(file, line)) {
    const size_t slash = line.find(":/");
    const bool is_own =
        controller.empty() ? line.compare(0, 4, "0::/") == 0 : names_controller(line, controller);
    if (is_own && slash != std::string::npos) path = line.substr(slash + 1);
  }
  const std::string mount = root + "/sys/fs/cgroup" + (controller.empty() ? "" : "/") + controller;
  while (!path.empty()) {
    folders.push_back(mount + path);
    if (path == "/") break;
    const size_t slash = path.rfind('/');
    path = slash == 0 ? "/" : path.substr(0, slash);
  }
  return folders;
}

// Returns the tightest limit on the way from this process's cgroup to the root, of either version.
CgroupMemory cgroup_memory(const std::string& root) {
  CgroupMemory memory;
  for (const std::string& folder : cgroup_folders(root)) {
    // Beyond `high` nothing is killed, but all that runs there is slowed down until memory is given
    // back.
    const size_t limit = std::min(number_in(folder + "/memory.max").value_or(SIZE_MAX),
                                  number_in(folder + "/memory.high").value_or(SIZE_MAX));
    if (limit < SIZE_MAX) {
      const std::string stat = folder + "/memory.stat";
      memory.narrow(limit, number_in(folder + "/memory.current").value_or(0),
                    entry_of(stat, "active_file") + entry_of(stat, "inactive_file"));
    }
  }
  for (const std::string& folder : cgroup_folders(root, "memory")) {
    const std::string v1 = folder + "/memory.";
    if (const std::optional<size_t> limit = number_in(v1 + "limit_in_bytes")) {
      // A container does not see the folders above its own. This entry has their limits.
      const size_t of_all = entry_of(v1 + "stat", "hierarchical_memory_limit");
      memory.narrow(of_all > 0 ? std::min(*limit, of_all) : *limit,
                    number_in(v1 + "usage_in_bytes").value_or(0),
                    entry_of(v1 + "stat", "total_active_file") +
                        entry_of(v1 + "stat", "total_inactive_file"));
    }
  }
  return memory;
}

// Returns the cores' worth of time that a cgroup leaves this process in each of its periods;
// infinite without a limit.
double cgroup_cores(const std::string& root) {
  double cores = std::numeric_limits<double>::infinity();
  const auto narrow = [&](double quota_us, double period_us) {
    if (quota_us > 0 && period_us > 0) cores = std::min(cores, quota_us / period_us);
  };
  for (const std::string& folder : cgroup_folders(root)) {
    std::ifstream file(folder + "/cpu.max");
    double quota_us = 0, period_us = 0;
    if (file >> quota_us >> period_us) narrow(quota_us, period_us);  // the word "max" is no number
  }
  // In version 1 a quota of -1 means that there is none.
  for (const std::string& folder : cgroup_folders(root, "cpu")) {
    double quota_us = 0;
    if (std::ifstream(folder + "/cpu.cfs_quota_us") >> quota_us) {
      narrow(quota_us, static_cast<double>(number_in(folder + "/cpu.cfs_period_us").value_or(0)));
    }
  }
  return cores;
}

}  // namespace

std::vector<int> usable_core_numbers() {
  std::vector<int> cores = cores_of_thread();
  if (cores.empty()) cores.push_back(0);
  return cores;
}

int usable_cores(const std::string& root) {
  const auto n_cores = static_cast<double>(usable_core_numbers().size());
  // The system would stop threads beyond the quota, all of them together, until the next period.
  // Half a core more or less is rounded.
  return static_cast<int>(std::max(1.0, std::min(n_cores, std::round(cgroup_cores(root)))));
}

std::string processor_name(const std::string& root) {
  std::ifstream file(root + "/proc/cpuinfo");
  std::vector<std::string> parts;  // in the order of the file, each once
  for (std::string line; std::getline(file, line);) {
    const size_t colon = std::min(line.find(':'), line.size());
    const std::string value = line.substr(std::min(colon + 2, line.size()));
    if (line.starts_with("model name") && !value.empty()) return value;
    const bool is_part = line.starts_with("CPU implementer") || line.starts_with("CPU part") ||
                         line.starts_with("Hardware");
    if (!is_part || value.empty()) continue;
    if (std::find(parts.begin(), parts.end(), value) == parts.end()) parts.push_back(value);
  }
  std::string name;
  for (const std::string& part : parts) name += (name.empty() ? "" : " ") + part;
  return name.empty() ? "unknown processor" : name;
}

void bind_to_cores(std::span<const int> cores) {
  if (!cores.empty()) CoreSet(cores).bind_thread();
}

// A thread that could not be bound back would stay on these cores for good.
OnCores::OnCores(std::span<const int> cores)
    : is_bound_(!cores.empty() && before_.read_from_thread()) {
  if (is_bound_) bind_to_cores(cores);
}

OnCores::~OnCores() {
  if (is_bound_) before_.bind_thread();
}

size_t memory_limit_bytes(const std::string& root) {
  const size_t machine = kilobytes_of(root + "/proc/meminfo", "MemTotal").value_or(SIZE_MAX);
  return std::min(machine, cgroup_memory(root).limit);
}

size_t available_memory_bytes(const std::string& root) {
  const size_t machine = kilobytes_of(root + "/proc/meminfo", "MemAvailable").value_or(SIZE_MAX);
  return std::min(machine, cgroup_memory(root).available);
}

bool is_memory_left_by_cgroup(const std::string& root) {
  const size_t machine = kilobytes_of(root + "/proc/meminfo", "MemAvailable").value_or(SIZE_MAX);
  return cgroup_memory(root).available < machine;
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

size_t resident_anonymous_bytes() {
  return kilobytes_of("/proc/self/status", "RssAnon").value_or(0);
}

size_t peak_resident_bytes() {
  // VmHWM counts mapped files as well, as ru_maxrss does, but can be reset between measurements.
  return kilobytes_of("/proc/self/status", "VmHWM").value_or(0);
}

}  // namespace troika
