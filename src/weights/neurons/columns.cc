#include "weights/neurons/columns.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "kernels/column_bytes.h"
#include "tensor/blocks.h"
#include "tensor/codec.h"

namespace troika::weights {
namespace {

using kernels::ColumnForm;
using kernels::kColumnBlock;
using tensor::Type;

ColumnForm form_of(Type type) {
  switch (type) {
    case Type::kQ4_0:
      return ColumnForm::kOffsetNibbles;
    case Type::kQ8_0:
      return ColumnForm::kBytes;
    case Type::kQ4_1:
    case Type::kQ4_K:
      return ColumnForm::kNibbles;
    case Type::kF16:
      return ColumnForm::kHalves;
    default:
      return tensor::is_float(type) ? ColumnForm::kFloats : ColumnForm::kWideBytes;
  }
}

bool has_halves(ColumnForm form) {
  return form == ColumnForm::kOffsetNibbles || form == ColumnForm::kBytes;
}

// Says where the columns and planes of a matrix go.
struct Target {
  const Matrix& matrix;
  const ColumnLayout& layout;
  size_t first;  // the neuron whose column `levels` begins with
  std::byte* levels;
  std::byte* scales;  // null: only levels are wanted
  float* minima;

  std::byte* column(size_t neuron) const { return levels + (neuron - first) * layout.column_bytes; }
  const std::byte* row(size_t output) const { return matrix.data + output * matrix.row_bytes; }
  size_t n_rows() const { return static_cast<size_t>(matrix.n_rows); }
};

void write_scales(const Target& target, size_t group, size_t output, const tensor::Affine& of) {
  if (target.scales == nullptr) return;
  const size_t at = group * target.layout.n_outputs + output;
  if (has_halves(target.layout.form)) {
    const uint16_t half = tensor::f32_to_f16(of.scale);  // the scale was a half in the block
    std::memcpy(target.scales + at * sizeof(half), &half, sizeof(half));
    return;
  }
  std::memcpy(target.scales + at * sizeof(float), &of.scale, sizeof(float));
  target.minima[at] = of.min;
}

// Writes the levels of one neuron for a block of outputs.
void write_levels(ColumnForm form, const int8_t* levels, std::byte* column, size_t first_output) {
  if (form == ColumnForm::kBytes || form == ColumnForm::kWideBytes) {
    std::memcpy(column + first_output, levels, kColumnBlock);
    return;
  }
  const int offset = form == ColumnForm::kOffsetNibbles ? 8 : 0;
  std::byte* const bytes = column + first_output / 2;
  for (size_t j = 0; j < kColumnBlock / 2; ++j) {
    const int low = levels[j] + offset, high = levels[j + kColumnBlock / 2] + offset;
    bytes[j] = static_cast<std::byte>(low | high << 4);
  }
}

// Transposes 32 blocks, one of each of 32 outputs.
template <typename Block>
void write_block(const Target& target, size_t neuron, size_t first_output) {
  int8_t by_output[kColumnBlock][Block::kLength] = {};
  const size_t n = std::min(kColumnBlock, target.n_rows() - first_output);
  for (size_t o = 0; o < n; ++o) {
    Block block;
    std::memcpy(&block, target.row(first_output + o) + neuron / Block::kLength * sizeof(Block),
                sizeof(Block));
    tensor::Affine groups[Block::kLength / Block::kGroup];
    find_groups(block, groups);
    unpack(block, by_output[o]);
    for (size_t g = 0; g < Block::kLength / Block::kGroup; ++g) {
      write_scales(target, neuron / Block::kGroup + g, first_output + o, groups[g]);
    }
  }
  for (size_t i = 0; i < Block::kLength; ++i) {
    int8_t levels[kColumnBlock];
    for (size_t o = 0; o < kColumnBlock; ++o) levels[o] = by_output[o][i];
    write_levels(target.layout.form, levels, target.column(neuron + i), first_output);
  }
}

template <Type kType>
void write_blocks(const Target& target, size_t first, size_t last) {
  using Block = tensor::BlockOf<kType>;
  for (size_t neuron = first; neuron < last; neuron += Block::kLength) {
    for (size_t o = 0; o < target.n_rows(); o += kColumnBlock) {
      write_block<Block>(target, neuron, o);
    }
  }
}

void write_floats(const Target& target, size_t first, size_t last) {
  constexpr size_t kTogether = 256;
  const bool is_half = target.layout.form == ColumnForm::kHalves;
  const Type type = target.matrix.type;
  const size_t value_bytes = tensor::type_info(type).block_bytes;
  for (size_t o = 0; o < target.n_rows(); ++o) {
    for (size_t begin = first; begin < last; begin += kTogether) {
      const size_t n = std::min(kTogether, last - begin);
      const std::byte* const values = target.row(o) + begin * value_bytes;
      float decoded[kTogether];
      if (!is_half) tensor::dequantize_row(type, values, decoded, n);
      for (size_t i = 0; i < n; ++i) {
        std::byte* const column = target.column(begin + i);
        if (is_half) {
          std::memcpy(column + o * 2, values + i * 2, 2);
        } else {
          std::memcpy(column + o * 4, &decoded[i], 4);
        }
      }
    }
  }
}

using Write = void(const Target& target, size_t first, size_t last);
constexpr kernels::ByType<Write> kWrite = kernels::by_type<Write>([]<Type kType>() -> Write* {
  if constexpr (tensor::is_float(kType)) {
    return write_floats;
  } else {
    return write_blocks<kType>;
  }
});

template <Type kType>
constexpr size_t group_of() {
  if constexpr (tensor::is_float(kType)) {
    return 32;
  } else {
    return tensor::BlockOf<kType>::kGroup;
  }
}
using GroupOf = size_t();
constexpr kernels::ByType<GroupOf> kGroupOf =
    kernels::by_type<GroupOf>([]<Type kType>() -> GroupOf* { return group_of<kType>; });

}  // namespace

ColumnLayout column_layout(const Matrix& matrix) {
  TROIKA_ASSERT(matrix.n_strip_rows == 0);
  ColumnLayout layout;
  layout.form = form_of(matrix.type);
  layout.n_neurons = static_cast<size_t>(matrix.row_length);
  layout.n_outputs =
      (static_cast<size_t>(matrix.n_rows) + kColumnBlock - 1) / kColumnBlock * kColumnBlock;
  layout.group = kernels::find(kGroupOf, matrix.type)();
  layout.column_bytes = kernels::column_bytes(layout.form, layout.n_outputs);
  if (tensor::is_float(matrix.type)) return layout;
  const size_t n_scales = (layout.n_neurons + layout.group - 1) / layout.group * layout.n_outputs;
  layout.scale_bytes = n_scales * (has_halves(layout.form) ? sizeof(uint16_t) : sizeof(float));
  layout.minimum_bytes = has_halves(layout.form) ? 0 : n_scales * sizeof(float);
  return layout;
}

size_t column_granule(const Matrix& matrix) { return tensor::type_info(matrix.type).block_length; }

void write_columns(const Matrix& matrix, const ColumnLayout& layout, size_t first, size_t last,
                   std::byte* levels, std::byte* scales, float* minima) {
  kernels::find(kWrite, matrix.type)({matrix, layout, first, levels, scales, minima}, first, last);
}

DownColumns::DownColumns(const Matrix& matrix, Team& team)
    : layout_(column_layout(matrix)), memory_(layout_.plane_bytes() + layout_.level_bytes()) {
  std::byte* const scales = memory_.get();
  auto* const minima = reinterpret_cast<float*>(scales + layout_.scale_bytes);
  std::byte* const levels = scales + layout_.plane_bytes();
  // Each worker takes whole super-blocks of neurons.
  constexpr size_t kTogether = 256;
  const size_t n_items = (layout_.n_neurons + kTogether - 1) / kTogether;
  team.run([&](int worker) {
    const Share share = share_of(static_cast<int64_t>(n_items), worker, team.size());
    for (int64_t item = share.begin; item < share.end; ++item) {
      const size_t first = static_cast<size_t>(item) * kTogether;
      const size_t last = std::min(first + kTogether, layout_.n_neurons);
      write_columns(matrix, layout_, first, last, levels + first * layout_.column_bytes, scales,
                    minima);
    }
  });
}

kernels::ColumnPlanes DownColumns::planes() const {
  kernels::ColumnPlanes planes;
  planes.group = layout_.group;
  planes.n_outputs = layout_.n_outputs;
  if (layout_.scale_bytes > 0) planes.scales = memory_.get();
  if (layout_.minimum_bytes > 0) {
    planes.minima = reinterpret_cast<const float*>(memory_.get() + layout_.scale_bytes);
  }
  return planes;
}

}  // namespace troika::weights
