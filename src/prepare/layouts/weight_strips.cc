#include "prepare/layouts/weight_strips.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/clock.h"
#include "base/mapped_file.h"
#include "tensor/strips.h"
#include "weights/neurons/neurons.h"

namespace troika::prepare {
namespace {

bool has_kernels(const kernels::Table& kernels, tensor::Type type) {
  return kernels::find(kernels.matmul_q8_strips, type) != nullptr &&
         kernels::find(kernels.unpack_bf16_strips, type) != nullptr &&
         kernels::find(kernels.unpack_int8_strips, type) != nullptr;
}

// Says whether this op can read the weight from strips.
bool op_reads_strips(const model::Op& op, const weights::Matrix& matrix, int n_experts) {
  switch (op.kind) {
    case model::OpKind::kEmbed:
      return true;
    case model::OpKind::kLinear:
      return !op.keeps_float;
    case model::OpKind::kExpertLinear: {
      const size_t n_rows = static_cast<size_t>(matrix.n_rows) / static_cast<size_t>(n_experts);
      return n_rows % tensor::kStripRows == 0;
    }
    default:
      return false;
  }
}

// Says whether this process has a copy of all that the matrix has in the file.
bool is_copied(const gguf::File& file, const weights::Matrix& matrix) {
  const std::byte* const end = matrix.data + matrix.bytes();
  return std::any_of(
      file.shards().begin(), file.shards().end(), [&](const gguf::File::Shard& shard) {
        const std::byte* const begin = shard.bytes.data();
        if (shard.map == nullptr || matrix.data < begin || end > begin + shard.bytes.size()) {
          return false;
        }
        return shard.map->is_copied(
            {static_cast<size_t>(matrix.data - begin), static_cast<size_t>(end - begin)});
      });
}

}  // namespace

std::vector<model::WeightId> strip_matrices(const model::Blueprint& blueprint,
                                            const kernels::Table& kernels,
                                            const weights::Store& weights) {
  struct Use {
    std::set<model::WeightId> ids;
    bool is_product = false, is_other = false;
  };
  std::map<const std::byte*, Use> uses;  // by the place of the data
  // Neurons read rows of these weights one by one.
  std::set<model::WeightId> by_neuron;
  if (weights.neurons() != nullptr) {
    for (const weights::NeuronFfn& ffn : weights.neurons()->ffns()) {
      by_neuron.insert(ffn.ffn.up);
      if (ffn.predictor != nullptr) by_neuron.insert(ffn.ffn.gate);
    }
  }
  for (const model::Op& op : blueprint.ops) {
    if (op.weight == model::kNone || !weights.is_matrix(op.weight)) continue;
    const weights::Matrix& matrix = weights.matrix(op.weight);
    Use& use = uses[matrix.data];
    use.ids.insert(op.weight);
    use.is_product |= op.kind != model::OpKind::kEmbed;
    use.is_other |= !has_kernels(kernels, matrix.type) ||
                    static_cast<size_t>(matrix.row_length) > kernels::kMostStripDepth ||
                    !op_reads_strips(op, matrix, blueprint.n_experts) ||
                    by_neuron.contains(op.weight);
  }
  std::vector<model::WeightId> ids;
  for (const auto& [place, use] : uses) {
    if (use.is_product && !use.is_other) ids.insert(ids.end(), use.ids.begin(), use.ids.end());
  }
  return ids;
}

bool reads_strips(const plan::Plan& plan) {
  // Prompts in half floats are a device's. What it leaves to its cores there, as experts with
  // biases, they multiply in floats, row by row.
  return plan.activations != plan::Activations::kF32 && plan.prefill != plan::Prefill::kF32 &&
         plan.prefill != plan::Prefill::kF16;
}

void place_in_strips(const gguf::File& file, const model::Blueprint& blueprint,
                     const kernels::Table& kernels, const plan::Plan& plan, weights::Store* weights,
                     WeightPages* pages) {
  if (!reads_strips(plan)) return;
  std::vector<model::WeightId> ids = strip_matrices(blueprint, kernels, *weights);
  std::erase_if(ids, [&](model::WeightId id) {
    return weights->is_switched(id) || !is_copied(file, weights->matrix(id));
  });
  if (ids.empty()) return;
  const RealClock clock;
  const double start_us = clock.now_us();
  const bool is_writable =
      std::all_of(file.shards().begin(), file.shards().end(),
                  [](const gguf::File::Shard& shard) { return shard.map->set_writable(true); });
  if (!is_writable) {
    pages->text += "; rows as in the file, because the system does not let the copy be changed";
    return;
  }
  const size_t n_bytes = weights->place_in_strips(ids, plan.n_threads());
  for (const gguf::File::Shard& shard : file.shards()) shard.map->set_writable(false);
  pages->text +=
      fmt::format("; {:.0f} MB with 16 rows side by side, {:.2f} s",
                  1e-6 * static_cast<double>(n_bytes), 1e-6 * (clock.now_us() - start_us));
}

}  // namespace troika::prepare
