// A product by neuron: the weights of a feed-forward block's last product as columns, a column for
// each neuron (P1), so that a neuron that adds nothing need not be read.
//
// Blocks of weights lie along the rows of the file: a group of 16 or 32 neurons shares a scale for
// each output. Thus a column has levels of its own, and the scales of a group are a plane that its
// neurons share. Together they are the file's weights, exactly.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace troika::kernels {

// How the levels of a column, and the scales of a plane, are written.
enum class ColumnForm : uint8_t {
  kOffsetNibbles,  // level + 8 in 4 bits, scales as half floats: Q4_0
  kBytes,          // levels as int8, scales as half floats: Q8_0
  kNibbles,        // level in 4 bits, scales and minima as floats: Q4_1, Q4_K
  kWideBytes,      // levels as int8, scales and minima as floats: all other blocks
  kFloats,         // the weights themselves, no planes: F32
  kHalves,         // F16
};
inline constexpr size_t kColumnForms = 6;

const char* column_form_name(ColumnForm form);

// Outputs come in blocks of 32; the last block is filled up with padding. A block of nibbles has 16
// bytes: output j is the low half of byte j, output j + 16 the high half.
inline constexpr size_t kColumnBlock = 32;

// A neuron that adds something: where the levels of its column lie, and its activation.
struct LiveColumn {
  uint32_t neuron;
  float value;
  const std::byte* levels;  // at any address
};

struct ColumnPlanes {
  const std::byte* scales = nullptr;  // (groups, n_outputs); null where the form has none
  const float* minima = nullptr;      // (groups, n_outputs); null where the form has none
  size_t group = 32;                  // counts neurons of a group
  size_t n_outputs = 0;               // counts outputs, padding included
};

// Computes y[o] = sum over `live` of value * weight, for outputs first <= o < last, multiples of
// kColumnBlock. `live` is ascending by neuron. The levels of a group are summed with their values
// in ascending order, then multiplied with the scale and added to the groups before. A neuron whose
// value is 0 changes no bit, whether it is in the list or not. y is addressed by the absolute
// output.
using AddColumns = void(const ColumnPlanes& planes, std::span<const LiveColumn> live, size_t first,
                        size_t last, float* y);

}  // namespace troika::kernels
