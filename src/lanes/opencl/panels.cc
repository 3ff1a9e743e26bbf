#include "lanes/opencl/panels.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "tensor/levels.h"
#include "tensor/strips.h"

namespace troika::lanes::opencl {
namespace {

using Levels = PanelForm::Levels;
using tensor::Type;

constexpr size_t kNibbleGroup = 32;

size_t level_bytes(Levels levels) {
  switch (levels) {
    case Levels::kFloats:
      return 4;
    case Levels::kHalves:
    case Levels::kBfloats:
      return 2;
    case Levels::kBytes:
    case Levels::kNibbles:  // two levels in one byte
    case Levels::kQuads:
      return 1;
  }
  return 0;
}

// Writes the rows of a matrix into panels, one by one, as they stand in the file.
class Rows {
 public:
  explicit Rows(const weights::Matrix& matrix) : matrix_(matrix), own_(matrix.row_bytes) {}

  const std::byte* at(size_t row) {
    const std::byte* const begin = matrix_.data + row * matrix_.row_bytes;
    if (row >= static_cast<size_t>(matrix_.n_strip_rows)) return begin;
    const size_t in_strip = row % tensor::kStripRows;
    tensor::copy_strip_row(matrix_.type, begin - in_strip * matrix_.row_bytes, in_strip,
                           static_cast<size_t>(matrix_.row_length), own_.data());
    return own_.data();
  }

