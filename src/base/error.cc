#include "base/error.h"

#include <cstdio>
#include <cstdlib>

namespace troika {

void assert_failed(const char* condition, const char* file, int line) {
  std::fprintf(stderr, "troika: this is a bug: %s is false at %s:%d\n", condition, file, line);
  std::abort();
}

}  // namespace troika
