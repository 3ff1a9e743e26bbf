// What this process may use of the machine: cores and memory, within the limits of its cgroup.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "base/threads/core_set.h"

namespace troika {

// Returns how many threads can run at once: the number of cores this process may run on, or the
// whole cores' worth of time that its cgroup allows, if that is less; at least 1. `root` is where
// /proc and /sys lie, for tests.
int usable_cores(const std::string& root = "");
// Returns the numbers of the cores that this process may run on.
std::vector<int> usable_core_numbers();

// Returns what /proc/cpuinfo calls the processor: its "model name", or where there is none, as on
// ARM, the codes of makers and kinds of cores, and the board: "0x41 0xd05 0xd0b Qualcomm SM8350".
// Plans and profiles belong to it. Returns "unknown processor" where nothing is said.
std::string processor_name(const std::string& root = "");

// Binds the calling thread to these cores; nothing happens for an empty list.
void bind_to_cores(std::span<const int> cores);

// Binds the calling thread to cores while it lives: threads that a driver makes meanwhile stay on
// these cores. Where `cores` is empty, nothing is bound. It allocates nothing.
class OnCores {
 public:
  explicit OnCores(std::span<const int> cores);
  ~OnCores();
  OnCores(const OnCores&) = delete;
  OnCores& operator=(const OnCores&) = delete;

 private:
  CoreSet before_;
  bool is_bound_;
};

// Returns the memory that processes of this machine, or of this process's cgroup, may have in all.
size_t memory_limit_bytes(const std::string& root = "");
// Returns how much of that memory is free now, or can be freed (page cache).
size_t available_memory_bytes(const std::string& root = "");
// Says whether the limit of the cgroup leaves less of it than the machine has free.
bool is_memory_left_by_cgroup(const std::string& root = "");

// Returns the size of the largest data cache that the system reports; 0 where it reports none.
size_t last_cache_bytes();

// Return the bytes of resident pages of this process now, and at their peak; mapped files are
// included.
size_t resident_bytes();
size_t peak_resident_bytes();
// Returns the bytes of those pages that belong to no file.
size_t resident_anonymous_bytes();

}  // namespace troika
