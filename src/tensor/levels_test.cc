#include "tensor/levels.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "tensor/codec.h"

namespace troika::tensor {
namespace {

TEST(Levels, WithTheirGroupsAreTheWeights) {
  std::mt19937 random(2);
  std::normal_distribution<float> normal;
  constexpr size_t kWeights = 768;
  std::vector<float> x(kWeights);
  for (float& value : x) value = normal(random);
  for (const TypeInfo& info : type_table()) {
    const size_t group = group_length(info.type);
    EXPECT_EQ(group == 0, is_float(info.type)) << info.name;
    if (group == 0) continue;
    std::vector<std::byte> row(row_bytes(info.type, kWeights));
    quantize_row(info.type, x.data(), row.data(), kWeights);
    std::vector<float> wanted(kWeights);
    dequantize_row(info.type, row.data(), wanted.data(), kWeights);
    std::vector<int8_t> levels(kWeights);
    std::vector<Affine> groups(kWeights / group);
    unpack_levels(info.type, row.data(), kWeights, levels.data(), groups.data());
    for (size_t i = 0; i < kWeights; ++i) {
      const Affine& of = groups[i / group];
      ASSERT_EQ(of.scale * static_cast<float>(levels[i]) - of.min, wanted[i])
          << info.name << " " << i;
    }
  }
}

}  // namespace
}  // namespace troika::tensor
