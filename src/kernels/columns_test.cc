// Tests products by neuron (P1). The test encodes levels a second time, plainly and without
// weights/neurons/columns.cc, so that a mistake there cannot make wrong kernels look right.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "kernels/reference/columns.h"
#include "kernels/rows.h"
#include "kernels/test_support.h"
#include "tensor/half.h"

namespace troika::kernels {
namespace {

size_t column_bytes(ColumnForm form, size_t n_outputs) {
  switch (form) {
    case ColumnForm::kOffsetNibbles:
    case ColumnForm::kNibbles:
      return n_outputs / 2;
    case ColumnForm::kBytes:
    case ColumnForm::kWideBytes:
      return n_outputs;
    case ColumnForm::kFloats:
      return n_outputs * sizeof(float);
    case ColumnForm::kHalves:
      return n_outputs * sizeof(uint16_t);
  }
  return 0;
}

// Columns of random levels, each at an odd address, with random scales and minima.
struct TestColumns {
  ColumnForm form;
  size_t n_neurons, n_outputs, bytes;
  std::vector<std::byte> levels, scales;
  std::vector<float> minima;
  ColumnPlanes planes;

  TestColumns(ColumnForm form, size_t n_neurons, size_t n_outputs, size_t group)
      : form(form),
        n_neurons(n_neurons),
        n_outputs(n_outputs),
        bytes(column_bytes(form, n_outputs)) {
    std::mt19937 random(17);
    levels.resize(n_neurons * bytes + 1);
    const size_t n_groups = (n_neurons + group - 1) / group, n_scales = n_groups * n_outputs;
    const std::vector<float> floats = random_floats(n_neurons * n_outputs, 3);
    if (form == ColumnForm::kFloats) {
      std::memcpy(levels.data() + 1, floats.data(), n_neurons * bytes);
    } else if (form == ColumnForm::kHalves) {
      for (size_t i = 0; i < floats.size(); ++i) {
        const uint16_t half = tensor::f32_to_f16(floats[i]);
        std::memcpy(levels.data() + 1 + 2 * i, &half, 2);
      }
    } else {
      for (std::byte& byte : levels) byte = static_cast<std::byte>(random() & 255);
    }
    planes = {nullptr, nullptr, group, n_outputs};
    if (form == ColumnForm::kFloats || form == ColumnForm::kHalves) return;
    const std::vector<float> values = random_floats(n_scales, 4, 0.01f);
    const bool has_halves = form == ColumnForm::kOffsetNibbles || form == ColumnForm::kBytes;
    scales.resize(n_scales * (has_halves ? 2 : 4));
    for (size_t i = 0; i < n_scales; ++i) {
      const uint16_t half = tensor::f32_to_f16(values[i]);
      if (has_halves) {
        std::memcpy(scales.data() + 2 * i, &half, 2);
      } else {
        std::memcpy(scales.data() + 4 * i, &values[i], 4);
      }
    }
    planes.scales = scales.data();
    if (has_halves) return;
    minima = random_floats(n_scales, 5, 0.1f);
    planes.minima = minima.data();
  }

