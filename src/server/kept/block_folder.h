// Keeps files in a folder of limited size, and finds each by its key. A file is whole or not there:
// it gets its name once it is written, and a checksum finds files that the disk has spoilt. Where
// room is short, the file that was not asked for the longest goes first.
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
  // Makes the folder if it is missing, for its owner alone. Throws Error if it cannot be made, or
  // if another process holds it. Other files in the folder stay untouched.
  BlockFolder(std::string path, uint64_t most_bytes);
  ~BlockFolder();
  BlockFolder(const BlockFolder&) = delete;
  BlockFolder& operator=(const BlockFolder&) = delete;

  // Says whether there is a file with this key. A key is 64 hexadecimal digits.
  bool has(const std::string& key) const;
  // Returns the content of a file; empty if there is no such file. A spoilt file is removed.
  std::optional<std::vector<std::byte>> read(const std::string& key);
  // Writes a file, unless it is larger than the folder may be. Throws Error if the disk does not
  // take the file.
  void write(const std::string& key, std::span<const std::byte> content);
  // Notes that the file was asked for now.
  void touch(const std::string& key);

  uint64_t bytes() const;
  uint64_t most_bytes() const { return most_bytes_; }
  size_t n_files() const;

 private:
  struct File {
    uint64_t bytes = 0;
    uint64_t last = 0;  // is larger the later the file was asked for; 0: it never was
  };
  using Files = std::map<std::string, File>;
  std::string path_of(const std::string& key) const;
  void lock_folder();
  void look_around();
  void note_use(Files::iterator file);
  void remove(Files::iterator file);
  void make_room(uint64_t bytes);

  const std::string path_;
  const uint64_t most_bytes_;
  int lock_ = -1;
  mutable std::mutex mutex_;
  Files files_;
  std::map<uint64_t, Files::iterator> by_use_;  // by `last`
  uint64_t bytes_ = 0;
  uint64_t now_ = 0;
};

}  // namespace troika::server
