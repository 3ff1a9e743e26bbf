// Finds files of this repository for tests, wherever they run and however they were compiled.
#pragma once

#include <string>

namespace troika::test {

// Returns where a file lies. `path` begins at the root of the repository: "phones/8gen3.json".
std::string repository_file(const std::string& path);

}  // namespace troika::test
