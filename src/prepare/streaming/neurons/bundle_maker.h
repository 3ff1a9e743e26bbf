// Makes the bundles (P7) of a side file from the matrices of a model.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/threads/team.h"
#include "gguf/file.h"
#include "model/gated_ffns.h"
#include "weights/neurons/bundle_file.h"
#include "weights/neurons/heat.h"
#include "weights/neurons/neuron_form.h"
#include "weights/store.h"

namespace troika::prepare {

class BundleMaker : public weights::BundleSource {
 public:
  // The store must outlive this. REQUIRES: there are FFNs, and the store's matrices lie in memory
  // as they do in the file. Pages of `file` that bundles were made of are given back; null: they
  // stay.
  BundleMaker(std::span<const model::GatedFfn> ffns, const weights::Store& weights, int n_threads,
              const weights::NeuronHeat* heat = nullptr, const gguf::File* file = nullptr);

  // Returns the form of each FFN's neurons. Forms differ where layers have different types; all
  // bundles have the size of the largest.
  const std::vector<weights::NeuronForm>& forms() const { return forms_; }
  const weights::BundleShape& shape() const { return shape_; }
  size_t place_bytes() const { return place_bytes_; }
  // Returns a key of what bundles are made of, and one of the order of heat. 0: it is not known.
  uint64_t key() const;
  uint64_t order_key() const;

  // Returns a layer's neurons, the hottest first, or in the model's order if their heat is not
  // known.
  std::vector<uint32_t> order(uint64_t layer) override;
  void make(uint64_t layer, std::span<std::byte> bundles, std::span<std::byte> resident) override;
  void check_made() const override { weights_.check_intact(); }

 private:
  void enter_first_bytes();
  // Returns the rows of the gate that are read with their neurons; none: gates stay in memory.
  std::optional<weights::Matrix> gate_of(const model::GatedFfn& ffn) const;

  std::vector<model::GatedFfn> ffns_;
  const weights::Store& weights_;
  int n_threads_;
  const weights::NeuronHeat* heat_;
  const gguf::File* file_;
  std::vector<weights::NeuronForm> forms_;
  weights::BundleShape shape_;
  size_t place_bytes_ = 0;
};

}  // namespace troika::prepare
