// Files of this repository that tests read, wherever they run and however they were compiled.
#pragma once

#include <string>

namespace troika::test {

// `path` from the root of the repository: "phones/8gen3.json".
std::string repository_file(const std::string& path);

}  // namespace troika::test
