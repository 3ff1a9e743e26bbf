// Turns the last matrix of a feed-forward block into columns, one for each neuron: columns of
// levels, and the scales that groups of neurons share as planes (kernels/columns.h). The weights
// are exactly those of the file.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/huge_pages.h"
#include "base/threads/team.h"
#include "kernels/columns.h"
#include "weights/store.h"

namespace troika::weights {

// Says how the columns of a matrix are written, and how much they take.
struct ColumnLayout {
  kernels::ColumnForm form{};
  size_t n_neurons = 0;     // counts columns
  size_t n_outputs = 0;     // counts rows, padding included
  size_t group = 32;        // counts neurons that share scales
  size_t column_bytes = 0;  // the size of one neuron's levels
  size_t scale_bytes = 0;   // the size of all planes of scales
  size_t minimum_bytes = 0;

  size_t level_bytes() const { return n_neurons * column_bytes; }
  size_t plane_bytes() const { return scale_bytes + minimum_bytes; }
};

// REQUIRES: the matrix has its rows as in the file.
ColumnLayout column_layout(const Matrix& matrix);

// Writes the columns of neurons [first, last), multiples of a block of the matrix's type, to
// `levels`, which begins with neuron `first`. Writes the planes of their groups to their places in
// `scales` and `minima`, unless both are null.
void write_columns(const Matrix& matrix, const ColumnLayout& layout, size_t first, size_t last,
                   std::byte* levels, std::byte* scales, float* minima);
// Returns how many neurons must be written together: those of one block.
size_t column_granule(const Matrix& matrix);

// Holds the columns of a matrix, all in memory.
class DownColumns {
 public:
  // Throws std::bad_alloc.
  DownColumns(const Matrix& matrix, Team& team);

  const ColumnLayout& layout() const { return layout_; }
  kernels::ColumnPlanes planes() const;
  const std::byte* column(size_t neuron) const {
    return memory_.get() + layout_.plane_bytes() + neuron * layout_.column_bytes;
  }
  size_t bytes() const { return memory_.size(); }

 private:
  ColumnLayout layout_;
  PageBuffer memory_;  // holds scales, minima, levels
};

}  // namespace troika::weights
