// A file that appears under its name complete, or not at all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/error.h"

namespace troika {

// Gives an open file that has no name this path. Returns 0, or -1 and sets errno: to EEXIST where
// the path is taken. A system may forbid it, as Android does.
using GiveName = int (*)(int descriptor, const char* path);
int give_name_by_link(int descriptor, const char* path);

// Where the system can, the new file has no name until `commit`, so that even a killed process
// leaves none of its bytes behind; elsewhere it stands beside the target as NAME.partial-PID-N
// until then, or as troika.partial-PID-N where that is too long. A limit on file sizes (`ulimit
// -f`) becomes an Error only in a process that ignores SIGXFSZ.
class AtomicFile {
 public:
  // Throws Error where the folder cannot be written, or the path names something that is no file,
  // UsageError for "-", which is standard input wherever files are read.
  // If the path is a symbolic link, the file to which it leads is replaced. `mode` says who may
  // read and write the file, as far as the process's umask and the file that is replaced let them.
  // Tests replace `give_name`.
  explicit AtomicFile(std::string path, unsigned mode = 0666,
                      GiveName give_name = give_name_by_link);
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;
  // Removes what was written unless `commit` has returned.
  ~AtomicFile();

  const std::string& path() const { return path_; }
  uint64_t bytes_written() const { return bytes_written_; }

  // Appends bytes. It does not buffer, so pieces should be large. After an Error the file cannot be
  // committed.
  void write(std::span<const std::byte> bytes);
  void write(std::string_view text) { write(std::as_bytes(std::span(text))); }
  // Flushes the file to the disk and gives it its name. Called once.
  void commit();

 private:
  void open_partial();
  int open_nameless() const;
  bool can_give_names() const;
  void discard() noexcept;
  [[noreturn]] void fail(std::string_view action);

  unsigned mode_;
  GiveName give_name_;
  std::string path_;          // as the caller gave it, for messages
  std::string target_;        // with a symbolic link resolved
  std::string folder_;        // the folder of the target
  std::string partial_path_;  // empty while the file has no name
  int descriptor_ = -1;
  uint64_t bytes_written_ = 0;
};

// Returns the path at which AtomicFile writes: where symbolic links lead, whether something is
// there or not.
std::string written_path(const std::string& path);

// Writes a whole file, which appears complete or not at all. Throws Error.
void write_file(const std::string& path, std::string_view content);

// Limits the bytes of a text that is read whole. A device and a pipe may have no end.
inline constexpr uint64_t kMostTextBytes = uint64_t{256} << 20;

// Returns the bytes of a whole file; nothing where it cannot be read, or is a folder. Waits for the
// bytes of a pipe. Throws Error where there are more than `most_bytes`.
std::optional<std::string> read_whole_file(const std::string& path,
                                           uint64_t most_bytes = kMostTextBytes);
// Returns the error about a text that has more bytes.
Error too_long(const std::string& name, uint64_t most_bytes = kMostTextBytes);

// Throws UsageError where writing `output` would replace `source`, which is being read.
void refuse_to_replace(const std::string& source, const std::string& output);

}  // namespace troika
