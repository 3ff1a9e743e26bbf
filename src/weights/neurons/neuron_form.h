// Says what a neuron's bundle is made of (P7): its row of the gate, unless gates stay in memory,
// its row of the product before the activation, and its column of the product behind it. Scales of
// columns, which groups of neurons share, always stay in memory. Scales of rows stay there if the
// disk then reads a page less for each neuron. Bundles and scales together are exactly the file's
// weights.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/threads/team.h"
#include "weights/neurons/bundle_layout.h"
#include "weights/neurons/columns.h"
#include "weights/neurons/source.h"

namespace troika::weights {

class NeuronForm {
 public:
  // REQUIRES: matrices have their rows as in the file; `up`, and the gate if it is given, have a
  // row for each column of `down`.
  NeuronForm(const Matrix& up, const Matrix& down, const Matrix* gate = nullptr);

  const ColumnLayout& columns() const { return columns_; }
  size_t n_neurons() const { return columns_.n_neurons; }
  // Returns how many bytes of each block of a row of `up` stay in memory; 0: rows are whole.
  size_t scale_bytes() const { return up_.n_scale_bytes; }
  bool has_gate() const { return gate_.n_blocks > 0; }

  // Return the size of a neuron on disk, of its gate there, which comes first, of what a layer
  // keeps in memory, and of a neuron in memory.
  size_t bundle_bytes() const { return gate_.levels() + up_.levels() + columns_.column_bytes; }
  size_t gate_bytes() const { return gate_.levels(); }
  size_t resident_bytes() const { return columns_.plane_bytes() + n_neurons() * row_scales(); }
  size_t place_bytes() const { return gate_.bytes() + up_.bytes() + columns_.column_bytes; }
  // Returns a key that tells forms apart.
  uint64_t key() const;

  // Writes what is resident, and neuron i to `bundles` + i * stride.
  void write(const Matrix& up, const Matrix& down, const Matrix* gate, size_t stride, Team& team,
             std::byte* bundles, std::byte* resident) const;
  // Puts a bundle and its scales together where products read them: `place_bytes` of memory.
  void assemble(const std::byte* resident, size_t neuron, const std::byte* bundle,
                std::byte* place) const;
  // Do the same in two steps, when the first `n` bytes of a bundle are there, and when the rest is.
  // In between the place has the gate, and nothing else that can be used. REQUIRES: gate_bytes() <=
  // n <= bundle_bytes().
  void assemble_first(const std::byte* resident, size_t neuron, const std::byte* bundle, size_t n,
                      std::byte* place) const;
  void assemble_rest(const std::byte* resident, size_t neuron, const std::byte* rest, size_t n,
                     std::byte* place) const;
  // Fills the same place from the model's own rows and a column of levels. `gate` is null where
  // gates stay in memory.
  void assemble_whole(const std::byte* gate, const std::byte* up, const std::byte* column,
                      std::byte* place) const;
  NeuronPlaces places(const std::byte* place) const {
    const std::byte* const up = place + gate_.bytes();
    return {up, up + up_.bytes(), has_gate() ? place : nullptr};
  }
  kernels::ColumnPlanes planes(const std::byte* resident) const;

 private:
  // A row of blocks, each of which begins with its scales.
  struct Row {
    Row() = default;
    explicit Row(const Matrix& matrix);
    size_t levels() const { return n_blocks * (block_bytes - n_scale_bytes); }
    size_t scales() const { return n_blocks * n_scale_bytes; }
    size_t bytes() const { return n_blocks * block_bytes; }
    void divide(const std::byte* row, std::byte* scales, std::byte* levels) const;
    void join(const std::byte* scales, const std::byte* levels, std::byte* row) const;
    // Does the same where the levels stand at the row's beginning.
    void join_in_place(const std::byte* scales, std::byte* row) const;

    size_t block_bytes = 0;
    size_t n_blocks = 0;
    size_t n_scale_bytes = 0;  // the part of each block that stays in memory
  };

  size_t row_scales() const { return gate_.scales() + up_.scales(); }
  size_t scales_offset(size_t neuron) const {
    return columns_.plane_bytes() + neuron * row_scales();
  }

  ColumnLayout columns_;
  Row gate_;  // without blocks: gates are in memory
  Row up_;
};

}  // namespace troika::weights
