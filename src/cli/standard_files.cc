#include "cli/standard_files.h"

#include <fcntl.h>
#include <unistd.h>

namespace troika::cli {

void hold_standard_descriptors() {
  for (const int wanted : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(wanted, F_GETFD) >= 0) continue;
    // It opens the least that is free, and in the direction that nobody uses.
    (void)::open("/dev/null", wanted == STDIN_FILENO ? O_WRONLY : O_RDONLY);
  }
}

}  // namespace troika::cli
