#include "tensor/codec.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace troika::tensor {
namespace {

std::vector<std::byte> encoded(Type type, const std::vector<float>& x) {
  std::vector<std::byte> bytes(row_bytes(type, x.size()));
  quantize_row(type, x.data(), bytes.data(), x.size());
  return bytes;
}

std::vector<float> decoded(Type type, const std::vector<std::byte>& bytes, size_t n) {
  std::vector<float> y(n);
  dequantize_row(type, bytes.data(), y.data(), n);
  return y;
}

// Values that llama.cpp's decoders give for the bytes that `golden_bytes` makes.
struct Golden {
  Type type;
  size_t scale_offset;  // is where the half-precision scale stands in a block
  bool has_minimum;
  struct {
    size_t index;
    float value;
  } values[8];
};

constexpr Golden kGoldens[] = {
    {Type::kQ4_0,
     0,
     false,
     {{0, -0x1.332p-2f},
      {1, 0x1.998p-3f},
      {17, -0x1.998p-4f},
      {31, 0x0p+0f},
      {100, -0x1.998p-4f},
      {128, 0x1.ffep-2f},
      {200, 0x1.998p-4f},
      {255, 0x1.332p-2f}}},
    {Type::kQ4_1,
     0,
     true,
     {{0, 0x1.5cb8p+0f},
      {1, 0x1.0ccp-2f},
      {17, 0x1.0ffp+0f},
      {31, 0x1.0ffp+0f},
      {100, 0x1.5cb8p+0f},
      {128, 0x1.5cb8p+0f},
      {200, 0x1.5cb8p+0f},
      {255, -0x1.198p-3f}}},
    {Type::kQ5_0,
     0,
     false,
     {{0, 0x1.ccbp-1f},
      {1, -0x1.998p-3f},
      {17, 0x0p+0f},
      {31, 0x1.998p-4f},
      {100, 0x1.665p-1f},
      {128, 0x1.998p-4f},
      {200, -0x1.1988p+0f},
      {255, -0x1.1988p+0f}}},
    {Type::kQ5_1,
     0,
     true,
     {{0, 0x1.c318p+0f},
      {1, 0x1.2188p+1f},
      {17, 0x1.732p-2f},
      {31, 0x1.732p-2f},
      {100, 0x1.5cb8p+0f},
      {128, 0x1.c318p+0f},
      {200, 0x1.ecbp-1f},
      {255, 0x1.b98p-1f}}},
    {Type::kQ8_0,
     0,
     false,
     {{0, 0x1.0fefp+3f},
      {1, 0x1.864ep+3f},
      {17, -0x1.5984p+2f},
      {31, -0x1.332p+2f},
      {100, -0x1.1cbbp+3f},
      {128, -0x1.332p-2f},
      {200, -0x1.665p-1f},
      {255, 0x1.5984p+2f}}},
    {Type::kQ2_K,
     80,
     true,
     {{0, 0x1.a64cp+1f},
      {1, 0x0p+0f},
      {17, 0x1.a64p-2f},
      {31, 0x1.a64p-2f},
      {100, 0x1.27eap+2f},
      {128, 0x1.4fe8p+0f},
      {200, 0x1.8648p+1f},
      {255, 0x1.032p+0f}}},
    {Type::kQ3_K,
     108,
     false,
     {{0, 0x1.0323p+3f},
      {1, -0x1.5984p+3f},
      {17, 0x1.998p+3f},
      {31, 0x1.998p+2f},
      {100, 0x0p+0f},
      {128, 0x1.998p-3f},
      {200, 0x1.3fecp+1f},
      {255, 0x1.0cbcp+2f}}},
    {Type::kQ4_K,
     0,
     true,
     {{0, 0x1.48d04p+5f},
      {1, 0x1.c0a4p+2f},
      {17, 0x1.c0a4p+2f},
      {31, 0x1.99bp+4f},
      {100, 0x1.fbdcp+3f},
      {128, 0x1.644fcp+5f},
      {200, 0x1.10878p+4f},
      {255, 0x1.6d18p+3f}}},
    {Type::kQ5_K,
     0,
     true,
     {{0, 0x1.6ac22p+6f},
      {1, 0x1.c0a4p+2f},
      {17, 0x1.c0a4p+2f},
      {31, 0x1.99bp+4f},
      {100, 0x1.ddep+4f},
      {128, 0x1.abb1ep+6f},
      {200, 0x1.10878p+4f},
      {255, 0x1.1686p+4f}}},
    {Type::kQ6_K,
     208,
     false,
     {{0, -0x1.1e215p+7f},
      {1, 0x1.531ep+7f},
      {17, 0x1.998p+5f},
      {31, -0x1.332p+3f},
      {100, 0x1.f87a1p+7f},
      {128, -0x1.18bb4p+5f},
      {200, 0x1.b37e6p+6f},
      {255, -0x1.7fe8p+2f}}},
    {Type::kIQ4_NL,
     0,
     false,
     {{0, -0x1.bfe4p+1f},
      {1, 0x1.3fecp+1f},
      {17, -0x1.ffep-1f},
      {31, 0x1.998p-4f},
      {100, -0x1.ffep-1f},
      {128, 0x1.b97ep+2f},
      {200, 0x1.4cb8p+0f},
      {255, 0x1.e648p+1f}}},
    {Type::kIQ4_XS,
     0,
     false,
     {{0, 0x1.9fe6p+2f},
      {1, -0x1.998p-4f},
      {17, 0x1.bfe4p+1f},
      {31, 0x1.bfe4p+1f},
      {100, 0x1.ffep+1f},
      {128, -0x1.d3e2cp+5f},
      {200, 0x1.c7e38p+6f},
      {255, -0x1.998p+0f}}},
    {Type::kMXFP4,
     0,
     false,
     {{0, 0x0p+0f},
      {1, 0x1.8p-4f},
      {17, 0x1.8p-4f},
      {31, 0x1.8p-4f},
      {100, 0x1.8p-5f},
      {128, 0x1p-4f},
      {200, 0x1p-3f},
      {255, 0x0p+0f}}},
};

std::vector<std::byte> golden_bytes(const Golden& golden) {
  std::vector<std::byte> bytes(row_bytes(golden.type, 256));
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 37 + 11);
  const size_t block_bytes = type_info(golden.type).block_bytes;
  for (size_t block = 0; block < bytes.size(); block += block_bytes) {
    if (golden.type == Type::kMXFP4) {
      bytes[block] = std::byte{0x7a};  // is an exponent in place of a half-precision scale
      continue;
    }
    std::byte* scale = bytes.data() + block + golden.scale_offset;
    scale[0] = std::byte{0x66};
    scale[1] = std::byte{0x2e};
    if (golden.has_minimum) {  // the minimum stands behind the scale
      scale[2] = std::byte{0x66};
      scale[3] = std::byte{0xb0};
    }
  }
  return bytes;
}