 private:
  const weights::Matrix& matrix_;
  std::vector<std::byte> own_;
};

// Puts the elements of one row into the panels.
void place_row(const std::byte* row, size_t bytes, size_t index, Panels* panels) {
  std::byte* to = panels->levels.data() +
                  (index / kStripRows * panels->k * kStripRows + index % kStripRows) * bytes;
  for (size_t i = 0; i < panels->k; ++i, to += kStripRows * bytes) {
    std::memcpy(to, row + i * bytes, bytes);
  }
}

void place_nibbles(const int8_t* levels, size_t index, Panels* panels) {
  std::byte* to =
      panels->levels.data() + index / kStripRows * panels->k / 2 * kStripRows + index % kStripRows;
  const auto nibble = [&](size_t i) {
    const int level = levels[i] + panels->form.base;
    TROIKA_ASSERT(level >= 0 && level < 16);
    return level;
  };
  for (size_t i = 0; i < panels->k; i += kNibbleGroup) {
    for (size_t j = i; j < i + kNibbleGroup / 2; ++j, to += kStripRows) {
      *to = static_cast<std::byte>(nibble(j) | nibble(j + kNibbleGroup / 2) << 4);
    }
  }
}

void place_quads(const int8_t* levels, size_t index, Panels* panels) {
  const size_t n_quads = panels->form.n_inputs(panels->k);
  std::byte* to = panels->levels.data() +
                  (index / kStripRows * n_quads * kStripRows + index % kStripRows) * kQuad;
  for (size_t i = 0; i < panels->k; i += kQuad, to += kStripRows * kQuad) {
    std::memcpy(to, levels + i, std::min(kQuad, panels->k - i));
  }
}

void place_groups(const std::vector<tensor::Affine>& groups, size_t index, Panels* panels) {
  size_t at = index / kStripRows * groups.size() * kStripRows + index % kStripRows;
  for (const tensor::Affine& group : groups) {
    panels->scales[at] = group.scale;
    if (panels->form.has_minima) panels->minima[at] = group.min;
    at += kStripRows;
  }
}

PanelForm exact_form(bool has_quads) {
  PanelForm form;
  form.levels = has_quads ? Levels::kQuads : Levels::kBytes;
  form.group = kExactGroup;
  form.is_exact = true;
  return form;
}

struct PanelSizes {
  size_t level_bytes;
  size_t n_scales, n_minima;
};

PanelSizes sizes_of(const PanelForm& form, size_t n_strips, size_t k) {
  const size_t n_groups = form.is_exact ? 1 : (k + form.group - 1) / form.group;
  const size_t n_scales = form.has_scales || form.is_exact ? n_strips * n_groups * kStripRows : 0;
  const size_t per_input = form.levels == Levels::kQuads ? kQuad : 1;
  const size_t n_levels = n_strips * form.n_inputs(k) * per_input * kStripRows;
  return {n_levels * level_bytes(form.levels) / (form.levels == Levels::kNibbles ? 2 : 1), n_scales,
          form.has_minima ? n_scales : 0};
}

void reserve(Panels* panels) {
  const PanelSizes sizes = sizes_of(panels->form, panels->n_strips(), panels->k);
  panels->levels.resize(sizes.level_bytes);
  panels->scales.resize(sizes.n_scales);
  panels->minima.resize(sizes.n_minima);
}

}  // namespace

std::string PanelForm::options() const {
  return fmt::format(
      "-DFORM={} -DGROUP={} -DHAS_SCALES={} -DHAS_MINIMA={} -DIS_EXACT={} -DBASE={} "
      "-DMIDDLE={}",
      static_cast<int>(levels), group, has_scales ? 1 : 0, has_minima ? 1 : 0, is_exact ? 1 : 0,
      base, middle);
}

PanelForm form_of(Type type) {
  PanelForm form;
  switch (type) {
    case Type::kF32:
      return form;
    case Type::kF16:
      form.levels = Levels::kHalves;
      return form;
    case Type::kBF16:
      form.levels = Levels::kBfloats;
      return form;
    case Type::kQ4_0:
      form.levels = Levels::kNibbles;
      form.base = 8;
      break;
    case Type::kQ4_1:
    case Type::kQ4_K:
      form.levels = Levels::kNibbles;
      form.has_minima = true;
      form.middle = 8;
      break;
    case Type::kQ5_1:
    case Type::kQ2_K:
    case Type::kQ5_K:
      form.levels = Levels::kBytes;
      form.has_minima = true;
      form.middle = type == Type::kQ2_K ? 2 : 16;
      break;
    default:
      form.levels = Levels::kBytes;
  }
  form.group = tensor::group_length(type);
  form.has_scales = true;
  return form;
}

size_t panel_bytes(Type type, bool is_exact, size_t n_rows, size_t k) {
  const PanelForm form = is_exact ? exact_form(true) : form_of(type);
  const PanelSizes sizes = sizes_of(form, (n_rows + kStripRows - 1) / kStripRows, k);
  return sizes.level_bytes + (sizes.n_scales + sizes.n_minima) * sizeof(float);
}

Panels panels_of(const weights::Matrix& matrix, Range rows, size_t n_experts) {
  const size_t n_of_each = static_cast<size_t>(matrix.n_rows) / n_experts;
  const Range range = rows.within(static_cast<int>(n_of_each));
  const auto n_taken = static_cast<size_t>(range.size());
  Panels panels;
  panels.form = form_of(matrix.type);
  panels.k = static_cast<size_t>(matrix.row_length);
  panels.n_rows = n_experts == 1 ? n_taken : rows_of_experts(n_taken, n_experts);
  reserve(&panels);
  Rows from(matrix);
  std::vector<int8_t> levels(panels.k);
  std::vector<tensor::Affine> groups(panels.n_groups());
  const auto place = [&](const std::byte* row, size_t index) {
    if (!panels.form.has_scales) {
      place_row(row, level_bytes(panels.form.levels), index, &panels);
      return;
    }
    tensor::unpack_levels(matrix.type, row, panels.k, levels.data(), groups.data());
    if (panels.form.levels == Levels::kNibbles) {
      place_nibbles(levels.data(), index, &panels);
    } else {
      place_row(reinterpret_cast<const std::byte*>(levels.data()), 1, index, &panels);
    }
    place_groups(groups, index, &panels);
  };
  for (size_t expert = 0; expert < n_experts; ++expert) {
    const size_t first = expert * n_of_each + static_cast<size_t>(range.begin);
    const size_t to = rows_of_experts(n_taken, expert);
    for (size_t i = 0; i < n_taken; ++i) place(from.at(first + i), to + i);
  }
  return panels;
}

Panels exact_panels(const LevelRows& rows, bool has_quads) {
  Panels panels;
  panels.form = exact_form(has_quads);
  panels.k = static_cast<size_t>(rows.k);
  panels.n_rows = rows.n_rows();
  reserve(&panels);
  for (size_t i = 0; i < panels.n_rows; ++i) {
    const int8_t* const levels = rows.levels.data() + i * panels.k;
    if (has_quads) {
      place_quads(levels, i, &panels);
    } else {
      place_row(reinterpret_cast<const std::byte*>(levels), 1, i, &panels);
    }
    panels.scales[i] = rows.scales[i];
  }
  return panels;
}

}  // namespace troika::lanes::opencl
