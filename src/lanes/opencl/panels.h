// Weights as kernels of a device read them: panels, in strips of 16 rows side by side, one k after
// the other, with scales and minima of groups along k (kernels/product.cl).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "lanes/slice.h"
#include "lanes/vendor/levels.h"
#include "tensor/strips.h"
#include "weights/store.h"

namespace troika::lanes::opencl {

using tensor::kStripRows;
// kFloatGroup is the length of a group where weights have no scales. kExactGroup is that of a group
// whose levels are summed exactly: 1024 products of two bytes fit the 24 bits of a float. kQuad
// levels are the bytes of one number where a device multiplies so many at once.
inline constexpr size_t kFloatGroup = 32, kExactGroup = 1024, kQuad = 4;

struct PanelForm {
  // product.cl has the same forms.
  enum class Levels : uint8_t { kFloats, kHalves, kBfloats, kBytes, kNibbles, kQuads };
  Levels levels = Levels::kFloats;
  size_t group = kFloatGroup;
  bool has_scales = false;
  bool has_minima = false;
  bool is_exact = false;  // each row has one scale, and activations are whole numbers
  int base = 0;           // a nibble holds the level plus this
  int middle = 0;         // levels with minima lie around this

  // Returns how many numbers of a row, or of activations, kernels read for k levels.
  size_t n_inputs(size_t k) const { return levels == Levels::kQuads ? (k + kQuad - 1) / kQuad : k; }
  // Returns the options with which a kernel for this form is compiled.
  std::string options() const;
};

struct Panels {
  PanelForm form;
  size_t k = 0;
  size_t n_rows = 0;
  std::vector<std::byte> levels;      // (n_strips, k, 16); quads: (n_strips, n_inputs, 16, 4)
  std::vector<float> scales, minima;  // (n_strips, n_groups, 16); exact panels: (n_strips, 16)

  size_t n_strips() const { return (n_rows + kStripRows - 1) / kStripRows; }
  size_t n_groups() const { return (k + form.group - 1) / form.group; }
};

// Returns the form for a type. Nothing is rounded: a level with its scale and minimum is what the
// file says.
PanelForm form_of(tensor::Type type);
// Returns the bytes of panels of some rows; `is_exact`: of int8 levels with a scale for each row,
// as quads, which may take a little more than bytes.
size_t panel_bytes(tensor::Type type, bool is_exact, size_t n_rows, size_t k);
// Returns panels of a matrix's rows, whether the matrix stands in rows or in strips. A matrix of
// several experts has the rows of one behind those of another: then `rows` are meant of each, and
// every expert begins with a strip of its own.
Panels panels_of(const weights::Matrix& matrix, Range rows, size_t n_experts = 1);
// Returns how many rows the panels of several experts have for n_rows rows of each.
constexpr size_t rows_of_experts(size_t n_rows, size_t n_experts) {
  return n_experts * ((n_rows + kStripRows - 1) / kStripRows * kStripRows);
}
// Returns the bytes that kernels need to know where the parts of experts stand.
size_t parts_table_bytes(size_t n_tokens, size_t n_experts, size_t n_used);
// Returns panels of int8 levels with a scale for each row, as quads or as bytes.
Panels exact_panels(const LevelRows& rows, bool has_quads);

}  // namespace troika::lanes::opencl
