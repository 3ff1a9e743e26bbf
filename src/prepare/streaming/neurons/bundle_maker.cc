#include "prepare/streaming/neurons/bundle_maker.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "base/hash.h"
#include "prepare/streaming/page_reads.h"
#include "weights/neurons/neurons.h"

namespace troika::prepare {
using weights::Matrix;

BundleMaker::BundleMaker(std::span<const model::GatedFfn> ffns, const weights::Store& weights,
                         int n_threads, const weights::NeuronHeat* heat, const gguf::File* file)
    : ffns_(ffns.begin(), ffns.end()),
      weights_(weights),
      n_threads_(n_threads),
      heat_(heat),
      file_(file) {
  TROIKA_ASSERT(!ffns.empty());
  shape_.n_layers = ffns.size();
  for (const model::GatedFfn& ffn : ffns) {
    const std::optional<Matrix> gate = gate_of(ffn);
    const weights::NeuronForm form(rows_of(weights, ffn.up, ffn), rows_of(weights, ffn.down, ffn),
                                   gate ? &*gate : nullptr);
    shape_.n_neurons = std::max<uint64_t>(shape_.n_neurons, form.n_neurons());
    shape_.bundle_bytes = std::max<uint64_t>(shape_.bundle_bytes, form.bundle_bytes());
    shape_.resident_bytes = std::max<uint64_t>(shape_.resident_bytes, form.resident_bytes());
    place_bytes_ = std::max(place_bytes_, form.place_bytes());
    forms_.push_back(form);
  }
  enter_first_bytes();
}

// Gates are read by themselves where they take fewer pages than bundles. Then each bundle has some
// bytes behind these pages.
void BundleMaker::enter_first_bytes() {
  uint64_t gate_bytes = 0, bundle_bytes = shape_.bundle_bytes;
  for (const weights::NeuronForm& form : forms_) {
    if (!form.has_gate()) return;
    gate_bytes = std::max<uint64_t>(gate_bytes, form.gate_bytes());
    bundle_bytes = std::min<uint64_t>(bundle_bytes, form.bundle_bytes());
  }
  const uint64_t first_bytes = weights::page_above(gate_bytes);
  if (first_bytes < bundle_bytes) shape_.first_bytes = first_bytes;
}

std::optional<Matrix> BundleMaker::gate_of(const model::GatedFfn& ffn) const {
  if (!ffn.has_gate_by_neuron) return std::nullopt;
  return weights::rows_of(weights_, ffn.gate, ffn);
}

uint64_t BundleMaker::key() const {
  Fnv hash;
  for (const weights::NeuronForm& form : forms_) hash.add(form.key());
  return hash.value();
}

uint64_t BundleMaker::order_key() const { return heat_ == nullptr ? 0 : heat_->key(); }

std::vector<uint32_t> BundleMaker::order(uint64_t layer) {
  if (heat_ != nullptr) return heat_->order(layer);
  std::vector<uint32_t> order(shape_.n_neurons);
  std::iota(order.begin(), order.end(), 0);
  return order;
}

void BundleMaker::make(uint64_t layer, std::span<std::byte> bundles,
                       std::span<std::byte> resident) {
  const Matrix up = rows_of(weights_, ffns_[layer].up, ffns_[layer]);
  const Matrix down = rows_of(weights_, ffns_[layer].down, ffns_[layer]);
  const std::optional<Matrix> gate = gate_of(ffns_[layer]);
  Team team(n_threads_);
  forms_[layer].write(up, down, gate ? &*gate : nullptr, shape_.bundle_bytes, team, bundles.data(),
                      resident.data());
  if (file_ == nullptr) return;
  if (gate) forget_mapped(*file_, gate->data, gate->bytes());
  forget_mapped(*file_, up.data, up.bytes());
  forget_mapped(*file_, down.data, down.bytes());
}

}  // namespace troika::prepare
