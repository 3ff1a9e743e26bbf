#include "weights/neurons/neuron_form.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/error.h"
#include "base/hash.h"

namespace troika::weights {
namespace {

using tensor::Type;

// What stands before the levels of a block.
size_t scales_before_levels(Type type) {
  switch (type) {
    case Type::kQ4_0:
    case Type::kQ8_0:
      return 2;
    case Type::kQ4_1:
      return 4;
    case Type::kQ4_K:
      return 16;
    default:
      return 0;  // there are none, or levels are in several pieces
  }
}

template <size_t kScales, size_t kLevels>
void join_blocks(const std::byte* scales, const std::byte* levels, size_t n, std::byte* row) {
  for (size_t i = 0; i < n; ++i) {
    std::memcpy(row, scales + i * kScales, kScales);
    std::memcpy(row + kScales, levels + i * kLevels, kLevels);
    row += kScales + kLevels;
  }
}

void join(const std::byte* scales, const std::byte* levels, size_t n, size_t n_scales,
          size_t n_levels, std::byte* row) {
  if (n_scales == 2 && n_levels == 16) return join_blocks<2, 16>(scales, levels, n, row);
  if (n_scales == 2 && n_levels == 32) return join_blocks<2, 32>(scales, levels, n, row);
  if (n_scales == 4 && n_levels == 16) return join_blocks<4, 16>(scales, levels, n, row);
  if (n_scales == 16 && n_levels == 128) return join_blocks<16, 128>(scales, levels, n, row);
  TROIKA_ASSERT(n_scales == 0);
  std::memcpy(row, levels, n * n_levels);
}

}  // namespace

NeuronForm::NeuronForm(const Matrix& up, const Matrix& down) : columns_(column_layout(down)) {
  TROIKA_ASSERT(up.n_strip_rows == 0 && up.n_rows == down.row_length);
  const tensor::TypeInfo& type = tensor::type_info(up.type);
  block_bytes_ = static_cast<size_t>(type.block_bytes);
  n_blocks_ = up.row_bytes / block_bytes_;
  const uint64_t whole = in_pages(up.row_bytes + columns_.column_bytes);
  const size_t scales = scales_before_levels(up.type);
  const uint64_t without = in_pages(up.row_bytes - n_blocks_ * scales + columns_.column_bytes);
  if (without < whole) n_scale_bytes_ = scales;
}

uint64_t NeuronForm::key() const {
  constexpr uint64_t kVersion = 1;
  Fnv hash;
  for (const uint64_t part :
       {kVersion, uint64_t{block_bytes_}, uint64_t{n_blocks_}, uint64_t{n_scale_bytes_},
        static_cast<uint64_t>(columns_.form), uint64_t{columns_.n_neurons},
        uint64_t{columns_.n_outputs}, uint64_t{columns_.group}}) {
    hash.add(part);
  }
  return hash.value();
}

void NeuronForm::write(const Matrix& up, const Matrix& down, size_t stride, Team& team,
                       std::byte* bundles, std::byte* resident) const {
  std::byte* const scales = resident;
  auto* const minima = reinterpret_cast<float*>(resident + columns_.scale_bytes);
  // Whole super-blocks of neurons for each worker.
  constexpr size_t kTogether = 256;
  const size_t n_items = (n_neurons() + kTogether - 1) / kTogether;
  const size_t n_levels = block_bytes_ - n_scale_bytes_;
  team.run([&](int worker) {
    std::vector<std::byte> levels(kTogether * columns_.column_bytes);
    const Share share = share_of(static_cast<int64_t>(n_items), worker, team.size());
    for (int64_t item = share.begin; item < share.end; ++item) {
      const size_t first = static_cast<size_t>(item) * kTogether;
      const size_t last = std::min(first + kTogether, n_neurons());
      write_columns(down, columns_, first, last, levels.data(), scales, minima);
      for (size_t neuron = first; neuron < last; ++neuron) {
        const std::byte* const row = up.data + neuron * up.row_bytes;
        std::byte* const bundle = bundles + neuron * stride;
        auto* const own = const_cast<std::byte*>(scales_of(resident, neuron));
        for (size_t i = 0; i < n_blocks_; ++i) {
          const std::byte* const block = row + i * block_bytes_;
          std::memcpy(own + i * n_scale_bytes_, block, n_scale_bytes_);
          std::memcpy(bundle + i * n_levels, block + n_scale_bytes_, n_levels);
        }
        std::memcpy(bundle + row_levels(), levels.data() + (neuron - first) * columns_.column_bytes,
                    columns_.column_bytes);
      }
    }
  });
}

void NeuronForm::assemble(const std::byte* resident, size_t neuron, const std::byte* bundle,
                          std::byte* place) const {
  join(scales_of(resident, neuron), bundle, n_blocks_, n_scale_bytes_,
       block_bytes_ - n_scale_bytes_, place);
  std::memcpy(place + n_blocks_ * block_bytes_, bundle + row_levels(), columns_.column_bytes);
}

kernels::ColumnPlanes NeuronForm::planes(const std::byte* resident) const {
  kernels::ColumnPlanes planes;
  planes.group = columns_.group;
  planes.n_outputs = columns_.n_outputs;
  if (columns_.scale_bytes > 0) planes.scales = resident;
  if (columns_.minimum_bytes > 0) {
    planes.minima = reinterpret_cast<const float*>(resident + columns_.scale_bytes);
  }
  return planes;
}

}  // namespace troika::weights
