// Compiled graphs in a folder, kept for the next run of the program: reading a graph takes less
// time than compiling it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace troika::lanes::openvino {

// A folder of blobs. One thread at a time uses it.
class BlobShelf {
 public:
  explicit BlobShelf(std::string folder) : folder_(std::move(folder)) {}

  // Returns the blob of a key, which stands for everything that the blob was made from; nothing
  // where there is none, or its file is damaged.
  std::optional<std::string> find(uint64_t key);
  // Counts a blob from `find` that the library refused.
  void note_refused() { ++n_damaged_; }
  // Keeps a blob: `write` puts it into the file of that name, and returns whether it could.
  void keep(uint64_t key, const std::function<bool(const std::string& path)>& write);

  // Returns a sentence for people; empty where all went well.
  std::string problem() const;

 private:
  std::string path_of(uint64_t key) const;

  std::string folder_;
  int n_damaged_ = 0;
  std::string write_problem_;  // keeps the first problem only
};

}  // namespace troika::lanes::openvino
