#include "plan/profile_cache.h"

#include <fmt/format.h>

#include <filesystem>

#include "base/atomic_file.h"
#include "base/bytes_text.h"
#include "base/cache_folder.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/side_file.h"

namespace troika::plan {
namespace {

std::string key_text(const MachineIdentity& machine, const std::vector<ProfileLane>& lanes) {
  std::string text =
      fmt::format("{}\n{}\n{}\n{}\n{}\n{}\n{}\n", kProfileVersion, machine.cpu, machine.n_cores,
                  machine.features, machine.memory_bytes, machine.kernel, machine.arithmetic);
  for (const ProfileLane& lane : lanes) {
    // Lanes of cores have no identity beyond that of the machine.
    const char* const bar = lane.identity.empty() ? "" : "|";
    text += fmt::format("{}|{}|{}|{}{}{}\n", lane.name, fmt::join(lane.cores, ","), lane.n_threads,
                        lane.is_matrix, bar, lane.identity);
  }
  return text;
}

}  // namespace

std::string kept_profile_path(const MachineIdentity& machine,
                              const std::vector<ProfileLane>& lanes) {
  return fmt::format("{}/profile-{:016x}.json", cache_folder(), hash_of(key_text(machine, lanes)));
}

std::optional<Profile> kept_profile(const MachineIdentity& machine,
                                    const std::vector<ProfileLane>& lanes, std::string* problem) {
  const std::string path = kept_profile_path(machine, lanes);
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return std::nullopt;
  try {
    const std::optional<std::string> text = read_side_file(path, kMostProfileBytes);
    if (!text) {
      throw Error(fmt::format("{}: it cannot be read, or is no file, or has more than {}.", path,
                              bytes_text(kMostProfileBytes)));
    }
    Profile profile = profile_from_json(*text, path);
    if (profile.machine == machine && profile.lanes == lanes) return profile;
    if (problem != nullptr) *problem = path + ": was taken on another machine.";
  } catch (const Error& error) {
    if (problem != nullptr) *problem = error.what();
  }
  return std::nullopt;
}

std::string keep_profile(const Profile& profile) {
  const std::string path = kept_profile_path(profile.machine, profile.lanes);
  make_kept_folder(std::filesystem::path(path).parent_path().string());
  write_file(path, profile_to_json(profile));
  return path;
}

}  // namespace troika::plan
