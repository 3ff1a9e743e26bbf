// Keeps columns of weights in a side file (N5). In a model file the weights of a channel are
// scattered over all rows; here they stand in one piece that a disk reads at once.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/mapped_file.h"
#include "base/progress.h"
#include "weights/channels.h"
#include "weights/store.h"

namespace troika::weights {

struct ChannelFileOptions {
  std::string path;
  uint64_t model_key = 0;  // the content_key of the model
  uint64_t form_key = 0;   // says how the model's weights became levels
  int n_threads = 1;
  ProgressFunction progress = {};
  // Bounds what is made at once of an input's columns, though one column always is. Each time all
  // of its weights are read.
  size_t most_bytes_at_once = size_t{16} << 20;
  // Is told each matrix that columns were made of, whose pages nobody needs for now.
  Store::MatrixFunction done = {};
};

class ChannelFile {
 public:
  // Opens the file of the columns of `inputs`, or makes it where there is none, where it was made
  // for another model, form or version, where its tables or scales are damaged, and where it lacks
  // an input. A new file keeps the inputs that the old one had. `known` are all inputs that the
  // file may have. Throws Error where it cannot be written.
  ChannelFile(const Store& store, const ChannelFileOptions& options,
              std::span<const model::LinearInput> inputs,
              std::span<const model::LinearInput> known);

  const std::string& path() const { return file_.path(); }
  uint64_t bytes() const { return file_.bytes().size(); }
  int descriptor() const { return file_.descriptor(); }
  bool is_new() const { return is_new_; }
  // Says why a file that was there had to be made again; empty where none had.
  const std::string& problem() const { return problem_; }

  // Fills in the scales, and the place and the checks of the columns, which this file must outlive.
  // REQUIRES: the input is one of `inputs`.
  void describe(const Store& store, const model::LinearInput& input, ChannelInput* channels) const;
  // Fills the columns of an input that has been described which stay in memory. Throws Error where
  // one is damaged. The others are checked by whoever reads them.
  void copy_columns(const ChannelInput& channels) const;

 private:
  struct Entry {
    uint64_t name_hash = 0;
    uint64_t k = 0;
    uint64_t bytes = 0;
    uint64_t scales_offset = 0;
    uint64_t columns_offset = 0;
  };
  // Returns what is wrong with the file; empty: nothing.
  std::string read(const ChannelFileOptions& options);
  std::string read_checks(uint64_t offset);
  void make(const Store& store, const ChannelFileOptions& options,
            const std::vector<model::LinearInput>& inputs);
  const Entry* find(const Store& store, const model::LinearInput& input) const;

  MappedFile file_;
  std::vector<Entry> entries_;
  std::vector<uint32_t> checks_;  // for each entry that of its scales, then those of its columns
  bool is_new_ = false;
  std::string problem_;
};

}  // namespace troika::weights
