// What takes long to make, in a folder for the next run of the program, such as what a driver
// compiled.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/function_ref.h"

namespace troika::lanes {

// Is the most bytes of such a file. What a driver compiled may hold the weights of a model, so it
// may be much longer than any text.
inline constexpr uint64_t kMostKeptBytes = uint64_t{1} << 40;

// Says what a folder of such files keeps.
struct KeptKind {
  const char* name;         // stands at the beginning of each file
  const char* extension;    // of a file's name, with its point
  const char* what;         // what people call several of them
  const char* prefix = "";  // begins the names of files, where others lie beside them
};

// The files of one kind in a folder. One thread at a time uses it.
class KeptFiles {
 public:
  // Keeps files in `folder`; empty: nowhere. The kind must outlive this.
  KeptFiles(std::string folder, const KeptKind& kind) : folder_(std::move(folder)), kind_(kind) {}

  // Returns what was kept under a key, which stands for everything that it was made from; nothing
  // where there is none, or its file is damaged.
  std::optional<std::string> find(uint64_t key);
  // Counts what came from `find`, and whoever asked for it could not use, as damaged.
  void note_refused() { ++n_damaged_; }
  // Keeps what `make` returns. It may write a file at the path that it is given, which is removed
  // afterwards, and throw Error.
  void keep(uint64_t key, FunctionRef<std::string(const std::string& path)> make);

  // Returns sentences for people; empty where all went well.
  std::string problem() const;

 private:
  std::string path_of(uint64_t key) const;
  std::string head_of(uint64_t key, std::string_view content) const;

  std::string folder_;
  const KeptKind& kind_;
  int n_damaged_ = 0;
  std::string write_problem_;  // keeps the first problem only
};

}  // namespace troika::lanes
