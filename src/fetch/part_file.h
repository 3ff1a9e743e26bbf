// A file that is being downloaded. If the download breaks, what has come stays, and the next try
// goes on there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "base/digests/sha.h"
#include "base/progress.h"

namespace troika::fetch {

class PartFile {
 public:
  // Opens or makes `path` in a folder that exists, and reads its content for the hash, which goes
  // on from `start`. One process at a time has the file: if another one has it, this one calls
  // `wait` once and waits. Where the file system has no locks, nobody waits. Throws Error.
  PartFile(std::string path, const std::function<void()>& wait, const ProgressFunction& progress,
           const Sha& start = Sha256());
  // Leaves what has come to the next try.
  ~PartFile();
  PartFile(const PartFile&) = delete;
  PartFile& operator=(const PartFile&) = delete;

  const std::string& path() const { return path_; }
  uint64_t bytes() const { return bytes_; }

  void append(std::span<const std::byte> bytes);
  // Remembers what has come, in order to return there if the bytes that follow are wrong.
  struct Mark {
    uint64_t bytes = 0;
    Sha hash = Sha256();
  };
  Mark mark() const { return {bytes_, hash_}; }
  void back_to(const Mark& mark);
  void restart() { back_to({0, start_}); }
  // Returns the hash of all bytes. Nothing can be appended afterwards.
  std::string hash() { return hash_.hex(); }
  // Removes the file, because its bytes are wrong or not needed. After `remove` or `commit`, no
  // function may be called.
  void remove();
  // Flushes the file to the disk and gives it this name, in the same folder. Throws Error, also
  // where somebody has removed the file meanwhile.
  void commit(const std::string& target);

  // Removes a part that nobody needs, unless somebody has it, or nobody can tell because there are
  // no locks. A link is left alone, and so is what cannot be removed.
  static void remove_unused(const std::string& path);

 private:
  bool open_locked(const std::function<void()>& wait);
  bool has_its_name() const;
  void close();
  void read_all(const ProgressFunction& progress);

  std::string path_;
  int descriptor_ = -1;
  uint64_t bytes_ = 0;
  Sha start_;  // has taken in what is hashed before the first byte
  Sha hash_;
};

}  // namespace troika::fetch
