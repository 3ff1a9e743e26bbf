#include "tests/support/repository.h"

namespace troika::test {

// Not made from __FILE__: a compiler cache may make that a relative path.
std::string repository_file(const std::string& path) {
  return std::string(TROIKA_REPOSITORY) + "/" + path;
}

}  // namespace troika::test
