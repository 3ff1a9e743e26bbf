// Draws pictures of a profile: stages over tokens, order and shape effects, bandwidth, storage.
#pragma once

#include <string>
#include <vector>

#include "plan/profile.h"

namespace troika::solve {

struct Plot {
  std::string file_name;  // "tokens.svg"
  std::string svg;
};

// Returns the plots for which the profile has measurements.
std::vector<Plot> profile_plots(const plan::Profile& profile);

}  // namespace troika::solve
