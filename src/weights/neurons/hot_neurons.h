// Holds the neurons of each feed-forward block that fire most often as matrices of their own (P1),
// which any lane multiplies densely. Their rows are those of the file. Blocks of weights lie along
// neurons in the last matrix, so that what hot neurons have of it is rounded anew, to 8 bits; types
// without blocks stay exact.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "base/huge_pages.h"
#include "model/hot_ffns.h"
#include "weights/neurons/heat.h"
#include "weights/store.h"

namespace troika::weights {

// The form of a matrix of hot neurons.
struct HotMatrix {
  tensor::Type type;
  int n_rows;
  int row_length;

  size_t row_bytes() const;
  size_t bytes() const { return row_bytes() * static_cast<size_t>(n_rows); }
};

// Returns how many of a block's neurons are hot: about this share, in groups of 32, but neither
// none nor all. 0 where there are too few for that.
int n_hot_neurons(int n_neurons, int percent);
// Returns that for each block.
std::vector<int> hot_counts(std::span<const model::GatedFfn> ffns, int percent,
                            const Store& weights);
// Returns the forms of all matrices, block after block: gate, up, down.
std::vector<HotMatrix> hot_matrices(std::span<const model::GatedFfn> ffns,
                                    std::span<const int> n_hot, const Store& weights);
// Returns the bytes that they take together.
size_t hot_bytes(std::span<const model::GatedFfn> ffns, int percent, const Store& weights);

// Returns for each block the neurons that were counted most often, ascending.
std::vector<std::vector<uint32_t>> hot_lists(std::span<const model::GatedFfn> ffns, int percent,
                                             const NeuronHeat& heat, const Store& weights);
// Returns a key that tells such lists apart; it is never 0.
uint64_t key_of(const std::vector<std::vector<uint32_t>>& lists);

class HotNeurons {
 public:
  // Is told of each matrix that has been read.
  using Done = std::function<void(const Matrix& matrix)>;
  // Copies the rows, so that neither the lists nor the matrices need outlive this. REQUIRES: they
  // have their rows as in the file. Throws Error where memory is short.
  HotNeurons(const model::Blueprint& model, std::span<const model::GatedFfn> ffns,
             const std::vector<std::vector<uint32_t>>& lists, const Store& weights, int n_threads,
             const Done& done = {});

  // Has all values of the model and of hot neurons, and their weights.
  const model::Blueprint& blueprint() const { return hot_.blueprint; }
  const std::vector<model::HotFfn>& ffns() const { return hot_.ffns; }
  // Returns null where no neurons of this block are hot.
  const model::HotFfn* find(model::WeightId down) const;
  Store& weights() { return *weights_; }
  const Store& weights() const { return *weights_; }
  // Returns a byte for each neuron of a block: 1 where it is hot.
  const uint8_t* marks(size_t ffn) const { return marks_[ffn].data(); }
  bool is_hot(size_t ffn, uint32_t neuron) const { return marks_[ffn][neuron] != 0; }
  int64_t n_neurons() const { return n_neurons_; }  // counts those of all blocks
  size_t bytes() const { return memory_.size(); }

 private:
  model::HotBlueprint hot_;
  std::vector<std::vector<uint8_t>> marks_;
  int64_t n_neurons_ = 0;
  PageBuffer memory_;
  std::unique_ptr<Store> weights_;
};

}  // namespace troika::weights
