// What this process may use of the machine: cores and memory, limits of its cgroup included.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace troika {

// How many threads can run at once: the cores this process may run on, or the time that its cgroup
// allows in whole cores where that is less; at least 1. `root` is where /proc and /sys lie, for
// tests.
int usable_cores(const std::string& root = "");
// The numbers of the cores it may run on.
std::vector<int> usable_core_numbers();

// As /proc/cpuinfo names it, or "unknown processor".
std::string processor_name();

// Binds the calling thread to these cores; nothing happens for an empty list.
void bind_to_cores(const std::vector<int>& cores);

// The memory that processes of this machine, or of this process's cgroup, may have in all.
size_t memory_limit_bytes(const std::string& root = "");
// What of it is free or can be freed (page cache) now.
size_t available_memory_bytes(const std::string& root = "");

// The largest data cache that the system reports; 0 where it reports none.
size_t last_cache_bytes();

// Resident pages of this process now, and their peak; mapped files included.
size_t resident_bytes();
size_t peak_resident_bytes();
// Returns the bytes of those pages that belong to no file.
size_t resident_anonymous_bytes();

}  // namespace troika
