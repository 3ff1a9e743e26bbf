#include "lanes/opencl/panels.h"

#include <gtest/gtest.h>

#include <cstring>

#include "lanes/host/test_support.h"
#include "tensor/codec.h"
#include "tensor/half.h"
#include "tensor/strips.h"

namespace troika::lanes::opencl {
namespace {

using Levels = PanelForm::Levels;

// Returns a weight as kernels decode it.
float weight_of(const Panels& panels, size_t row, size_t k) {
  const size_t strip = row / kStripRows, in_strip = row % kStripRows;
  const size_t at = (strip * panels.k + k) * kStripRows + in_strip;
  const auto load = [&](auto value) {
    std::memcpy(&value, panels.levels.data() + at * sizeof(value), sizeof(value));
    return value;
  };
  float level = 0.0f;
  switch (panels.form.levels) {
    case Levels::kFloats:
      return load(0.0f);
    case Levels::kHalves:
      return tensor::f16_to_f32(load(uint16_t{0}));
    case Levels::kBfloats:
      return tensor::bf16_to_f32(load(uint16_t{0}));
    case Levels::kBytes:
      level = static_cast<float>(load(int8_t{0}));
      break;
    case Levels::kNibbles: {
      const size_t byte = (strip * panels.k / 2 + k / 32 * 16 + k % 16) * kStripRows + in_strip;
      const auto pair = std::to_integer<int>(panels.levels[byte]);
      level = static_cast<float>((k % 32 < 16 ? pair & 15 : pair >> 4) - panels.form.base);
      break;
    }
    case Levels::kQuads:
      ADD_FAILURE() << "quads have no scales of groups";
  }
  const size_t group = (strip * panels.n_groups() + k / panels.form.group) * kStripRows + in_strip;
  return level * panels.scales[group] - (panels.form.has_minima ? panels.minima[group] : 0.0f);
}

size_t bytes_of(const Panels& panels) {
  return panels.levels.size() + (panels.scales.size() + panels.minima.size()) * sizeof(float);
}

TEST(OpenclPanels, HoldTheWeightsOfEveryTypeExactly) {
  constexpr size_t kK = 512, kRows = 35;
  for (const tensor::TypeInfo& info : tensor::type_table()) {
    const size_t row_bytes = tensor::row_bytes(info.type, kK);
    const auto floats = random_floats(kRows * kK, 3);
    std::vector<std::byte> rows(kRows * row_bytes);
    for (size_t row = 0; row < kRows; ++row) {
      tensor::quantize_row(info.type, floats.data() + row * kK, rows.data() + row * row_bytes, kK);
    }
    std::vector<std::byte> strips = rows;
    if (!tensor::is_float(info.type)) {
      for (size_t row = 0; row + 16 <= kRows; row += 16) {
        tensor::pack_strip(info.type, rows.data() + row * row_bytes, kK,
                           strips.data() + row * row_bytes);
      }
    }
    const int n_strip_rows = tensor::is_float(info.type) ? 0 : 32;
    for (const bool has_strips : {false, true}) {
      const weights::Matrix matrix = {info.type, has_strips ? strips.data() : rows.data(),
                                      row_bytes, kRows,
                                      kK,        has_strips ? n_strip_rows : 0};
      for (const Range range : {Range{}, Range{16, 35}}) {
        const Panels panels = panels_of(matrix, range);
        ASSERT_EQ(panels.n_rows, kRows - static_cast<size_t>(range.begin));
        EXPECT_EQ(panel_bytes(info.type, false, panels.n_rows, kK), bytes_of(panels)) << info.name;
        std::vector<float> expected(kK);
        for (size_t row = 0; row < panels.n_rows; ++row) {
          const size_t of_matrix = row + static_cast<size_t>(range.begin);
          tensor::dequantize_row(info.type, rows.data() + of_matrix * row_bytes, expected.data(),
                                 kK);
          for (size_t k = 0; k < kK; ++k) {
            ASSERT_EQ(weight_of(panels, row, k), expected[k])
                << info.name << " row " << row << " k " << k;
          }
        }
      }
    }
  }
}

TEST(OpenclPanels, FourBitsTakeHalfAByteEach) {
  const std::vector<std::byte> rows(32 * tensor::row_bytes(tensor::Type::kQ4_0, 64));
  const weights::Matrix matrix = {tensor::Type::kQ4_0, rows.data(),
                                  tensor::row_bytes(tensor::Type::kQ4_0, 64), 32, 64};
  const Panels panels = panels_of(matrix, {});
  EXPECT_EQ(panels.levels.size(), 32u * 64 / 2);
  EXPECT_EQ(panels.scales.size(), 32u * 2);
  EXPECT_TRUE(panels.minima.empty());
}

TEST(OpenclPanels, OfLevelsKeepOneScaleForEachRow) {
  LevelRows rows;
  rows.k = 70;
  for (int row = 0; row < 18; ++row) {
    for (int k = 0; k < rows.k; ++k) rows.levels.push_back(static_cast<int8_t>(row * 7 - k));
    rows.scales.push_back(0.5f + static_cast<float>(row));
  }
  for (const bool has_quads : {false, true}) {
    const Panels panels = exact_panels(rows, has_quads);
    ASSERT_TRUE(panels.form.is_exact);
    ASSERT_EQ(panels.scales.size(), 32u);
    EXPECT_LE(bytes_of(panels), panel_bytes(tensor::Type::kQ4_K, true, 18, 70));
    for (size_t row = 0; row < 18; ++row) EXPECT_EQ(panels.scales[row], rows.scales[row]);
    for (size_t i = 0; i < panels.levels.size(); ++i) {
      size_t row = i / (70 * 16) * 16 + i % 16, k = i / 16 % 70;
      if (has_quads) {
        row = i / (72 * 16) * 16 + i / 4 % 16;
        k = i / 64 % 18 * 4 + i % 4;
      }
      const int expected = row < 18 && k < 70 ? rows.levels[row * 70 + k] : 0;
      EXPECT_EQ(static_cast<int8_t>(panels.levels[i]), expected) << row << " " << k;
    }
  }
}

}  // namespace
}  // namespace troika::lanes::opencl
