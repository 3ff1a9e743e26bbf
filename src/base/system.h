// What this process may use of the machine: cores and memory, limits of its cgroup included.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace troika {

// Cores this process may run on, at least 1, and their numbers.
int usable_cores();
std::vector<int> usable_core_numbers();

// As /proc/cpuinfo names it, or "unknown processor".
std::string processor_name();

// Binds the calling thread to these cores; nothing happens for an empty list.
void bind_to_cores(const std::vector<int>& cores);

// The memory that processes of this machine, or of this process's cgroup, may have in all. `root`
// is where /proc and /sys lie, for tests.
size_t memory_limit_bytes(const std::string& root = "");
// What of it is free or can be freed (page cache) now.
size_t available_memory_bytes(const std::string& root = "");

// The largest data cache that the system reports; 0 where it reports none.
size_t last_cache_bytes();

// Resident pages of this process now, and their peak; mapped files included.
size_t resident_bytes();
size_t peak_resident_bytes();

}  // namespace troika