TEST(Codec, DecodesTheGoldenBlocks) {
  for (const Golden& golden : kGoldens) {
    const std::vector<float> y = decoded(golden.type, golden_bytes(golden), 256);
    for (const auto& [index, value] : golden.values) {
      EXPECT_EQ(y[index], value) << type_name(golden.type) << " " << index;
    }
  }
}

enum class Shape { kNormal, kHeavyTails, kUniform, kShifted };

std::vector<float> random_values(Shape shape, size_t n) {
  std::mt19937 random(42);
  std::normal_distribution<float> normal(0, 0.02f);
  std::student_t_distribution<float> heavy(4);
  std::uniform_real_distribution<float> uniform(-1, 1);
  std::vector<float> x(n);
  for (float& value : x) {
    switch (shape) {
      case Shape::kNormal:
        value = normal(random);
        break;
      case Shape::kHeavyTails:
        value = 0.02f * heavy(random);
        break;
      case Shape::kUniform:
        value = uniform(random);
        break;
      case Shape::kShifted:
        value = 0.5f + normal(random);
        break;
    }
  }
  return x;
}

double relative_error(Type type, Shape shape) {
  const std::vector<float> x = random_values(shape, 256 * 64);
  const std::vector<float> y = decoded(type, encoded(type, x), x.size());
  double error = 0, power = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    error += (x[i] - y[i]) * static_cast<double>(x[i] - y[i]);
    power += x[i] * static_cast<double>(x[i]);
  }
  return std::sqrt(error / power);
}

// The error is the root mean square of the differences, relative to that of the values. The bounds
// are 2 % above what the encoders reach, and below what llama.cpp's reach on such values (Q4_0:
// 0.0854 normal, 0.0645 uniform).
TEST(Codec, ErrorsStayWithinTheirBounds) {
  struct Bound {
    Type type;
    double normal, uniform;
  };
  for (const Bound& bound :
       {Bound{Type::kQ4_0, 0.0822, 0.0602}, Bound{Type::kQ4_1, 0.0714, 0.0551},
        Bound{Type::kQ5_0, 0.0409, 0.0289}, Bound{Type::kQ5_1, 0.0349, 0.027},
        Bound{Type::kQ8_0, 0.0055, 0.0039}, Bound{Type::kQ2_K, 0.268, 0.222},
        Bound{Type::kQ3_K, 0.1473, 0.1212}, Bound{Type::kQ4_K, 0.0717, 0.0544},
        Bound{Type::kQ5_K, 0.0357, 0.0274}, Bound{Type::kQ6_K, 0.0178, 0.0133},
        Bound{Type::kIQ4_NL, 0.0746, 0.063}, Bound{Type::kIQ4_XS, 0.0753, 0.0637},
        Bound{Type::kMXFP4, 0.1121, 0.101}, Bound{Type::kF16, 3e-4, 3e-4},
        Bound{Type::kBF16, 2.4e-3, 2.4e-3}, Bound{Type::kF32, 0, 0}}) {
    EXPECT_LE(relative_error(bound.type, Shape::kNormal), bound.normal) << type_name(bound.type);
    EXPECT_LE(relative_error(bound.type, Shape::kUniform), bound.uniform) << type_name(bound.type);
  }
}

