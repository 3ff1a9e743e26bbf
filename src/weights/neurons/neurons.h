// Knows the feed-forward blocks of a model that are computed by neuron (P1), and where the weights
// of their neurons are.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/threads/wait_clock.h"
#include "kernels/columns.h"
#include "model/gated_ffns.h"
#include "weights/neurons/columns.h"
#include "weights/neurons/predictor.h"
#include "weights/neurons/source.h"
#include "weights/store.h"

namespace troika::weights {

// Returns the rows of a block that one of its weights holds: all of them, or those of an expert.
Matrix rows_of(const Store& weights, model::WeightId id, const model::GatedFfn& ffn);

// What an op must know of a feed-forward block.
struct NeuronFfn {
  int index = 0;  // the source's number of the block
  model::GatedFfn ffn;
  ColumnLayout layout;           // the layout of the last matrix
  kernels::ColumnPlanes planes;  // the last matrix's scales, in memory
  NeuronSource* source = nullptr;
  // An activation that is less in magnitude is dead; 0: only an activation of 0 is (P12).
  float threshold = 0.0f;
  // The predictor's layer `index` says which rows of the gate are worth computing (P3); null: all
  // are.
  const NeuronPredictor* predictor = nullptr;
  // Says that rows of the gate are read with the neurons that the predictor names.
  bool reads_gates = false;
  // Has a byte for each neuron: 1 where it is hot, and another task adds what it adds; null: none
  // is.
  const uint8_t* hot = nullptr;
  // Says that nothing is dead. Such a block judges the others, which have its bits where only zeros
  // are dead.
  bool keeps_all = false;

  int n_neurons() const { return static_cast<int>(layout.n_neurons); }
  bool is_hot(int neuron) const { return hot != nullptr && hot[neuron] != 0; }
};

class Neurons {
 public:
  virtual ~Neurons() = default;
  // Returns the bytes that are in memory for neurons beside the store's matrices.
  virtual size_t bytes() const = 0;
  // Returns how long workers have waited for neurons until now.
  virtual WaitTimes waited() const { return {}; }
  // Counts what was computed by neuron until now. Hot neurons are none of it.
  NeuronSource::Computed computed() const {
    return ffns_.empty() ? NeuronSource::Computed() : ffns_.front().source->computed();
  }
  // Returns null where the block is computed by output. The experts of a mixture stand behind the
  // one that is returned.
  const NeuronFfn* find(model::WeightId down) const;
  std::vector<NeuronFfn>& ffns() { return ffns_; }
  // Sets what says which rows of gates are worth computing; null: nothing does.
  void set_predictor(std::unique_ptr<NeuronPredictor> predictor);
  size_t predictor_bytes() const { return predictor_ != nullptr ? predictor_->bytes() : 0; }
  const std::vector<NeuronFfn>& ffns() const { return ffns_; }

 private:
  std::vector<NeuronFfn> ffns_;
  std::unique_ptr<NeuronPredictor> predictor_;
};

// All neurons are in memory: rows where the store has them, columns as copies.
class ResidentNeurons : public Neurons, private NeuronSource {
 public:
  // Returns the bytes that the copies take.
  static size_t bytes_for(std::span<const model::GatedFfn> ffns, const Store& weights);
  // The store must outlive this. Throws Error where memory is short.
  ResidentNeurons(std::span<const model::GatedFfn> ffns, const Store& weights, int n_threads,
                  const ProgressFunction& progress);

  size_t bytes() const override { return bytes_; }

 private:
  TakenPart take(int ffn, int part, std::span<const uint32_t> neurons,
                 NeuronPlaces* places) override;

  std::vector<DownColumns> columns_;
  std::vector<Matrix> up_;
  size_t bytes_ = 0;
};

}  // namespace troika::weights
