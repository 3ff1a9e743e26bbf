// What a neuron's bundle is made of where the gate stays in memory (P7): its row of the product
// before the activation, and its column of the product behind it. Scales stay in memory: those of
// columns, which groups of neurons share, always; those of rows where the disk then has a page less
// to read for each neuron. Together they are the file's weights, exactly.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/team.h"
#include "weights/neurons/bundle_layout.h"
#include "weights/neurons/columns.h"
#include "weights/neurons/source.h"

namespace troika::weights {

class NeuronForm {
 public:
  // REQUIRES: rows as in the file, and a row of `up` for each column of `down`.
  NeuronForm(const Matrix& up, const Matrix& down);

  const ColumnLayout& columns() const { return columns_; }
  size_t n_neurons() const { return columns_.n_neurons; }
  // How much of each block of a row stays in memory; 0: rows are whole.
  size_t scale_bytes() const { return n_scale_bytes_; }

  // On disk; of a layer, in memory; of a neuron in memory.
  size_t bundle_bytes() const { return row_levels() + columns_.column_bytes; }
  size_t resident_bytes() const { return columns_.plane_bytes() + n_neurons() * row_scales(); }
  size_t place_bytes() const { return n_blocks_ * block_bytes_ + columns_.column_bytes; }
  // Tells forms apart.
  uint64_t key() const;

  // Writes what is resident, and neuron i to `bundles` + i * stride.
  void write(const Matrix& up, const Matrix& down, size_t stride, Team& team, std::byte* bundles,
             std::byte* resident) const;
  // Puts a bundle together with its scales where products read it: `place_bytes` of memory.
  void assemble(const std::byte* resident, size_t neuron, const std::byte* bundle,
                std::byte* place) const;
  NeuronPlaces places(const std::byte* place) const {
    return {place, place + n_blocks_ * block_bytes_};
  }
  kernels::ColumnPlanes planes(const std::byte* resident) const;

 private:
  size_t row_levels() const { return n_blocks_ * (block_bytes_ - n_scale_bytes_); }
  size_t row_scales() const { return n_blocks_ * n_scale_bytes_; }
  const std::byte* scales_of(const std::byte* resident, size_t neuron) const {
    return resident + columns_.plane_bytes() + neuron * row_scales();
  }

  ColumnLayout columns_;
  size_t block_bytes_ = 0;  // of a row of `up`
  size_t n_blocks_ = 0;
  size_t n_scale_bytes_ = 0;  // at the beginning of each block
};

}  // namespace troika::weights
