// Finds files that were installed with the program.
#pragma once

#include <string>

namespace troika::cli {

// Returns a path of virtual phones ("phones", "phones/8gen3.json") as it is where it leads
// somewhere from the working folder, else that of the same name in share/troika beside the program,
// with a note, else the path as it is.
std::string phones_path(const std::string& path);

}  // namespace troika::cli
