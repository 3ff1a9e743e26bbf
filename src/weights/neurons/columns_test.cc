// The columns of a matrix give exactly its weights (P1).
#include "weights/neurons/columns.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <random>
#include <vector>

#include "kernels/reference/columns.h"
#include "tensor/codec.h"

namespace troika::weights {
namespace {

constexpr size_t kNeurons = 768;

class EveryType : public testing::TestWithParam<size_t> {
 protected:
  tensor::Type type() const { return tensor::type_table()[GetParam()].type; }
};

TEST_P(EveryType, P1ColumnsAreTheWeightsOfTheFile) {
  for (const size_t n_rows : {40, 96}) {
    std::mt19937 random(5);
    std::normal_distribution<float> normal;
    const size_t row_bytes = tensor::row_bytes(type(), kNeurons);
    std::vector<std::byte> bytes(n_rows * row_bytes);
    std::vector<float> decoded(n_rows * kNeurons);
    for (size_t r = 0; r < n_rows; ++r) {
      std::vector<float> row(kNeurons);
      for (float& value : row) value = normal(random);
      tensor::quantize_row(type(), row.data(), bytes.data() + r * row_bytes, kNeurons);
      tensor::dequantize_row(type(), bytes.data() + r * row_bytes, decoded.data() + r * kNeurons,
                             kNeurons);
    }
    const Matrix matrix = {type(), bytes.data(), row_bytes, static_cast<int>(n_rows),
                           static_cast<int>(kNeurons)};
    for (const int n_threads : {1, 3}) {
      Team team(n_threads);
      const DownColumns columns(matrix, team);
      const ColumnLayout& layout = columns.layout();
      ASSERT_EQ(layout.n_neurons, kNeurons);
      ASSERT_EQ(layout.n_outputs, n_rows == 40 ? 64u : 96u);
      const kernels::ColumnPlanes planes = columns.planes();
      for (size_t n = 0; n < kNeurons; ++n) {
        for (size_t o = 0; o < n_rows; ++o) {
          namespace reference = kernels::reference;
          const size_t group = n / layout.group;
          const float level = reference::column_level(layout.form, columns.column(n), o);
          const float weight = reference::column_scale(layout.form, planes, group, o) * level -
                               reference::column_minimum(planes, group, o);
          ASSERT_EQ(weight, decoded[o * kNeurons + n]) << "neuron " << n << " output " << o;
        }
      }
    }
  }
}

// A row may be long, and its file on a disk: whoever wants few neurons reads few of its values.
TEST(Columns, P1OnlyTheNeuronsAskedForAreReadFromFloats) {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  auto* const memory = static_cast<std::byte*>(
      mmap(nullptr, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(memory, MAP_FAILED);
  const size_t n = page / sizeof(float);
  for (size_t i = 0; i < n; ++i) {
    const auto value = static_cast<float>(i);
    std::memcpy(memory + i * sizeof(float), &value, sizeof(value));
  }
  ASSERT_EQ(mprotect(memory + page, page, PROT_NONE), 0);
  const Matrix matrix = {tensor::Type::kF32, memory, 2 * page, 1, static_cast<int>(2 * n)};
  const ColumnLayout layout = column_layout(matrix);
  std::vector<std::byte> columns((n - 3) * layout.column_bytes);
  write_columns(matrix, layout, 3, n, columns.data(), nullptr, nullptr);
  for (size_t i = 3; i < n; ++i) {
    float value = 0.0f;
    std::memcpy(&value, columns.data() + (i - 3) * layout.column_bytes, sizeof(value));
    ASSERT_EQ(value, static_cast<float>(i));
  }
  munmap(memory, 2 * page);
}

INSTANTIATE_TEST_SUITE_P(Columns, EveryType, testing::Range(size_t{0}, tensor::type_table().size()),
                         [](const auto& info) {
                           return std::string(tensor::type_table()[info.param].name);
                         });

}  // namespace
}  // namespace troika::weights
