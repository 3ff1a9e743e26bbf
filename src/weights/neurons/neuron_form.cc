#include "weights/neurons/neuron_form.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/error.h"
#include "base/hash.h"

namespace troika::weights {
namespace {

using tensor::Type;

// Returns how many bytes stand before the levels of a block.
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
      return 0;  // the format has no scales, or levels in several pieces
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

void join_row(const std::byte* scales, const std::byte* levels, size_t n, size_t n_scales,
              size_t n_levels, std::byte* row) {
  if (n_scales == 2 && n_levels == 16) return join_blocks<2, 16>(scales, levels, n, row);
  if (n_scales == 2 && n_levels == 32) return join_blocks<2, 32>(scales, levels, n, row);
  if (n_scales == 4 && n_levels == 16) return join_blocks<4, 16>(scales, levels, n, row);
  if (n_scales == 16 && n_levels == 128) return join_blocks<16, 128>(scales, levels, n, row);
  TROIKA_ASSERT(n_scales == 0);
  std::memcpy(row, levels, n * n_levels);
}

}  // namespace

NeuronForm::Row::Row(const Matrix& matrix) {
  TROIKA_ASSERT(matrix.n_strip_rows == 0);
  block_bytes = static_cast<size_t>(tensor::type_info(matrix.type).block_bytes);
  n_blocks = matrix.row_bytes / block_bytes;
}

void NeuronForm::Row::divide(const std::byte* row, std::byte* scales, std::byte* levels) const {
  if (n_scale_bytes == 0) {
    std::memcpy(levels, row, bytes());
    return;
  }
  const size_t n_levels = block_bytes - n_scale_bytes;
  for (size_t i = 0; i < n_blocks; ++i) {
    const std::byte* const block = row + i * block_bytes;
    std::memcpy(scales + i * n_scale_bytes, block, n_scale_bytes);
    std::memcpy(levels + i * n_levels, block + n_scale_bytes, n_levels);
  }
}

void NeuronForm::Row::join(const std::byte* scales, const std::byte* levels, std::byte* row) const {
  join_row(scales, levels, n_blocks, n_scale_bytes, block_bytes - n_scale_bytes, row);
}

void NeuronForm::Row::join_in_place(const std::byte* scales, std::byte* row) const {
  if (n_scale_bytes == 0) return;
  const size_t n_levels = block_bytes - n_scale_bytes;
  // Blocks move to the back, so the last one goes first.
  for (size_t i = n_blocks; i-- > 0;) {
    std::memmove(row + i * block_bytes + n_scale_bytes, row + i * n_levels, n_levels);
    std::memcpy(row + i * block_bytes, scales + i * n_scale_bytes, n_scale_bytes);
  }
}

NeuronForm::NeuronForm(const Matrix& up, const Matrix& down, const Matrix* gate)
    : columns_(column_layout(down)), up_(up) {
  TROIKA_ASSERT(up.n_rows == down.row_length);
  if (gate != nullptr) {
    TROIKA_ASSERT(gate->n_rows == down.row_length);
    gate_ = Row(*gate);
  }
  const uint64_t whole = page_above(bundle_bytes());
  up_.n_scale_bytes = scales_before_levels(up.type);
  if (gate != nullptr) gate_.n_scale_bytes = scales_before_levels(gate->type);
  if (page_above(bundle_bytes()) == whole) up_.n_scale_bytes = gate_.n_scale_bytes = 0;
}

uint64_t NeuronForm::key() const {
  constexpr uint64_t kVersion = 2;
  Fnv hash;
  for (const uint64_t part :
       {kVersion, uint64_t{gate_.block_bytes}, uint64_t{gate_.n_blocks},
        uint64_t{gate_.n_scale_bytes}, uint64_t{up_.block_bytes}, uint64_t{up_.n_blocks},
        uint64_t{up_.n_scale_bytes}, static_cast<uint64_t>(columns_.form),
        uint64_t{columns_.n_neurons}, uint64_t{columns_.n_outputs}, uint64_t{columns_.group}}) {
    hash.add(part);
  }
  return hash.value();
}

void NeuronForm::write(const Matrix& up, const Matrix& down, const Matrix* gate, size_t stride,
                       Team& team, std::byte* bundles, std::byte* resident) const {
  std::byte* const scales = resident;
  auto* const minima = reinterpret_cast<float*>(resident + columns_.scale_bytes);
  // Each worker takes whole super-blocks of neurons.
  constexpr size_t kTogether = 256;
  const size_t n_items = (n_neurons() + kTogether - 1) / kTogether;
  team.run([&](int worker) {
    std::vector<std::byte> levels(kTogether * columns_.column_bytes);
    const Share share = share_of(static_cast<int64_t>(n_items), worker, team.size());
    for (int64_t item = share.begin; item < share.end; ++item) {
      const size_t first = static_cast<size_t>(item) * kTogether;
      const size_t last = std::min(first + kTogether, n_neurons());
      write_columns(down, columns_, first, last, levels.data(), scales, minima);
      for (size_t neuron = first; neuron < last; ++neuron) {
        std::byte* bundle = bundles + neuron * stride;
        std::byte* own = resident + scales_offset(neuron);
        if (gate != nullptr) {
          gate_.divide(gate->data + neuron * gate->row_bytes, own, bundle);
          own += gate_.scales();
          bundle += gate_.levels();
        }
        up_.divide(up.data + neuron * up.row_bytes, own, bundle);
        std::memcpy(bundle + up_.levels(), levels.data() + (neuron - first) * columns_.column_bytes,
                    columns_.column_bytes);
      }
    }
  });
}

void NeuronForm::assemble(const std::byte* resident, size_t neuron, const std::byte* bundle,
                          std::byte* place) const {
  const std::byte* scales = resident + scales_offset(neuron);
  if (has_gate()) {
    gate_.join(scales, bundle, place);
    scales += gate_.scales();
    bundle += gate_.levels();
    place += gate_.bytes();
  }
  up_.join(scales, bundle, place);
  std::memcpy(place + up_.bytes(), bundle + up_.levels(), columns_.column_bytes);
}

void NeuronForm::assemble_first(const std::byte* resident, size_t neuron, const std::byte* bundle,
                                size_t n, std::byte* place) const {
  gate_.join(resident + scales_offset(neuron), bundle, place);
  // What follows the gate waits behind it as it is on the disk.
  std::memcpy(place + gate_.bytes(), bundle + gate_.levels(), n - gate_.levels());
}

void NeuronForm::assemble_rest(const std::byte* resident, size_t neuron, const std::byte* rest,
                               size_t n, std::byte* place) const {
  std::byte* const up = place + gate_.bytes();
  std::memcpy(up + (n - gate_.levels()), rest, bundle_bytes() - n);
  std::memmove(up + up_.bytes(), up + up_.levels(), columns_.column_bytes);
  up_.join_in_place(resident + scales_offset(neuron) + gate_.scales(), up);
}

void NeuronForm::assemble_whole(const std::byte* gate, const std::byte* up, const std::byte* column,
                                std::byte* place) const {
  if (has_gate()) std::memcpy(place, gate, gate_.bytes());
  place += gate_.bytes();
  std::memcpy(place, up, up_.bytes());
  std::memcpy(place + up_.bytes(), column, columns_.column_bytes);
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
