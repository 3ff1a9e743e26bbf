// A file on its way here. What has come stays when the way is cut, and the next try goes on there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "base/progress.h"
#include "base/sha256.h"

namespace troika::fetch {

class PartFile {
 public:
  // Opens or makes `path` in a folder that is there, and reads what it holds for its hash. One
  // process at a time has it; `wait` is called, once, where another one does, before this one
  // waits for it. Throws Error.
  PartFile(std::string path, const std::function<void()>& wait, const ProgressFunction& progress);
  // Leaves what has come for the next try.
  ~PartFile();
  PartFile(const PartFile&) = delete;
  PartFile& operator=(const PartFile&) = delete;

  const std::string& path() const { return path_; }
  uint64_t bytes() const { return bytes_; }

  void append(std::span<const std::byte> bytes);
  // What is there now, to come back to after bytes that are wrong.
  struct Mark {
    uint64_t bytes = 0;
    Sha256 hash;
  };
  Mark mark() const { return {bytes_, hash_}; }
  void back_to(const Mark& mark);
  void restart() { back_to({}); }
  // Returns the hash of all bytes. Nothing can be appended after it.
  std::string sha256() { return hash_.hex(); }
  // Removes it, because its bytes are wrong or not needed. Nothing can be done with it after that,
  // nor after `commit`.
  void remove();
  // Flushes it to the disk and gives it this name, in the same folder. Throws Error, also where
  // somebody removed it meanwhile.
  void commit(const std::string& target);

 private:
  bool open_locked(const std::function<void()>& wait);
  bool has_its_name() const;
  void close();
  void read_all(const ProgressFunction& progress);

  std::string path_;
  int descriptor_ = -1;
  uint64_t bytes_ = 0;
  Sha256 hash_;
};

}  // namespace troika::fetch
