// Keeps files of the program apart from standard input, output and error where these are closed.
#pragma once

namespace troika::cli {

// Takes the descriptors 0 to 2 where they are closed, so that no file or socket gets them: whoever
// reads standard input would read that file, and messages would be written to it. Reads and writes
// fail as before.
void hold_standard_descriptors();

}  // namespace troika::cli
