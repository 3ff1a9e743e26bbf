// Int8 weights by channel: a column of a matrix in one piece, for lanes that multiply the few
// channels with outliers and do not read the panels (N4). Columns of hot channels stay in memory,
// the others in a side file (N5).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/progress.h"
#include "model/linear_inputs.h"

namespace troika::weights {

class ChannelFile;
class Store;

// The columns that the products of one activation meet: those of all its matrices, one behind the
// other, as levels. A weight is its level times the scale of its row.
struct ChannelInput {
  std::vector<model::WeightId> weights;
  std::vector<size_t> first_rows;            // of each of them: where its rows begin in a column
  size_t k = 0;                              // channels
  size_t bytes = 0;                          // of a column
  std::vector<float> scales;                 // (bytes)
  std::vector<const int8_t*> resident = {};  // (k); null: not in memory
  uint64_t file_offset = 0;                  // where column 0 stands in the side file

  // REQUIRES: it is one of the weights.
  size_t first_row_of(model::WeightId id) const;
  bool has_cold() const;

  // Room for the pages around a column, so that they can be read past the page cache.
  size_t page_bytes() const { return (bytes + 2 * kPage - 2) / kPage * kPage; }
  static constexpr size_t kPage = 4096;
};

// What stays in memory; the columns of an input whose products ignore their outliers do not.
struct ChannelChoice {
  model::LinearInput input;
  bool is_all = true;
  std::vector<int> hot = {};  // otherwise these
};

class Channels {
 public:
  // From the int8 form of the weights, which the store must have. REQUIRES: everything stays in
  // memory. Throws Error where memory is short.
  Channels(const Store& store, std::span<const ChannelChoice> choices, int n_threads,
           const ProgressFunction& progress = {});
  // Reads a side file that has all of them. The others stay there. Throws Error too.
  Channels(const Store& store, std::span<const ChannelChoice> choices, const ChannelFile& file);

  // Null where the outliers of its product are not multiplied by channels.
  const ChannelInput* find(model::WeightId id) const;
  std::span<const ChannelInput> inputs() const { return inputs_; }

  size_t resident_bytes() const { return arena_bytes_; }
  // Were there a copy of all columns.
  size_t all_bytes() const;
  // The bytes of the pages of resident columns that the system has in memory now.
  size_t measured_bytes() const;

 private:
  struct Free {
    void operator()(std::byte* bytes) const;
  };
  void make_arena(std::span<const ChannelChoice> choices);

  std::vector<ChannelInput> inputs_;
  std::vector<int> by_weight_;  // -1: none
  std::unique_ptr<std::byte, Free> arena_;
  size_t arena_bytes_ = 0;
};

// An input of these products without columns. Throws Error where one has no int8 form.
ChannelInput describe_channels(const Store& store, const model::LinearInput& input);

// Writes all columns, (k, bytes), and fills in the scales.
void transpose_channels(const Store& store, ChannelInput* input, int n_threads, int8_t* columns);

}  // namespace troika::weights
