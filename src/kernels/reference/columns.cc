#include "kernels/reference/columns.h"

#include <cstring>

#include "tensor/half.h"

namespace troika::kernels::reference {
namespace {

float half_at(const std::byte* halves, size_t i) {
  uint16_t half;
  std::memcpy(&half, halves + i * sizeof(half), sizeof(half));
  return tensor::f16_to_f32(half);
}

float float_at(const std::byte* floats, size_t i) {
  float value;
  std::memcpy(&value, floats + i * sizeof(value), sizeof(value));
  return value;
}

int nibble_at(const std::byte* levels, size_t output) {
  const size_t in_block = output % kColumnBlock;
  const auto byte = static_cast<int>(levels[output / kColumnBlock * 16 + in_block % 16]);
  return in_block < 16 ? byte & 15 : byte >> 4;
}

}  // namespace

float column_level(ColumnForm form, const std::byte* levels, size_t output) {
  switch (form) {
    case ColumnForm::kOffsetNibbles:
      return static_cast<float>(nibble_at(levels, output) - 8);
    case ColumnForm::kNibbles:
      return static_cast<float>(nibble_at(levels, output));
    case ColumnForm::kBytes:
    case ColumnForm::kWideBytes:
      return static_cast<float>(static_cast<int8_t>(levels[output]));
    case ColumnForm::kFloats:
      return float_at(levels, output);
    case ColumnForm::kHalves:
      return half_at(levels, output);
  }
  return 0.0f;
}

float column_scale(ColumnForm form, const ColumnPlanes& planes, size_t group, size_t output) {
  if (planes.scales == nullptr) return 1.0f;
  const bool has_halves = form == ColumnForm::kOffsetNibbles || form == ColumnForm::kBytes;
  const size_t at = group * planes.n_outputs + output;
  return has_halves ? half_at(planes.scales, at) : float_at(planes.scales, at);
}

float column_minimum(const ColumnPlanes& planes, size_t group, size_t output) {
  return planes.minima == nullptr ? 0.0f : planes.minima[group * planes.n_outputs + output];
}

void add_columns(ColumnForm form, const ColumnPlanes& planes, std::span<const LiveColumn> live,
                 size_t first, size_t last, float* y) {
  for (size_t o = first; o < last; ++o) {
    double sum = 0;
    for (const LiveColumn& column : live) {
      const size_t group = column.neuron / planes.group;
      const double weight = static_cast<double>(column_scale(form, planes, group, o)) *
                                column_level(form, column.levels, o) -
                            column_minimum(planes, group, o);
      sum += weight * column.value;
    }
    y[o] = static_cast<float>(sum);
  }
}

}  // namespace troika::kernels::reference
