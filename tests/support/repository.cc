#include "tests/support/repository.h"

namespace troika::test {

// The path does not come from __FILE__, which a compiler cache may make relative.
std::string repository_file(const std::string& path) {
  return std::string(TROIKA_REPOSITORY) + "/" + path;
}

}  // namespace troika::test
