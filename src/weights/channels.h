// Keeps int8 weights by channel: a column of a matrix is in one piece, for lanes that multiply the
// few channels with outliers and do not read the panels (N4). Columns of hot channels stay in
// memory, the others in a side file (N5).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/huge_pages.h"
#include "base/progress.h"
#include "model/linear_inputs.h"

namespace troika::weights {

class ChannelFile;
class Store;

// The columns that meet one activation, as levels. A column has the rows of all matrices that are
// multiplied with the activation, one matrix behind the other. A weight is its level times the
// scale of its row.
struct ChannelInput {
  std::vector<model::WeightId> weights;
  std::vector<size_t> first_rows;            // says where each matrix's rows begin in a column
  size_t k = 0;                              // counts channels
  size_t bytes = 0;                          // the size of a column
  std::vector<float> scales;                 // (bytes)
  std::vector<const int8_t*> resident = {};  // (k); null: not in memory
  uint64_t file_offset = 0;                  // says where column 0 stands in the side file
  // (k): what the side file says of each column's content; empty where there is no such file.
  std::span<const uint32_t> checks = {};

  // REQUIRES: `id` is one of the weights.
  size_t first_row_of(model::WeightId id) const;
  bool has_cold() const;
  // Says whether a column that came from the side file has the content that it was written with.
  bool is_intact(size_t channel, const int8_t* column) const;

  // Returns the size of the pages around a column, which are read past the page cache.
  size_t page_bytes() const { return (bytes + 2 * kPage - 2) / kPage * kPage; }
  static constexpr size_t kPage = 4096;
};

// Says which columns of an input stay in memory. An input whose products ignore their outliers has
// no choice, and no columns.
struct ChannelChoice {
  model::LinearInput input;
  bool is_all = true;
  std::vector<int> hot = {};  // the channels that stay, where not all do
};

class Channels {
 public:
  // Makes columns of the int8 form of the weights, which the store must have. REQUIRES: all columns
  // of the choices stay in memory. Throws Error where memory is short.
  Channels(const Store& store, std::span<const ChannelChoice> choices, int n_threads,
           const ProgressFunction& progress = {});
  // Reads the resident columns from a side file that has all columns. Throws Error where memory is
  // short, or one of these columns is damaged.
  Channels(const Store& store, std::span<const ChannelChoice> choices, const ChannelFile& file);

  // Returns null where the outliers of the weight's product are not multiplied by channels.
  const ChannelInput* find(model::WeightId id) const;
  std::span<const ChannelInput> inputs() const { return inputs_; }

  size_t resident_bytes() const { return arena_.size(); }
  // Returns what a copy of all columns would take.
  size_t all_bytes() const;
  // Returns the bytes of the pages of resident columns that the system has in memory now.
  size_t measured_bytes() const;

 private:
  void make_arena(std::span<const ChannelChoice> choices);

  std::vector<ChannelInput> inputs_;
  std::vector<int> by_weight_;  // -1: the weight has no columns
  PageBuffer arena_;            // has the columns that stay in memory
};

// Returns what stands in the side file for content: for scales and for each column.
uint32_t check_of(std::span<const std::byte> content);
// Returns the sentence about a column that is damaged.
std::string damaged_column(const std::string& path);

// Returns an input of these products without columns. Throws Error where a product has no int8
// form.
ChannelInput describe_channels(const Store& store, const model::LinearInput& input);

struct ChannelRange {
  size_t begin = 0;
  size_t end = 0;
};

// Writes the columns of these channels, (their number, bytes), and fills in the scales of all rows.
void transpose_channels(const Store& store, const ChannelRange& range, int n_threads,
                        ChannelInput* input, int8_t* columns);

}  // namespace troika::weights
