// A folder of files within a stated size, each found by its key. A file is whole or not there: it
// gets its name once it is written, and a checksum tells what a disk has spoilt. What was not asked
// for the longest goes first where room is short.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace troika::server {

// Functions may be called from several threads.
class BlockFolder {
 public:
  // Makes the folder where it is missing, for its owner alone. Throws Error where that cannot be,
  // or where another process holds it. What is in it and is none of these files stays untouched.
  BlockFolder(std::string path, uint64_t most_bytes);
  ~BlockFolder();
  BlockFolder(const BlockFolder&) = delete;
  BlockFolder& operator=(const BlockFolder&) = delete;

  // A key is 64 hexadecimal digits.
  bool has(const std::string& key) const;
  // Empty where there is no such file, or a spoilt one, which is gone then.
  std::optional<std::vector<std::byte>> read(const std::string& key);
  // Throws Error where the disk does not take it. What is larger than the folder may be is not
  // written.
  void write(const std::string& key, std::span<const std::byte> content);
  // It was asked for now.
  void touch(const std::string& key);

  uint64_t bytes() const;
  uint64_t most_bytes() const { return most_bytes_; }
  size_t n_files() const;

 private:
  struct File {
    uint64_t bytes = 0;
    uint64_t last = 0;  // the larger, the later it was asked for
  };
  std::string path_of(const std::string& key) const;
  void lock_folder();
  void look_around();
  void remove(const std::string& key);
  void make_room(uint64_t bytes);

  const std::string path_;
  const uint64_t most_bytes_;
  int lock_ = -1;
  mutable std::mutex mutex_;
  std::map<std::string, File> files_;
  uint64_t bytes_ = 0;
  uint64_t now_ = 0;
};

}  // namespace troika::server
