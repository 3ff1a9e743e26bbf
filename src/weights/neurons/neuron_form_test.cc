#include "weights/neurons/neuron_form.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "base/random.h"
#include "tensor/codec.h"
#include "weights/neurons/columns.h"

namespace troika::weights {
namespace {

using tensor::Type;

// A matrix of random weights.
struct RandomMatrix {
  RandomMatrix(Type type, int n_rows, int row_length, uint64_t seed) {
    const size_t row_bytes = tensor::row_bytes(type, static_cast<size_t>(row_length));
    bytes.resize(row_bytes * static_cast<size_t>(n_rows));
    std::vector<float> row(static_cast<size_t>(row_length));
    for (int r = 0; r < n_rows; ++r) {
      for (size_t i = 0; i < row.size(); ++i) {
        row[i] = static_cast<float>(random_unit(seed, static_cast<uint64_t>(r) << 32 | i) - 0.5);
      }
      tensor::quantize_row(type, row.data(), bytes.data() + static_cast<size_t>(r) * row_bytes,
                           row.size());
    }
    matrix = {type, bytes.data(), row_bytes, n_rows, row_length};
  }
  std::vector<std::byte> bytes;
  Matrix matrix;
};

struct FormCase {
  Type up;
  Type down;
  int width;
  size_t bundle_bytes;
  size_t scale_bytes;
};

class NeuronForms : public testing::TestWithParam<FormCase> {};

TEST_P(NeuronForms, P7ABundleAndWhatIsResidentAreTheWeightsOfTheFile) {
  constexpr int kNeurons = 512;
  const FormCase& c = GetParam();
  const RandomMatrix up(c.up, kNeurons, c.width, 1), down(c.down, c.width, kNeurons, 2);
  const NeuronForm form(up.matrix, down.matrix);
  EXPECT_EQ(form.bundle_bytes(), c.bundle_bytes);
  EXPECT_EQ(form.scale_bytes(), c.scale_bytes);
  // Gaps lie between bundles, as where another layer has larger ones.
  const size_t stride = form.bundle_bytes() + 24;
  std::vector<std::byte> bundles(kNeurons * stride);
  std::vector<float> resident(form.resident_bytes() / sizeof(float) + 1);
  auto* const shared = reinterpret_cast<std::byte*>(resident.data());
  Team team(2);
  form.write(up.matrix, down.matrix, nullptr, stride, team, bundles.data(), shared);
  const DownColumns whole(down.matrix, team);
  const kernels::ColumnPlanes planes = form.planes(shared), expected = whole.planes();
  EXPECT_EQ(planes.group, expected.group);
  EXPECT_EQ(planes.n_outputs, expected.n_outputs);
  ASSERT_EQ(planes.scales == nullptr, expected.scales == nullptr);
  ASSERT_EQ(planes.minima == nullptr, expected.minima == nullptr);
  const ColumnLayout& layout = whole.layout();
  if (planes.scales != nullptr) {
    EXPECT_EQ(std::memcmp(planes.scales, expected.scales, layout.scale_bytes), 0);
  }
  if (planes.minima != nullptr) {
    EXPECT_EQ(std::memcmp(planes.minima, expected.minima, layout.minimum_bytes), 0);
  }
  std::vector<std::byte> place(form.place_bytes());
  for (size_t neuron = 0; neuron < kNeurons; ++neuron) {
    form.assemble(shared, neuron, bundles.data() + neuron * stride, place.data());
    const NeuronPlaces places = form.places(place.data());
    ASSERT_EQ(
        std::memcmp(places.up, up.matrix.data + neuron * up.matrix.row_bytes, up.matrix.row_bytes),
        0);
    ASSERT_EQ(std::memcmp(places.down, whole.column(neuron), layout.column_bytes), 0);
  }
}

// Scales of rows stay in memory where that saves a page.
INSTANTIATE_TEST_SUITE_P(Types, NeuronForms,
                         testing::Values(FormCase{Type::kQ4_0, Type::kQ4_0, 4096, 4096, 2},
                                         FormCase{Type::kQ8_0, Type::kQ8_0, 4096, 8192, 2},
                                         FormCase{Type::kQ4_K, Type::kQ4_K, 4096, 4096, 16},
                                         FormCase{Type::kQ4_1, Type::kQ4_0, 4096, 4096, 4},
                                         FormCase{Type::kQ4_K, Type::kQ6_K, 4096, 2304 + 4096, 0},
                                         FormCase{Type::kF16, Type::kF16, 4096, 16384, 0},
                                         FormCase{Type::kQ4_0, Type::kQ4_0, 256, 144 + 128, 0},
                                         FormCase{Type::kF32, Type::kF32, 96, 768, 0}));

TEST(NeuronForm, P7AGateIsAPartOfTheBundle) {
  constexpr int kNeurons = 64;
  struct GateCase {
    Type type;
    int width;
    size_t bundle_bytes;
  };
  // The first case takes two pages with its scales, the second one page without them.
  for (const GateCase& c : {GateCase{Type::kQ4_0, 4096, 6656}, GateCase{Type::kQ4_0, 2688, 4032},
                            GateCase{Type::kF16, 256, 1536}}) {
    const RandomMatrix gate(c.type, kNeurons, c.width, 3), up(c.type, kNeurons, c.width, 1),
        down(c.type, c.width, kNeurons, 2);
    const NeuronForm form(up.matrix, down.matrix, &gate.matrix);
    ASSERT_EQ(form.bundle_bytes(), c.bundle_bytes);
    EXPECT_NE(form.key(), NeuronForm(up.matrix, down.matrix).key());
    std::vector<std::byte> bundles(kNeurons * form.bundle_bytes());
    std::vector<float> resident(form.resident_bytes() / sizeof(float) + 1);
    auto* const shared = reinterpret_cast<std::byte*>(resident.data());
    Team team(2);
    form.write(up.matrix, down.matrix, &gate.matrix, form.bundle_bytes(), team, bundles.data(),
               shared);
    const DownColumns whole(down.matrix, team);
    std::vector<std::byte> place(form.place_bytes()), again(form.place_bytes());
    for (size_t neuron = 0; neuron < kNeurons; ++neuron) {
      form.assemble(shared, neuron, bundles.data() + neuron * form.bundle_bytes(), place.data());
      const NeuronPlaces places = form.places(place.data());
      const size_t row_bytes = up.matrix.row_bytes;
      ASSERT_EQ(std::memcmp(places.gate, gate.matrix.data + neuron * row_bytes, row_bytes), 0);
      ASSERT_EQ(std::memcmp(places.up, up.matrix.data + neuron * row_bytes, row_bytes), 0);
      ASSERT_EQ(std::memcmp(places.down, whole.column(neuron), whole.layout().column_bytes), 0);
      form.assemble_whole(gate.matrix.data + neuron * row_bytes,
                          up.matrix.data + neuron * row_bytes, whole.column(neuron), again.data());
      ASSERT_EQ(again, place);
    }
    for (size_t n = form.gate_bytes(); n <= form.bundle_bytes(); n += 60) {
      const size_t neuron = n % kNeurons;
      const std::byte* const bundle = bundles.data() + neuron * form.bundle_bytes();
      form.assemble(shared, neuron, bundle, place.data());
      std::fill(again.begin(), again.end(), std::byte{0x55});
      form.assemble_first(shared, neuron, bundle, n, again.data());
      const size_t row_bytes = gate.matrix.row_bytes;
      ASSERT_EQ(std::memcmp(form.places(again.data()).gate, gate.matrix.data + neuron * row_bytes,
                            row_bytes),
                0);
      form.assemble_rest(shared, neuron, bundle + n, n, again.data());
      ASSERT_EQ(again, place) << n;
    }
  }
}

TEST(NeuronForm, P7FormsThatDifferHaveOtherKeys) {
  const RandomMatrix up(Type::kQ4_0, 256, 512, 1), down(Type::kQ4_0, 512, 256, 2);
  const RandomMatrix bytes(Type::kQ8_0, 512, 256, 2);
  const NeuronForm form(up.matrix, down.matrix);
  EXPECT_EQ(form.key(), NeuronForm(up.matrix, down.matrix).key());
  EXPECT_NE(form.key(), NeuronForm(up.matrix, bytes.matrix).key());
}

}  // namespace
}  // namespace troika::weights