TEST(Codec, AMinimumHelpsWhereValuesLieFarFromZero) {
  for (const Type type : {Type::kQ4_K, Type::kQ4_1}) {
    EXPECT_LT(relative_error(type, Shape::kShifted),
              0.7 * relative_error(Type::kQ4_0, Shape::kShifted));
  }
  // The minimum of Q4_K can only be subtracted, so it does not help where all values are positive.
  EXPECT_LT(relative_error(Type::kQ4_1, Shape::kShifted),
            0.3 * relative_error(Type::kQ4_K, Shape::kShifted));
}

class EveryType : public testing::TestWithParam<Type> {};

TEST_P(EveryType, ZerosStayZeros) {
  const std::vector<float> zeros(512);
  EXPECT_EQ(decoded(GetParam(), encoded(GetParam(), zeros), 512), zeros);
}

TEST_P(EveryType, NoRowIsFine) {
  quantize_row(GetParam(), nullptr, nullptr, 0);
  dequantize_row(GetParam(), nullptr, nullptr, 0);
}

TEST_P(EveryType, DecodedValuesSurviveAnotherRound) {
  const Type type = GetParam();
  const std::vector<float> x = random_values(Shape::kNormal, 512);
  const std::vector<float> once = decoded(type, encoded(type, x), 512);
  const std::vector<float> twice = decoded(type, encoded(type, once), 512);
  // Scales may change by a rounding, and types with few levels may find a better fit.
  const bool is_coarse = type == Type::kQ2_K || type == Type::kQ3_K;
  const double bound = is_coarse ? 1e-2 : type_info(type).block_length == 256 ? 2e-3 : 5e-4;
  for (size_t i = 0; i < 512; ++i) EXPECT_NEAR(once[i], twice[i], bound) << i;
}

TEST_P(EveryType, RowsMayStandAtAnyAddress) {
  const Type type = GetParam();
  const std::vector<float> x = random_values(Shape::kHeavyTails, 256);
  const std::vector<std::byte> straight = encoded(type, x);
  std::vector<std::byte> shifted(straight.size() + 1);
  quantize_row(type, x.data(), shifted.data() + 1, 256);
  EXPECT_TRUE(std::equal(straight.begin(), straight.end(), shifted.begin() + 1));
  std::vector<float> y(256);
  dequantize_row(type, shifted.data() + 1, y.data(), 256);
  EXPECT_EQ(y, decoded(type, straight, 256));
}

TEST_P(EveryType, ExtremeValuesNeitherCrashNorSpread) {
  const Type type = GetParam();
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const float kNan = std::numeric_limits<float>::quiet_NaN();
  for (float extreme : {kInfinity, -kInfinity, kNan, std::numeric_limits<float>::max(),
                        std::numeric_limits<float>::denorm_min(), 1e-38f, 7e4f, -3e9f}) {
    for (size_t step : {1, 7, 256}) {
      std::vector<float> x = random_values(Shape::kNormal, 512);
      for (size_t i = 0; i < 256; i += step) x[i] = extreme;
      const std::vector<float> y = decoded(type, encoded(type, x), 512);
      if (type_info(type).block_length == 1) continue;
      const double bound = type == Type::kQ2_K ? 0.03 : 0.015;
      // All values are finite, and blocks without an extreme value are as accurate as ever.
      for (size_t i = 0; i < 512; ++i) EXPECT_TRUE(std::isfinite(y[i])) << extreme << " " << i;
      for (size_t i = 256; i < 512; ++i) EXPECT_NEAR(y[i], x[i], bound) << extreme << " " << i;
    }
  }
}

std::vector<Type> all_types() {
  std::vector<Type> types;
  for (const TypeInfo& info : type_table()) types.push_back(info.type);
  return types;
}

INSTANTIATE_TEST_SUITE_P(Codec, EveryType, testing::ValuesIn(all_types()),
                         [](const auto& info) { return std::string(type_name(info.param)); });

}  // namespace
}  // namespace troika::tensor
