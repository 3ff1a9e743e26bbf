// The files that a repository holds, as a hub lists them. Untrusted bytes end here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace troika::fetch {

struct HubFile {
  std::string path;  // from the root of the repository, and safe (is_safe_path)
  uint64_t bytes = 0;
  std::string sha256;  // 64 digits in lower case; empty where the hub has none
  // The SHA-1 by which git names these bytes (as of "blob SIZE", a zero and the bytes): 40 digits
  // in lower case. Empty where there is a SHA-256, because git then has other bytes that stand for
  // these, or where the hub names none.
  std::string git_sha1 = {};

  // Returns the hash by which the bytes are told from others; empty where there is none.
  const std::string& hash() const { return sha256.empty() ? git_sha1 : sha256; }
};

// Says whether a name ends in ".gguf", in any case of letters.
bool is_gguf_name(std::string_view path);

struct Listing {
  std::vector<HubFile> files;
  // Has the paths of GGUF files that this program does not download, because they are not safe:
  // hidden ones, as a Mac leaves them beside others, or names that no file system can hold.
  std::vector<std::string> left_out;
};

// Appends the GGUF files of one page: a JSON array of {type, path, size, oid, lfs: {oid, size}}.
// Throws Error for what is no such array, for a path that leads out of the folder, and for a size
// or a hash that cannot be; `name` stands in messages.
void add_page(std::string_view json, std::string_view name, Listing* listing);

// Files that are a model together: one file, or all shards of a split model.
struct HubModel {
  std::string label;  // "Q4_K_M", or the file's name where it names no element type
  std::vector<HubFile> files;
  bool is_complete = true;  // says whether all shards are there

  uint64_t bytes() const;
  // Returns the first shard's name without folders.
  std::string file_name() const;
};

// Returns the models in the order of their labels. It leaves out files beside models that no
// program can run alone, such as projectors of images and matrices of importance.
std::vector<HubModel> models_of(const std::vector<HubFile>& files);

// Returns the model that `quant` means: a label, or a file's name or path, in any case of letters.
// An exact path means its file alone. An empty `quant` means Q4_K_M, else Q4_0, else the smallest
// model of at least 4 bits, else the largest. Throws an Error that lists what there is where
// nothing, or more than one model, is meant; `name` stands in it, and of the files that were left
// out those that are meant.
const HubModel& choose_model(const std::vector<HubModel>& models, std::string_view quant,
                             std::string_view name, const std::vector<std::string>& left_out = {});

}  // namespace troika::fetch