  // Returns the columns of `neurons`, with their values.
  std::vector<LiveColumn> live(const std::vector<uint32_t>& neurons,
                               const std::vector<float>& values) const {
    std::vector<LiveColumn> list;
    for (const uint32_t n : neurons) list.push_back({n, values[n], levels.data() + 1 + n * bytes});
    return list;
  }
};

class Columns : public EveryImplementation {};

std::vector<uint32_t> some_of(size_t n, size_t every) {
  std::vector<uint32_t> list;
  for (size_t i = every / 2; i < n; i += every) list.push_back(static_cast<uint32_t>(i));
  return list;
}

TEST_P(Columns, P1AgreesWithTheReference) {
  for (size_t f = 0; f < kColumnForms; ++f) {
    for (const size_t group : {16, 32}) {
      for (const size_t n_outputs : {32, 96, 256, 416}) {
        for (const size_t every : {1, 3, 40, 600}) {
          const auto form = static_cast<ColumnForm>(f);
          const TestColumns columns(form, 500, n_outputs, group);
          const std::vector<float> values = random_floats(500, 6);
          const std::vector<LiveColumn> live = columns.live(some_of(500, every), values);
          std::vector<float> mine(n_outputs, -7), theirs(n_outputs, -8);
          table().add_columns[f](columns.planes, live, 0, n_outputs, mine.data());
          reference::add_columns(form, columns.planes, live, 0, n_outputs, theirs.data());
          for (size_t o = 0; o < n_outputs; ++o) {
            double bound = 1e-30;
            for (const LiveColumn& column : live) {
              const size_t g = column.neuron / group;
              bound += std::fabs(column.value) *
                       (std::fabs(reference::column_level(form, column.levels, o) *
                                  reference::column_scale(form, columns.planes, g, o)) +
                        std::fabs(reference::column_minimum(columns.planes, g, o)));
            }
            ASSERT_NEAR(mine[o], theirs[o], 4e-6 * bound)
                << column_form_name(form) << " group " << group << " outputs " << n_outputs
                << " every " << every << " at " << o;
          }
        }
      }
    }
  }
}

// Listing a dead neuron or dividing the outputs changes no bit.
TEST_P(Columns, P1DeadNeuronsAndRangesOfOutputsChangeNoBit) {
  for (size_t f = 0; f < kColumnForms; ++f) {
    const auto form = static_cast<ColumnForm>(f);
    const TestColumns columns(form, 512, 288, 32);
    std::vector<float> values = random_floats(512, 7);
    std::vector<uint32_t> all, alive;
    for (uint32_t n = 0; n < 512; ++n) {
      all.push_back(n);
      if (n % 7 == 3 && n / 32 != 4) {
        alive.push_back(n);
      } else {
        values[n] = n % 2 == 0 ? 0.0f : -0.0f;
      }
    }
    std::vector<float> dense(288, -7), sparse(288, -8);
    table().add_columns[f](columns.planes, columns.live(all, values), 0, 288, dense.data());
    const std::vector<LiveColumn> live = columns.live(alive, values);
    for (size_t first = 0; first < 288; first += 96) {
      table().add_columns[f](columns.planes, live, first, first + 96, sparse.data());
    }
    EXPECT_EQ(std::memcmp(dense.data(), sparse.data(), 288 * sizeof(float)), 0)
        << column_form_name(form);
  }
}

TEST_P(Columns, P1NoLiveNeuronGivesZeros) {
  for (size_t f = 0; f < kColumnForms; ++f) {
    const TestColumns columns(static_cast<ColumnForm>(f), 64, 64, 32);
    std::vector<float> y(64, -7);
    table().add_columns[f](columns.planes, {}, 0, 64, y.data());
    for (const float value : y) EXPECT_EQ(value, 0.0f);
  }
}

// Rows that lie anywhere in memory have the bits of the whole weight's product.
TEST_P(Columns, P1ListedRowsHaveTheBitsOfTheWholeWeight) {
  constexpr size_t kRows = 21, kDepth = 512;
  const std::vector<float> x = random_floats(kDepth, 2);
  const std::vector<std::byte> q = quantized(x, 1, kDepth);
  for (const tensor::TypeInfo& info : tensor::type_table()) {
    const TestWeight weight(info.type, kRows, kDepth, random_floats(kRows * kDepth, 1));
    std::vector<const std::byte*> rows;
    std::vector<size_t> which;
    for (size_t r = kRows; r-- > 0;) {
      if (r % 3 == 1) continue;
      rows.push_back(weight.view.data + r * weight.view.row_bytes);
      which.push_back(r);
    }
    std::vector<float> whole(kRows), listed(rows.size());
    const auto expect_equal = [&](const char* what) {
      for (size_t i = 0; i < rows.size(); ++i) {
        EXPECT_EQ(listed[i], whole[which[i]]) << what << " " << info.name << " row " << which[i];
      }
    };
    MatmulQ8* const of_q8 = find(table().matmul_q8, info.type);
    of_q8(weight.view, 1, q.data(), 0, whole.data(), kRows);
    matmul_rows(of_q8, {rows, weight.view.row_bytes, kDepth}, q.data(), listed.data());
    expect_equal("q8");
    MatmulF32* const of_floats = find(table().matmul_f32, info.type);
    of_floats(weight.view, 1, x.data(), kDepth, whole.data(), kRows);
    matmul_rows(of_floats, {rows, weight.view.row_bytes, kDepth}, x.data(), listed.data());
    expect_equal("f32");
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, Columns, every_implementation(), implementation_name);

}  // namespace
}  // namespace troika::kernels
