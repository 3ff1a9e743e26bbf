// Keeps profiles for each machine: $XDG_CACHE_HOME/troika/profile-KEY.json.
#pragma once

#include <optional>
#include <string>

#include "plan/profile.h"

namespace troika::plan {

// Returns where the profile of these lanes of this machine is kept. The name holds a key of the
// machine, the lanes and the version of the format.
std::string kept_profile_path(const MachineIdentity& machine,
                              const std::vector<ProfileLane>& lanes);

// Returns the kept profile, if there is one that can be read and was taken on these lanes of this
// machine. A broken file counts as none, and `problem`, if not null, says why.
std::optional<Profile> kept_profile(const MachineIdentity& machine,
                                    const std::vector<ProfileLane>& lanes, std::string* problem);

// Writes the profile by atomic rename and makes the folder where it is missing. Returns the path.
std::string keep_profile(const Profile& profile);

}  // namespace troika::plan
