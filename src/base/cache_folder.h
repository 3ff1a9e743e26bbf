// The folder of what is kept between runs: profiles, plans, side files, downloaded models.
#pragma once

#include <string>

namespace troika {

// Returns the folder for side files that belong to no model, "~/.cache/troika" by default. Throws
// Error where neither XDG_CACHE_HOME nor HOME is set.
std::string cache_folder();

// Makes a folder below that one, where it is missing. Throws Error that ends with `way_out`.
void make_kept_folder(
    const std::string& folder,
    const std::string& way_out = "Set XDG_CACHE_HOME to one that can be written.");
// Makes the folder of a side file that will be written. Throws Error also where something is in the
// way at the file's path: nobody has chosen that path, so another one is no advice.
void make_place_for(const std::string& side_file);
// Makes the folder of a file that will be kept, and tries whether the file could be written there:
// before minutes are spent on what it is to hold. Throws Error.
void check_kept_file(const std::string& path);

}  // namespace troika
