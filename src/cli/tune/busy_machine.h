// Tells whether other programs work now, which what is measured would show.
#pragma once

#include <string>

namespace troika::cli {

// Looks for less than half a second. Where others keep more than a small part of the cores busy, it
// returns true and prints that, with what follows from it.
bool is_machine_busy(const std::string& what_follows);

// Returns a sentence about a profile of this machine that was taken under this load; empty where no
// more wanted to run than there are cores.
std::string busy_profile_text(double load_average);

}  // namespace troika::cli
