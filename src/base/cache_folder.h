// The folder of what is kept between runs: profiles, plans, side files, downloaded models.
#pragma once

#include <string>

namespace troika {

// Returns the folder for side files that belong to no model, "~/.cache/troika" by default. Throws
// Error where neither XDG_CACHE_HOME nor HOME is set.
std::string cache_folder();

}  // namespace troika
