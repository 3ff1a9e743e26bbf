#include "prepare/streaming/neurons/model_neurons.h"

#include <algorithm>

#include "prepare/streaming/page_reads.h"
#include "weights/neurons/neurons.h"

namespace troika::prepare {

ModelNeurons::ModelNeurons(std::span<const model::GatedFfn> ffns, const weights::Store& weights,
                           const gguf::File* file)
    : file_(file), columns_(bytes_for(ffns, weights)) {
  for (const model::GatedFfn& ffn : ffns) {
    Matrices& own = ffns_.emplace_back(
        Matrices{rows_of(weights, ffn.up, ffn), rows_of(weights, ffn.down, ffn), {}});
    if (ffn.has_gate_by_neuron) own.gate = rows_of(weights, ffn.gate, ffn);
  }
}

size_t ModelNeurons::bytes_for(std::span<const model::GatedFfn> ffns,
                               const weights::Store& weights) {
  size_t most = 0;
  for (const model::GatedFfn& ffn : ffns) {
    const weights::Matrix down = rows_of(weights, ffn.down, ffn);
    most =
        std::max(most, weights::column_granule(down) * weights::column_layout(down).column_bytes);
  }
  return most;
}

void ModelNeurons::read(const weights::NeuronForm& form, int ffn, std::span<const Wanted> wanted) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const Matrices& own = ffns_[static_cast<size_t>(ffn)];
  const size_t granule = weights::column_granule(own.down);
  size_t first = 0, last = 0;  // the neurons whose columns are read
  for (const Wanted& one : wanted) {
    if (one.neuron < first || one.neuron >= last) {
      first = one.neuron / granule * granule;
      last = std::min(first + granule, form.n_neurons());
      weights::write_columns(own.down, form.columns(), first, last, columns_.data(), nullptr,
                             nullptr);
    }
    const std::byte* const column =
        columns_.data() + (one.neuron - first) * form.columns().column_bytes;
    const std::byte* const gate =
        own.gate ? own.gate->data + one.neuron * own.gate->row_bytes : nullptr;
    form.assemble_whole(gate, own.up.data + one.neuron * own.up.row_bytes, column, one.to);
  }
  if (file_ == nullptr) return;
  // A column has a byte in each row, so that the whole matrix has come into memory.
  if (own.gate) forget_mapped(*file_, own.gate->data, own.gate->bytes());
  forget_mapped(*file_, own.up.data, own.up.bytes());
  forget_mapped(*file_, own.down.data, own.down.bytes());
}

}  // namespace troika::prepare
