#include "weights/store.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <new>
#include <set>

#include "base/error.h"
#include "tensor/codec.h"
#include "tensor/strips.h"
#include "weights/neurons/hot_neurons.h"
#include "weights/neurons/neurons.h"
#include "weights/no_memory.h"
#include "weights/switched_blocks.h"

namespace troika::weights {
namespace {

std::string shape_text(const std::vector<uint64_t>& shape) {
  std::string text;
  for (const uint64_t length : shape) {
    if (!text.empty()) text += " x ";
    text += fmt::format("{}", length);
  }
  return text.empty() ? "a single value" : text;
}

const gguf::TensorInfo& find_checked(const gguf::File& file, const model::Weight& weight) {
  const gguf::TensorInfo* tensor = file.find_tensor(weight.name);
  if (tensor == nullptr) {
    throw Error(
        fmt::format("{}: the tensor '{}' is missing, so the model cannot run. Convert or "
                    "download the file again.",
                    file.path(), weight.name));
  }
  return *tensor;
}

[[noreturn]] void throw_wrong_shape(const gguf::File& file, const gguf::TensorInfo& tensor,
                                    const std::string& wanted) {
  throw Error(
      fmt::format("{}: the tensor '{}' is {}, but the model's metadata asks for {}. The "
                  "file is damaged or was converted wrongly; convert or download it again.",
                  file.path(), tensor.name, shape_text(tensor.shape), wanted));
}

// Reads a vector, which may be a part of a longer one (the bias of fused products).
std::vector<float> read_vector(const gguf::File& file, const gguf::TensorInfo& tensor,
                               const model::Weight& weight) {
  if (tensor.n_rows() != 1 ||
      tensor.row_length() != static_cast<uint64_t>(weight.tensor_length())) {
    throw_wrong_shape(file, tensor, fmt::format("{}", weight.tensor_length()));
  }
  const ptrdiff_t end = ptrdiff_t{weight.first_row} + weight.row_length;
  std::vector<float> whole(tensor.row_length());
  const std::span<const std::byte> bytes = file.data(tensor);  // checks the type
  tensor::dequantize_row(tensor.type, bytes.data(), whole.data(), whole.size());
  return {whole.begin() + weight.first_row, whole.begin() + end};
}

// Tells the system how the file's maps are read next.
void advise_maps(const gguf::File& file, int advice) {
  for (const gguf::File::Shard& shard : file.shards()) {
    if (shard.map == nullptr || shard.bytes.empty()) continue;
    (void)madvise(const_cast<std::byte*>(shard.bytes.data()), shard.bytes.size(), advice);
  }
}

}  // namespace

Store::Store(const gguf::File& file, const model::Blueprint& blueprint)
    : file_(&file), entries_(blueprint.weights.size()) {
  using model::OpKind;
  // Vectors are read here, one by one. The system would read megabytes around each of them, which
  // count for a cgroup's limit.
  advise_maps(file, MADV_RANDOM);
  for (const model::Op& op : blueprint.ops) {
    const bool is_matrix =
        op.kind == OpKind::kLinear || op.kind == OpKind::kEmbed || op.kind == OpKind::kExpertLinear;
    for (const model::WeightId id : {op.weight, op.bias}) {
      if (id == model::kNone) continue;
      const auto index = static_cast<size_t>(id);
      const bool is_vector = !is_matrix || id == op.bias;
      resolve(file, blueprint.weights[index], is_vector, &entries_[index]);
    }
  }
  for (const model::Predictor& predictor : blueprint.predictors) {
    for (const model::WeightId id : {predictor.down, predictor.up}) {
      const auto index = static_cast<size_t>(id);
      resolve(file, blueprint.weights[index], /*is_vector=*/false, &entries_[index]);
    }
  }
  advise_maps(file, MADV_NORMAL);
  count(blueprint);
}

Store::Store(const model::Blueprint& blueprint, std::vector<StoredWeight> constants)
    : entries_(std::move(constants)) {
  TROIKA_ASSERT(entries_.size() == blueprint.weights.size());
  count(blueprint);
}

Store::~Store() = default;

void Store::check_intact() const {
  if (file_ != nullptr) file_->check_intact();
}

void Store::resolve(const gguf::File& file, const model::Weight& weight, bool is_vector,
                    StoredWeight* entry) {
  const gguf::TensorInfo& tensor = find_checked(file, weight);
  if (is_vector) {
    entry->vector = read_vector(file, tensor, weight);
    return;
  }
  if (tensor.row_length() != static_cast<uint64_t>(weight.row_length) ||
      tensor.n_rows() != static_cast<uint64_t>(weight.n_tensor_rows)) {
    throw_wrong_shape(file, tensor,
                      fmt::format("{} x {}", weight.row_length, weight.n_tensor_rows));
  }
  const std::span<const std::byte> bytes = file.data(tensor);  // checks the type
  const size_t row_bytes = tensor::row_bytes(tensor.type, static_cast<size_t>(weight.row_length));
  entry->matrix = {tensor.type, bytes.data() + static_cast<size_t>(weight.first_row) * row_bytes,
                   row_bytes, weight.n_rows, weight.row_length};
}

void Store::count(const model::Blueprint& blueprint) {
  std::map<tensor::Type, size_t> bytes_by_type;
  for (const model::Op& op : blueprint.ops) {
    const bool is_experts = op.kind == model::OpKind::kExpertLinear;
    if (op.kind != model::OpKind::kLinear && !is_experts) continue;
    const Matrix& m = matrix(op.weight);
    auto n_used_rows = static_cast<size_t>(m.n_rows);
    bytes_by_type[m.type] += m.row_bytes * n_used_rows;
    if (is_experts) {
      n_used_rows = n_used_rows / static_cast<size_t>(blueprint.n_experts) *
                    static_cast<size_t>(blueprint.n_experts_used);
    }
    bytes_per_step_ += m.row_bytes * n_used_rows;
  }
  size_t most = 0;
  for (const auto& [type, bytes] : bytes_by_type) {
    if (bytes > most) {
      most = bytes;
      main_type_ = type;
    }
  }
  std::set<model::WeightId> unread;
  for (const model::Predictor& predictor : blueprint.predictors) {
    unread.insert({predictor.down, predictor.up});
  }
  std::set<const std::byte*> counted;  // tied embeddings are one tensor with two uses
  for (size_t i = 0; i < entries_.size(); ++i) {
    const StoredWeight& entry = entries_[i];
    if (unread.contains(static_cast<model::WeightId>(i))) continue;
    if (entry.matrix.data != nullptr && !counted.insert(entry.matrix.data).second) continue;
    total_bytes_ += entry.matrix.bytes() + entry.vector.size() * sizeof(float);
  }
}

const Matrix& Store::matrix(model::WeightId id) const {
  const StoredWeight& entry = entries_[static_cast<size_t>(id)];
  TROIKA_ASSERT(entry.matrix.data != nullptr);
  return entry.matrix;
}

namespace {

float largest_of(const Matrix& matrix, const float* factors, Team& team) {
  std::vector<float> largest(static_cast<size_t>(team.size()));
  team.run([&](int worker) {
    const Share share = share_of(matrix.n_rows, worker, team.size());
    largest[static_cast<size_t>(worker)] = largest_magnitude(
        matrix, static_cast<size_t>(share.begin), static_cast<size_t>(share.end), factors);
  });
  return *std::max_element(largest.begin(), largest.end());
}

// Calls `make(id, team)` for each matrix, and reports progress.
template <typename Make>
void make_forms(std::span<const model::WeightId> ids, int n_threads,
                const ProgressFunction& progress, Make make) {
  Team team(n_threads);
  size_t n_done = 0;
  for (const model::WeightId id : ids) {
    if (progress) progress(n_done++, ids.size());
    make(id, team);
  }
  if (progress) progress(ids.size(), ids.size());
}

}  // namespace

std::vector<model::WeightId> Store::packable(std::span<const model::WeightId> ids,
                                             uint64_t bytes) const {
  std::vector<model::WeightId> chosen;
  for (const model::WeightId id : ids) {
    if (!fits_int8(matrix(id))) continue;
    const uint64_t needed = int8_panel_bytes(matrix(id));
    if (needed > bytes) break;
    bytes -= needed;
    chosen.push_back(id);
  }
  return chosen;
}

void Store::pack_int8(std::span<const model::WeightId> ids, int n_threads,
                      const ProgressFunction& progress, const Int8Packing& packing) {
  int8_.resize(entries_.size());
  make_forms(ids, n_threads, progress, [&](model::WeightId id, Team& team) {
    const Matrix& source = matrix(id);
    std::unique_ptr<Int8Matrix>& packed = int8_[static_cast<size_t>(id)];
    if (packed != nullptr || !fits_int8(source)) return;
    try {
      packed = std::make_unique<Int8Matrix>(source);
    } catch (const std::bad_alloc&) {
      throw no_memory(int8_panel_bytes(source),
                      fmt::format("of packed weights beside {:.1f} MB of them. Use ‹prefill› bf16, "
                                  "which packs nothing.",
                                  1e-6 * static_cast<double>(packed_bytes_)));
    }
    const auto n_strips = static_cast<int64_t>(kernels::n_strips(packed->panels().n_rows));
    kernels::PackRule rule;
    if (!packing.factors.empty()) rule.factors = packing.factors[static_cast<size_t>(id)];
    rule.int4_outliers = packing.int4_outliers;
    if (packing.one_scale) rule.limit = largest_of(source, rule.factors, team);
    team.run([&](int worker) {
      const Share share = share_of(n_strips, worker, team.size());
      packed->pack(source, static_cast<size_t>(share.begin), static_cast<size_t>(share.end), rule);
    });
    packed_bytes_ += packed->bytes();
  });
}

void Store::measure_int8(std::span<const model::WeightId> ids, int n_threads,
                         const ProgressFunction& progress, const MatrixFunction& done) {
  row_largest_.resize(entries_.size());
  make_forms(ids, n_threads, progress, [&](model::WeightId id, Team& team) {
    const Matrix& source = matrix(id);
    std::vector<float>& largest = row_largest_[static_cast<size_t>(id)];
    if (int8_panels(id) != nullptr || is_switched(id) || !largest.empty()) return;
    if (!fits_int8(source)) return;
    largest.resize(static_cast<size_t>(source.n_rows));
    team.run([&](int worker) {
      const Share share = share_of(source.n_rows, worker, team.size());
      measure_rows(source, static_cast<size_t>(share.begin), static_cast<size_t>(share.end),
                   largest.data());
    });
    if (done) done(source);
  });
}

std::vector<Store::SamePlace> Store::places_alone(std::span<const model::WeightId> ids) const {
  const std::set<model::WeightId> wanted(ids.begin(), ids.end());
  std::map<const std::byte*, SamePlace> by_place;
  for (size_t i = 0; i < entries_.size(); ++i) {
    const std::byte* const data = entries_[i].matrix.data;
    if (data != nullptr) by_place[data].push_back(static_cast<model::WeightId>(i));
  }
  std::vector<SamePlace> places;
  const std::byte* end_before = nullptr;
  for (auto at = by_place.begin(); at != by_place.end(); ++at) {
    const auto& [data, weights] = *at;
    const Matrix& first = matrix(weights.front());
    const std::byte* const end = data + first.bytes();
    // Parts of a fused tensor follow each other. A matrix within another one stays as it is, and so
    // does the other one.
    const bool overlaps =
        data < end_before || (std::next(at) != by_place.end() && std::next(at)->first < end);
    end_before = std::max(end_before, end);
    const bool is_alone = std::all_of(weights.begin(), weights.end(), [&](model::WeightId id) {
      return wanted.contains(id) && matrix(id).n_rows == first.n_rows;
    });
    if (is_alone && !overlaps) places.push_back(weights);
  }
  return places;
}

std::vector<model::WeightId> Store::alone_in_place(std::span<const model::WeightId> ids) const {
  std::vector<model::WeightId> alone;
  for (const SamePlace& place : places_alone(ids)) {
    alone.insert(alone.end(), place.begin(), place.end());
  }
  return alone;
}

size_t Store::place_in_strips(std::span<const model::WeightId> ids, int n_threads) {
  Team team(n_threads);
  size_t n_bytes = 0;
  for (const SamePlace& same : places_alone(ids)) {
    const Matrix& matrix = this->matrix(same.front());
    const size_t strip_bytes = tensor::kStripRows * matrix.row_bytes;
    const auto n_strips = static_cast<size_t>(matrix.n_rows) / tensor::kStripRows;
    auto* const place = const_cast<std::byte*>(matrix.data);
    team.run([&](int worker) {
      std::vector<std::byte> rows(strip_bytes);
      const Share share = share_of(static_cast<int64_t>(n_strips), worker, team.size());
      for (auto strip = static_cast<size_t>(share.begin); strip < static_cast<size_t>(share.end);
           ++strip) {
        tensor::pack_strip_in_place(matrix.type, place + strip * strip_bytes,
                                    static_cast<size_t>(matrix.row_length), rows.data());
      }
    });
    n_bytes += n_strips * strip_bytes;
    for (const model::WeightId id : same) {
      entries_[static_cast<size_t>(id)].matrix.n_strip_rows =
          static_cast<int>(n_strips * tensor::kStripRows);
    }
  }
  return n_bytes;
}

void Store::move(const std::byte* begin, size_t bytes, const std::byte* to) {
  for (StoredWeight& entry : entries_) {
    const std::byte*& data = entry.matrix.data;
    if (data != nullptr && data >= begin && data < begin + bytes) data = to + (data - begin);
  }
}

size_t Store::measured_bytes() const {
  size_t bytes = 0;
  for (const std::vector<float>& largest : row_largest_) bytes += largest.size() * sizeof(float);
  return bytes;
}

void Store::set_neurons(std::unique_ptr<Neurons> neurons) { neurons_ = std::move(neurons); }

void Store::set_hot(std::unique_ptr<HotNeurons> hot) { hot_ = std::move(hot); }

void Store::set_switched(std::unique_ptr<SwitchedBlocks> blocks) {
  switched_ = std::move(blocks);
  for (size_t i = 0; i < entries_.size(); ++i) {
    const auto id = static_cast<model::WeightId>(i);
    if (is_switched(id)) entries_[i].matrix.n_strip_rows = switched_->n_strip_rows(id);
  }
}

bool Store::is_switched(model::WeightId id) const {
  return switched_ != nullptr && switched_->find(id) != nullptr;
}

Lease Store::acquire(model::WeightId id) const {
  TROIKA_ASSERT(is_switched(id));
  return switched_->acquire(id);
}

const float* Store::row_largest(model::WeightId id) const {
  if (is_switched(id)) return switched_->find(id)->row_largest;
  const auto index = static_cast<size_t>(id);
  return index < row_largest_.size() && !row_largest_[index].empty() ? row_largest_[index].data()
                                                                     : nullptr;
}

size_t grouped_bytes(const Matrix& matrix) {
  const auto k = static_cast<size_t>(matrix.row_length);
  const auto block = static_cast<size_t>(tensor::type_info(tensor::Type::kQ8_0).block_length);
  if (matrix.type == tensor::Type::kQ8_0 || k % block != 0) return 0;
  return tensor::row_bytes(tensor::Type::kQ8_0, k) * static_cast<size_t>(matrix.n_rows);
}

void Store::group_int8(std::span<const model::WeightId> ids, int n_threads,
                       const ProgressFunction& progress) {
  grouped_.resize(entries_.size());
  make_forms(ids, n_threads, progress, [&](model::WeightId id, Team& team) {
    const Matrix& source = matrix(id);
    GroupedMatrix& copy = grouped_[static_cast<size_t>(id)];
    const auto k = static_cast<size_t>(source.row_length);
    if (grouped_bytes(source) == 0 || !copy.storage.empty()) return;
    const size_t row_bytes = tensor::row_bytes(tensor::Type::kQ8_0, k);
    const auto n_rows = static_cast<size_t>(source.n_rows);
    try {
      copy.storage.resize(row_bytes * n_rows);
    } catch (const std::bad_alloc&) {
      throw no_memory(row_bytes * n_rows, "of weights in groups of 32. Use ‹int8› token.");
    }
    copy.matrix = {tensor::Type::kQ8_0, copy.storage.data(), row_bytes, source.n_rows,
                   source.row_length};
    team.run([&](int worker) {
      std::vector<float> row(k);
      const Share share = share_of(source.n_rows, worker, team.size());
      for (auto r = static_cast<size_t>(share.begin); r < static_cast<size_t>(share.end); ++r) {
        tensor::dequantize_row(source.type, source.data + r * source.row_bytes, row.data(), k);
        tensor::quantize_row(tensor::Type::kQ8_0, row.data(), copy.storage.data() + r * row_bytes,
                             k);
      }
    });
    packed_bytes_ += copy.storage.size();
  });
}

const Matrix& Store::grouped(model::WeightId id) const {
  const auto index = static_cast<size_t>(id);
  if (index < grouped_.size() && !grouped_[index].storage.empty()) return grouped_[index].matrix;
  return matrix(id);
}

const kernels::Int8Panels* Store::int8_panels(model::WeightId id) const {
  const auto index = static_cast<size_t>(id);
  return index < int8_.size() && int8_[index] != nullptr ? &int8_[index]->panels() : nullptr;
}

const float* Store::vector(model::WeightId id) const {
  const StoredWeight& entry = entries_[static_cast<size_t>(id)];
  TROIKA_ASSERT(!entry.vector.empty());
  return entry.vector.data();
}

}  // namespace troika::weights
