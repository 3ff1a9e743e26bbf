// Turns somebody's bytes into a file whose size and hash are right.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/progress.h"
#include "fetch/http.h"
#include "fetch/listing.h"
#include "fetch/part_file.h"

namespace troika::fetch {

// Asks for the bytes of a file from `offset` on; as Hub::get.
using AskForBytes = std::function<std::string(uint64_t offset, const HttpSink& sink)>;

struct DownloadHooks {
  ProgressFunction progress = [](uint64_t, uint64_t) {};
  // A sentence for the user, without a line end.
  std::function<void(const std::string&)> note = [](const std::string&) {};
  // Before the n-th try of those in a row that brought little. Sleeps unless a test replaces it.
  std::function<void(int n)> pause;
};

// What tells the file at a path from one that takes its place.
struct FileStamp {
  uint64_t device = 0;
  uint64_t inode = 0;
  int64_t seconds = 0;  // of its last change
  int64_t nanoseconds = 0;
  bool operator==(const FileStamp&) const = default;
};
// Empty where there is no file.
std::optional<FileStamp> stamp_of(const std::string& path);

// The whole and right bytes for `target`, which they become by commit(target): what `ask` brings,
// in the folder of `target`, which is made. The part is called TARGET.KEY.part, where KEY is of its
// hash, so that bytes of another file never become a part of it. Connections that break are taken
// up again; those that break often are left to the next run, which goes on. Null where another
// process has made `target` since it was `seen`, which was not this file. Throws Error.
std::unique_ptr<PartFile> download(const HubFile& file, const std::string& target,
                                   const std::optional<FileStamp>& seen, const AskForBytes& ask,
                                   const DownloadHooks& hooks);

// Whether the file is there with this size and, where it is known, this hash.
bool is_same_file(const std::string& path, const HubFile& file, const ProgressFunction& progress);

}  // namespace troika::fetch
