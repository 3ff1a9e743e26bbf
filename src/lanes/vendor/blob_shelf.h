// Compiled graphs in a folder, from one run of the program to the next: reading one takes less time
// than compiling it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace troika::lanes::openvino {

// One thread at a time uses it.
class BlobShelf {
 public:
  explicit BlobShelf(std::string folder) : folder_(std::move(folder)) {}

  // The blob of a key that stands for all it was made from; none where there is none, or the file
  // is not what was written.
  std::optional<std::string> find(uint64_t key);
  // The library refused what `find` gave.
  void note_refused() { ++n_damaged_; }
  // `write` puts the blob into the file of that name, and returns whether it could.
  void keep(uint64_t key, const std::function<bool(const std::string& path)>& write);

  // A sentence for people; empty where all went well.
  std::string problem() const;

 private:
  std::string path_of(uint64_t key) const;

  std::string folder_;
  int n_damaged_ = 0;
  std::string write_problem_;  // the first
};

}  // namespace troika::lanes::openvino
