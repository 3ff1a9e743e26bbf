#include "weights/neurons/hot_neurons.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <numeric>
#include <utility>

#include "base/cache_line.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/threads/team.h"
#include "tensor/codec.h"
#include "weights/no_memory.h"

namespace troika::weights {
namespace {

using Lists = std::vector<std::vector<uint32_t>>;

constexpr int kHotGranule = 32;  // what every type of blocks divides into

size_t bytes_of(std::span<const HotMatrix> matrices) {
  size_t bytes = 0;
  for (const HotMatrix& matrix : matrices) bytes += whole_lines(matrix.bytes());
  return bytes;
}

// Copies the rows of some neurons.
void gather_rows(const Matrix& from, std::span<const uint32_t> neurons, std::byte* to) {
  for (size_t i = 0; i < neurons.size(); ++i) {
    std::memcpy(to + i * from.row_bytes, from.data + neurons[i] * from.row_bytes, from.row_bytes);
  }
}

// Copies the columns of some neurons.
void gather_columns(const Matrix& from, std::span<const uint32_t> neurons, const HotMatrix& form,
                    std::byte* to, Team& team) {
  team.run([&](int worker) {
    std::vector<float> row(static_cast<size_t>(from.row_length)), chosen(neurons.size());
    const Share share = share_of(from.n_rows, worker, team.size());
    for (auto r = static_cast<size_t>(share.begin); r < static_cast<size_t>(share.end); ++r) {
      tensor::dequantize_row(from.type, from.data + r * from.row_bytes, row.data(), row.size());
      for (size_t i = 0; i < neurons.size(); ++i) chosen[i] = row[neurons[i]];
      tensor::quantize_row(form.type, chosen.data(), to + r * form.row_bytes(), chosen.size());
    }
  });
}

}  // namespace

size_t HotMatrix::row_bytes() const {
  return tensor::row_bytes(type, static_cast<size_t>(row_length));
}

int n_hot_neurons(int n_neurons, int percent) {
  const int most = (n_neurons - 1) / kHotGranule * kHotGranule;
  const auto wanted = static_cast<int>(int64_t{n_neurons} * percent / 100);
  return std::min(most, std::max(wanted / kHotGranule, 1) * kHotGranule);
}

std::vector<int> hot_counts(std::span<const model::GatedFfn> ffns, int percent,
                            const Store& weights) {
  std::vector<int> counts;
  for (const model::GatedFfn& ffn : ffns) {
    counts.push_back(n_hot_neurons(weights.matrix(ffn.up).n_rows, percent));
  }
  return counts;
}

std::vector<HotMatrix> hot_matrices(std::span<const model::GatedFfn> ffns,
                                    std::span<const int> n_hot, const Store& weights) {
  std::vector<HotMatrix> matrices;
  for (size_t i = 0; i < ffns.size(); ++i) {
    const Matrix &gate = weights.matrix(ffns[i].gate), &up = weights.matrix(ffns[i].up),
                 &down = weights.matrix(ffns[i].down);
    const bool has_blocks = !tensor::is_float(down.type);
    matrices.push_back({gate.type, n_hot[i], gate.row_length});
    matrices.push_back({up.type, n_hot[i], up.row_length});
    matrices.push_back({has_blocks ? tensor::Type::kQ8_0 : down.type, down.n_rows, n_hot[i]});
  }
  return matrices;
}

size_t hot_bytes(std::span<const model::GatedFfn> ffns, int percent, const Store& weights) {
  return bytes_of(hot_matrices(ffns, hot_counts(ffns, percent, weights), weights));
}

Lists hot_lists(std::span<const model::GatedFfn> ffns, int percent, const NeuronHeat& heat,
                const Store& weights) {
  Lists lists;
  const std::vector<int> n_hot = hot_counts(ffns, percent, weights);
  for (size_t i = 0; i < ffns.size(); ++i) {
    const std::span<const uint32_t> counts = heat.counts(i);
    std::vector<uint32_t> neurons(static_cast<size_t>(weights.matrix(ffns[i].up).n_rows));
    std::iota(neurons.begin(), neurons.end(), 0);
    std::stable_sort(neurons.begin(), neurons.end(),
                     [&](uint32_t a, uint32_t b) { return counts[a] > counts[b]; });
    neurons.resize(static_cast<size_t>(n_hot[i]));
    std::sort(neurons.begin(), neurons.end());
    lists.push_back(std::move(neurons));
  }
  return lists;
}

uint64_t key_of(const Lists& lists) {
  Fnv hash;
  for (const std::vector<uint32_t>& list : lists) {
    hash.add(list.size());
    hash.add(std::as_bytes(std::span(list)));
  }
  return std::max<uint64_t>(hash.value(), 1);
}

HotNeurons::HotNeurons(const model::Blueprint& model, std::span<const model::GatedFfn> ffns,
                       const Lists& lists, const Store& weights, int n_threads, const Done& done) {
  TROIKA_ASSERT(lists.size() == ffns.size());
  std::vector<int> n_hot;
  for (size_t i = 0; i < ffns.size(); ++i) {
    n_hot.push_back(static_cast<int>(lists[i].size()));
    n_neurons_ += n_hot[i];
    std::vector<uint8_t>& marks =
        marks_.emplace_back(static_cast<size_t>(weights.matrix(ffns[i].up).n_rows));
    for (const uint32_t neuron : lists[i]) marks[neuron] = 1;
  }
  const std::vector<HotMatrix> forms = hot_matrices(ffns, n_hot, weights);
  try {
    memory_ = PageBuffer(bytes_of(forms));
  } catch (const std::bad_alloc&) {
    throw no_memory(bytes_of(forms),
                    "of hot neurons beside the model. Use a smaller ‹neuron-hot›.");
  }
  hot_ = model::with_hot_neurons(model, ffns, n_hot);
  std::vector<StoredWeight> stored(hot_.blueprint.weights.size());
  std::byte* next = memory_.get();
  const auto place = [&](model::WeightId id, const HotMatrix& form) {
    std::byte* const at = std::exchange(next, next + whole_lines(form.bytes()));
    stored[static_cast<size_t>(id)].matrix = {form.type, at, form.row_bytes(), form.n_rows,
                                              form.row_length};
    return at;
  };
  Team team(n_threads);
  for (size_t i = 0; i < ffns.size(); ++i) {
    const model::HotFfn& hot = hot_.ffns[i];
    const Matrix &gate = weights.matrix(ffns[i].gate), &up = weights.matrix(ffns[i].up),
                 &down = weights.matrix(ffns[i].down);
    gather_rows(gate, lists[i], place(hot.gate, forms[3 * i]));
    gather_rows(up, lists[i], place(hot.up, forms[3 * i + 1]));
    gather_columns(down, lists[i], forms[3 * i + 2], place(hot.down, forms[3 * i + 2]), team);
    for (const Matrix* matrix : {&gate, &up, &down}) {
      if (done) done(*matrix);
    }
  }
  weights_ = std::make_unique<Store>(hot_.blueprint, std::move(stored));
}

const model::HotFfn* HotNeurons::find(model::WeightId down) const {
  const auto at = std::find_if(hot_.ffns.begin(), hot_.ffns.end(),
                               [&](const model::HotFfn& hot) { return hot.whole.down == down; });
  return at == hot_.ffns.end() ? nullptr : &*at;
}

}  // namespace troika::weights
