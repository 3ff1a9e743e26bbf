// Reads neurons from the model's own file, where the side file of bundles cannot be read or was
// damaged. That is slower by far than a bundle: each output's row is read for one column of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "gguf/file.h"
#include "model/gated_ffns.h"
#include "weights/neurons/neuron_form.h"
#include "weights/store.h"

namespace troika::prepare {

class ModelNeurons {
 public:
  struct Wanted {
    uint32_t neuron = 0;
    std::byte* to = nullptr;  // `place_bytes` of memory
  };

  // The map of the model's file must outlive this, and `file` too, whose pages are given back once
  // they were read; null: they stay. REQUIRES: the store's rows lie as in the file.
  ModelNeurons(std::span<const model::GatedFfn> ffns, const weights::Store& weights,
               const gguf::File* file);

  // Builds the bundles of neurons, which are in ascending order. Any thread may call it. It
  // allocates no memory.
  void read(const weights::NeuronForm& form, int ffn, std::span<const Wanted> wanted);

  // bytes() is the memory that it keeps, and bytes_for() what it would keep for these FFNs.
  size_t bytes() const { return columns_.size(); }
  static size_t bytes_for(std::span<const model::GatedFfn> ffns, const weights::Store& weights);

 private:
  struct Matrices {
    weights::Matrix up, down;
    std::optional<weights::Matrix> gate;
  };

  const gguf::File* file_;
  std::vector<Matrices> ffns_;
  std::mutex mutex_;
  std::vector<std::byte> columns_;  // columns of the neurons of one block of weights
};

}  // namespace troika::prepare
