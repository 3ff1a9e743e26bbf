// Tells whether other programs work now, which what is measured would show.
#pragma once

#include <string>
#include <vector>

namespace troika::cli {

// Returns the share of their time that these cores were busy between two texts of /proc/stat; 0
// where the texts do not say.
double busy_share(const std::string& before, const std::string& after,
                  const std::vector<int>& cores);

// Looks for less than half a second. Where others keep more than a small part of the cores busy
// that this process may use, it returns true and prints that, with what follows from it.
bool is_machine_busy(const std::string& what_follows);

// Returns a sentence about a profile of this machine that was taken under this load; empty where no
// more wanted to run than there are cores.
std::string busy_profile_text(double load_average);

}  // namespace troika::cli
