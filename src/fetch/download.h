// Turns bytes that somebody sends into a file whose size and hash are right.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/progress.h"
#include "fetch/http.h"
#include "fetch/listing.h"
#include "fetch/part_file.h"

namespace troika::fetch {

// Asks for the bytes of a file from `offset` on, as Hub::get does: all of them where `version` is
// not empty and no longer the file's.
using AskForBytes =
    std::function<std::string(uint64_t offset, const std::string& version, const HttpSink& sink)>;

struct DownloadHooks {
  ProgressFunction progress = [](uint64_t, uint64_t) {};
  // Gets sentences for the user, without line ends.
  std::function<void(const std::string&)> note = [](const std::string&) {};
  // Is called before the n-th try of those in a row that brought little. It sleeps, unless a test
  // replaces it.
  std::function<void(int n)> pause;
};

// Tells a file at a path from another file that takes its place.
struct FileStamp {
  uint64_t device = 0;
  uint64_t inode = 0;
  int64_t seconds = 0;  // when the file was last changed
  int64_t nanoseconds = 0;
  bool operator==(const FileStamp&) const = default;
};
// Returns nothing where there is no file.
std::optional<FileStamp> stamp_of(const std::string& path);

// Returns all bytes of a file, checked, which become `target` by commit(target). They are what
// `ask` brings, and lie in the folder of `target`, which is made. The part is called
// TARGET.KEY.part, where KEY comes from its hash, so that bytes of another file never become part
// of it. Connections that break are taken up again; if they break often, the rest is left to the
// next run, which goes on there. Without a hash a part may be of an older file: each run begins
// anew, and so does each try, unless the answers say that they are of one version. Returns null
// where another process has made `target` since it was `seen`. Throws Error.
std::unique_ptr<PartFile> download(const HubFile& file, const std::string& target,
                                   const std::optional<FileStamp>& seen, const AskForBytes& ask,
                                   const DownloadHooks& hooks);

// Removes what has come of other versions of `target`, or of this one, that no download needs: no
// process has it open. REQUIRES: the target is there and right.
void remove_old_parts(const std::string& target);

// Throws Error where the disk lacks room for what is missing of all files together. Without a hash
// a file is missing as a whole; otherwise what has come of it is here, and so is a file of its
// size, whose bytes are not looked at.
void check_room(const std::vector<HubFile>& files, const std::vector<std::string>& targets);

// Says whether the file is there with this size and hash. Where no hash is known nobody can say so
// of a file with bytes, and the answer is no.
bool is_same_file(const std::string& path, const HubFile& file, const ProgressFunction& progress);

}  // namespace troika::fetch
