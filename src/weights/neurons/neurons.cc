#include "weights/neurons/neurons.h"

#include <new>

#include "weights/no_memory.h"

namespace troika::weights {

Matrix rows_of(const Store& weights, model::WeightId id, const model::GatedFfn& ffn) {
  Matrix rows = weights.matrix(id);
  if (!ffn.is_expert()) return rows;
  rows.n_rows /= ffn.n_experts;
  rows.data += static_cast<size_t>(ffn.expert) * rows.bytes();
  return rows;
}

const NeuronFfn* Neurons::find(model::WeightId down) const {
  for (const NeuronFfn& ffn : ffns_) {
    if (ffn.ffn.down == down) return &ffn;
  }
  return nullptr;
}

void Neurons::set_predictor(std::unique_ptr<NeuronPredictor> predictor) {
  predictor_ = std::move(predictor);
  for (NeuronFfn& ffn : ffns_) ffn.predictor = predictor_.get();
}

size_t ResidentNeurons::bytes_for(std::span<const model::GatedFfn> ffns, const Store& weights) {
  size_t bytes = 0;
  for (const model::GatedFfn& ffn : ffns) {
    const ColumnLayout layout = column_layout(rows_of(weights, ffn.down, ffn));
    bytes += layout.plane_bytes() + layout.level_bytes();
  }
  return bytes;
}

ResidentNeurons::ResidentNeurons(std::span<const model::GatedFfn> ffns, const Store& weights,
                                 int n_threads, const ProgressFunction& progress) {
  Team team(n_threads);
  for (const model::GatedFfn& ffn : ffns) {
    if (progress) progress(columns_.size(), ffns.size());
    try {
      columns_.emplace_back(rows_of(weights, ffn.down, ffn), team);
    } catch (const std::bad_alloc&) {
      throw no_memory(bytes_for(ffns, weights),
                      "of weights by neuron beside the model. Use ‹ffn› by-output.");
    }
    up_.push_back(rows_of(weights, ffn.up, ffn));
    NeuronFfn own;
    own.index = static_cast<int>(Neurons::ffns().size());
    own.ffn = ffn;
    own.layout = columns_.back().layout();
    own.planes = columns_.back().planes();
    own.source = this;
    Neurons::ffns().push_back(own);
    bytes_ += columns_.back().bytes();
  }
  if (progress) progress(ffns.size(), ffns.size());
}

TakenPart ResidentNeurons::take(int ffn, int /*part*/, std::span<const uint32_t> neurons,
                                NeuronPlaces* places) {
  const Matrix& up = up_[static_cast<size_t>(ffn)];
  const DownColumns& down = columns_[static_cast<size_t>(ffn)];
  for (const uint32_t neuron : neurons) {
    *places++ = {up.data + neuron * up.row_bytes, down.column(neuron)};
  }
  return TakenPart::kWhole;
}

}  // namespace troika::weights
