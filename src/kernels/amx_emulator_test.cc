// Tests the emulator of AMX. On a processor with AMX the tests of results run on it, and show
// whether the emulator computes the same.
#if defined(__x86_64__)

#include "kernels/amx_emulator_test_support.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstring>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tensor/half.h"

namespace troika::kernels {
namespace {

// A configuration has the shapes of eight tiles, as ldtilecfg reads them.
struct Configuration {
  uint8_t palette = 1;
  uint8_t start_line = 0;
  uint8_t reserved[14] = {};
  uint16_t line_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t n_lines[16] = {16, 16, 16, 16, 16, 16, 16, 16};

  bool operator==(const Configuration&) const = default;
};

void configure(const Configuration& c) { asm volatile("ldtilecfg %0" ::"m"(c)); }
Configuration configuration() {
  Configuration c;
  asm volatile("sttilecfg %0" : "=m"(c));
  return c;
}
void release() { asm volatile("tilerelease"); }
template <int kTile>
void load(const void* p, size_t stride) {
  asm volatile("tileloadd (%0,%1), %%tmm%c2" ::"r"(p), "r"(stride), "n"(kTile) : "memory");
}
template <int kTile>
void store(void* p, size_t stride) {
  asm volatile("tilestored %%tmm%c2, (%0,%1)" ::"r"(p), "r"(stride), "n"(kTile) : "memory");
}

std::vector<uint8_t> random_bytes(size_t n, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<uint8_t> bytes(n);
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random() >> 11);
  return bytes;
}

class AmxEmulation : public AmxTest {};

TEST_F(AmxEmulation, AConfigurationIsKeptUntilItIsReleased) {
  const Configuration none = {.palette = 0, .line_bytes = {}, .n_lines = {}};
  Configuration some;
  EXPECT_EQ(configuration(), none);
  some.line_bytes[3] = 20;
  some.n_lines[3] = 5;
  some.line_bytes[7] = some.n_lines[7] = 0;
  configure(some);
  EXPECT_EQ(configuration(), some);
  // A thread has a configuration of its own. Which one it starts with is the system's affair.
  std::thread([&] {
    configure(Configuration());
    EXPECT_EQ(configuration(), Configuration());
    release();
    EXPECT_EQ(configuration(), none);
  }).join();
  EXPECT_EQ(configuration(), some);
  configure(none);
  EXPECT_EQ(configuration(), none);
  configure(some);
  release();
  EXPECT_EQ(configuration(), none);
}

// The tests load tile 3 from every kind of address, store it again, and compare it with what lies
// there.
class AmxAddresses : public AmxTest {
 protected:
  static constexpr size_t kStride = 192;  // can be divided by any scale

  void SetUp() override {
    AmxTest::SetUp();
    if (!IsSkipped()) configure(Configuration());
  }
  void TearDown() override {
    if (!IsSkipped()) release();
    AmxTest::TearDown();
  }
  // Expects that tile 3 holds what stands at p_, in lines that are `stride` bytes apart.
  void expect_loaded(const char* address, size_t stride = kStride) {
    uint8_t lines[16][64];
    store<3>(lines, 64);
    for (size_t i = 0; i < 16; ++i) {
      EXPECT_EQ(std::memcmp(lines[i], p_ + i * stride, 64), 0) << address << ", line " << i;
    }
    asm volatile("tilezero %tmm3");
  }

  const std::vector<uint8_t> bytes_ = random_bytes(16 * kStride, 1);
  const uint8_t* const p_ = bytes_.data();
};

// Loads from p_, which it addresses as displacement(base,index,scale) with the named registers, and
// expects that tile 3 holds what stands there.
#define TROIKA_EXPECT_LOADED(displacement, base, index, scale)                                     \
  asm volatile("mov %0, %%" #base "\n mov %1, %%" #index "\n tileloadd " #displacement "(%%" #base \
               ",%%" #index "," #scale                                                             \
               "), %%tmm3" ::"r"(reinterpret_cast<uint64_t>(p_) - displacement),                   \
               "r"(kStride / scale)                                                                \
               : #base, #index, "memory");                                                         \
  expect_loaded(#displacement "(" #base "," #index "," #scale ")")

TEST_F(AmxAddresses, OfAnyRegistersScalesAndDisplacements) {
  TROIKA_EXPECT_LOADED(0, rax, rcx, 1);
  TROIKA_EXPECT_LOADED(0, rdx, rsi, 2);
  TROIKA_EXPECT_LOADED(0x7f, rdi, rax, 4);
  TROIKA_EXPECT_LOADED(-0x80, rsi, rdx, 8);
  TROIKA_EXPECT_LOADED(0x80, rcx, rdi, 1);
  TROIKA_EXPECT_LOADED(0x12345678, rax, rdx, 1);
  TROIKA_EXPECT_LOADED(-0x12345678, rdx, rax, 2);
  TROIKA_EXPECT_LOADED(0, r8, r15, 1);
  TROIKA_EXPECT_LOADED(0x40, r9, r14, 2);
  TROIKA_EXPECT_LOADED(-0x1000, r10, r13, 4);
  TROIKA_EXPECT_LOADED(0, r11, r12, 8);  // rsp is no index, and r12 differs from it in one bit
  TROIKA_EXPECT_LOADED(0, r12, r11, 1);
  TROIKA_EXPECT_LOADED(0, r13, r10, 1);  // has a displacement, as rbp always has
  TROIKA_EXPECT_LOADED(0x7ffffff0, r14, r9, 1);
  TROIKA_EXPECT_LOADED(1, r15, r8, 1);
  TROIKA_EXPECT_LOADED(0, rax, r8, 1);
  TROIKA_EXPECT_LOADED(0, r8, rax, 1);
}

TEST_F(AmxAddresses, OfTheFrame) {
  const uint8_t* base = p_;
  asm volatile("xchg %0, %%rbp\n tileloadd 0(%%rbp,%1,1), %%tmm3\n xchg %0, %%rbp"
               : "+a"(base)
               : "c"(kStride)
               : "memory");
  expect_loaded("0(rbp,rcx,1)");
  const uint8_t* stride = reinterpret_cast<const uint8_t*>(kStride / 2);
  asm volatile("xchg %0, %%rbp\n tileloadd (%1,%%rbp,2), %%tmm3\n xchg %0, %%rbp"
               : "+a"(stride)
               : "c"(p_)
               : "memory");
  expect_loaded("(rcx,rbp,2)");
}

TEST_F(AmxAddresses, OfTheStack) {
  const uint8_t* from = p_;
  size_t n = 1024;
  asm volatile(
      "sub $1168, %%rsp\n"  // skips also the 128 bytes below the stack that a function may use
      "lea 16(%%rsp), %%rdi\n"
      "rep movsb\n"
      "tileloadd 16(%%rsp,%2,1), %%tmm3\n"
      "add $1168, %%rsp"
      : "+S"(from), "+c"(n)
      : "r"(size_t{64})
      : "rdi", "cc", "memory");
  expect_loaded("16(rsp,reg,1)", 64);
}

// Without an index, every line of the tile is the first one in memory.
TEST_F(AmxAddresses, WithoutAnIndex) {
  asm volatile("tileloadd (%0), %%tmm3" ::"r"(p_) : "memory");
  expect_loaded("(reg)", 0);
}

TEST_F(AmxAddresses, RelativeToTheNextInstruction) {
  static const Configuration kElsewhere = {.line_bytes = {4, 8, 12}, .n_lines = {1, 2, 3}};
  asm volatile("ldtilecfg %0" ::"m"(kElsewhere));
  EXPECT_EQ(configuration(), kElsewhere);
}

// With tiles that are smaller than the registers, only their lines and bytes are read and written.
TEST_F(AmxEmulation, LoadsAndStoresKeepToTheShapeOfATile) {
  Configuration c;
  c.line_bytes[6] = 20;
  c.n_lines[6] = 5;
  configure(c);
  const std::vector<uint8_t> from = random_bytes(4 * 33 + 20, 1);
  std::vector<uint8_t> to(5 * 47, 0xee), expected = to;
  load<6>(from.data(), 33);
  store<6>(to.data(), 47);
  for (size_t i = 0; i < 5; ++i) std::memcpy(&expected[i * 47], &from[i * 33], 20);
  EXPECT_EQ(to, expected);
  release();
}

// A load begins at the start line, where an interrupted one stopped, and sets it to 0.
TEST_F(AmxEmulation, ALoadBeginsAtTheStartLine) {
  Configuration c;
  c.start_line = 14;
  configure(c);
  EXPECT_EQ(configuration().start_line, 14);
  const std::vector<uint8_t> from = random_bytes(1024, 1);
  std::vector<uint8_t> to(1024), expected(1024);
  load<0>(from.data(), 64);
  EXPECT_EQ(configuration().start_line, 0);
  store<0>(to.data(), 64);
  std::memcpy(&expected[14 * 64], &from[14 * 64], 128);
  EXPECT_EQ(to, expected);
  release();
}

// The products multiply 7 lines of 12 bytes with 3 lines of 20.
constexpr size_t kM = 7, kK = 3, kN = 5;

void configure_product() {
  Configuration c = {.line_bytes = {}, .n_lines = {}};
  c.line_bytes[1] = 4 * kN, c.n_lines[1] = kM;
  c.line_bytes[4] = 4 * kK, c.n_lines[4] = kM;
  c.line_bytes[7] = 4 * kN, c.n_lines[7] = kK;
  configure(c);
}

// Computes tile 1 += tile 4 * tile 7, whose bytes are given as they lie in memory.
template <typename Product>
void multiply(const void* left, const void* right, void* sums, Product product) {
  configure_product();
  load<1>(sums, 4 * kN);
  load<4>(left, 4 * kK);
  load<7>(right, 4 * kN);
  product();
  store<1>(sums, 4 * kN);
  release();
}

template <typename Left, typename Right, typename Product>
void expect_byte_product(Product product) {
  const std::vector<uint8_t> left = random_bytes(kM * 4 * kK, 1);
  const std::vector<uint8_t> right = random_bytes(kK * 4 * kN, 2);
  std::vector<uint32_t> sums(kM * kN);
  for (size_t i = 0; i < sums.size(); ++i) sums[i] = 0x7fff'0000u + static_cast<uint32_t>(i);
  std::vector<uint32_t> expected = sums;
  for (size_t m = 0; m < kM; ++m) {
    for (size_t n = 0; n < kN; ++n) {
      for (size_t k = 0; k < 4 * kK; ++k) {
        const int64_t a = static_cast<Left>(left[m * 4 * kK + k]);
        const int64_t b = static_cast<Right>(right[k / 4 * 4 * kN + 4 * n + k % 4]);
        expected[m * kN + n] += static_cast<uint32_t>(a * b);
      }
    }
  }
  multiply(left.data(), right.data(), sums.data(), product);
  EXPECT_EQ(sums, expected);
}

TEST_F(AmxEmulation, ProductsOfBytesWithAndWithoutSigns) {
  expect_byte_product<int8_t, int8_t>([] { asm volatile("tdpbssd %tmm7, %tmm4, %tmm1"); });
  expect_byte_product<int8_t, uint8_t>([] { asm volatile("tdpbsud %tmm7, %tmm4, %tmm1"); });
  expect_byte_product<uint8_t, int8_t>([] { asm volatile("tdpbusd %tmm7, %tmm4, %tmm1"); });
  expect_byte_product<uint8_t, uint8_t>([] { asm volatile("tdpbuud %tmm7, %tmm4, %tmm1"); });
}

// Returns one sum, of `start` and six products.
float bf16_sum(const float (&left)[6], const float (&right)[6], float start) {
  uint16_t a[kM][2 * kK] = {}, b[kK][kN][2] = {};
  float sums[kM][kN] = {};
  for (size_t k = 0; k < 6; ++k) {
    a[3][k] = tensor::f32_to_bf16(left[k]);
    b[k / 2][2][k % 2] = tensor::f32_to_bf16(right[k]);
  }
  sums[3][2] = start;
  multiply(a, b, sums, [] { asm volatile("tdpbf16ps %tmm7, %tmm4, %tmm1"); });
  for (size_t m = 0; m < kM; ++m) {
    for (size_t n = 0; n < kN; ++n) {
      if (m == 3 && n == 2) continue;
      EXPECT_EQ(sums[m][n], 0.0f) << m << " " << n;
    }
  }
  return sums[3][2];
}

TEST_F(AmxEmulation, ProductsOfBf16) {
  constexpr float kTwo24 = 16777216, kSmall = 0x1p-70f, kSubnormal = 0x1p-130f;
  const float ones[6] = {1, 1, 1, 1, 1, 1};
  EXPECT_EQ(bf16_sum({1, 2, 3, 4, 5, 6}, {6, 5, 4, 3, 2, 1}, 0.5f), 56.5f);
  if (emulator_ == nullptr) {
    GTEST_SKIP() << "how a processor rounds is its own affair: the tests of panels bound it";
  }
  // Even and odd places have sums of their own. One sum in the order of the places would give 1, or
  // 3.
  EXPECT_EQ(bf16_sum({kTwo24, 1, -kTwo24, 1, 0, 0}, ones, 0), 2.0f);
  // The start is added last: if it came first, it would swallow each of these products.
  EXPECT_EQ(bf16_sum({1, 1, 0, 0, 0, 0}, ones, kTwo24), kTwo24 + 2);
  // Ties round to the even neighbour.
  EXPECT_EQ(bf16_sum({1, 0, 0, 0, 0, 0}, ones, kTwo24), kTwo24);
  EXPECT_EQ(bf16_sum({1, 0, 0, 0, 0, 0}, ones, kTwo24 + 2), kTwo24 + 4);
  // A product that is too small for a float still counts in a sum that is not.
  EXPECT_EQ(bf16_sum({0x1p-63f, 0, 0x1p-64f, 0, 0, 0}, {0x1p-63f, 0, 0x1p-63f, 0, 0, 0}, 0),
            0x1.8p-126f);
  // What is too small for a normal float counts as zero, as a result and as an operand.
  EXPECT_EQ(bf16_sum({kSmall, 0, 0, 0, 0, 0}, {kSmall, 0, 0, 0, 0, 0}, 0), 0.0f);
  EXPECT_EQ(bf16_sum({kSubnormal, 0, 0, 0, 0, 0}, {0x1p+100f, 0, 0, 0, 0, 0}, 0), 0.0f);
  EXPECT_EQ(bf16_sum({0, 0, 0, 0, 0, 0}, ones, kSubnormal), 0.0f);
  EXPECT_EQ(bf16_sum({0x1p127f, 0, 0x1p127f, 0, 0, 0}, ones, 0), INFINITY);
  EXPECT_TRUE(std::isnan(bf16_sum({0x1p127f, 0x1p127f, 0x1p127f, 0x1p127f, 0, 0},
                                  {1, -1, 1, -1, 0, 0}, 0)));  // subtracts infinity from infinity
}

// Only the emulator can say why it refuses an instruction; a processor raises a signal.
class AmxRefusals : public AmxTest {
 protected:
  void SetUp() override {
    AmxTest::SetUp();
    if (!IsSkipped() && emulator_ == nullptr) GTEST_SKIP() << "this processor has AMX of its own";
  }
  void TearDown() override {
    if (!IsSkipped()) release();
    AmxTest::TearDown();
  }
  void expect_refused(const std::string& why) { EXPECT_EQ(emulator_->take_refusal(), why); }
};

TEST_F(AmxRefusals, WithoutAConfiguration) {
  asm volatile("tilezero %tmm3");
  asm volatile("tilezero %tmm4");  // is not reported, because only the first is
  expect_refused("tilezero %tmm3: the tiles are not configured");
  configure(Configuration());
  expect_refused("");
  release();
  asm volatile("tdpbusd %tmm5, %tmm4, %tmm3");
  expect_refused("tdpbusd %tmm5,%tmm4,%tmm3: the tiles are not configured");
}

TEST_F(AmxRefusals, OfConfigurations) {
  const auto expect = [&](const Configuration& c, const char* why) {
    asm volatile("ldtilecfg (%0)" ::"r"(&c), "m"(c));
    const std::string refusal = emulator_->take_refusal();
    EXPECT_EQ(refusal.substr(std::min(refusal.size(), refusal.find(": ") + 2)), why);
    EXPECT_EQ(configuration().palette, 0) << why;
  };
  expect({.palette = 3}, "there is no palette 3");
  expect({.start_line = 16}, "it starts behind the last line");
  expect({.reserved = {0, 1}}, "byte 3 of a configuration must be zero");
  expect({.line_bytes = {65}, .n_lines = {1}}, "tile 0 cannot have 1 lines of 65 bytes");
  expect({.line_bytes = {0, 64}, .n_lines = {0, 17}}, "tile 1 cannot have 17 lines of 64 bytes");
  expect({.line_bytes = {64, 64}, .n_lines = {16, 0}}, "tile 1 cannot have 0 lines of 64 bytes");
  Configuration nine;
  nine.line_bytes[8] = 64;
  expect(nine, "byte 32 of a configuration must be zero");
}

TEST_F(AmxRefusals, OfShapesThatDoNotFit) {
  configure_product();
  asm volatile("tilezero %tmm0");
  expect_refused("tilezero %tmm0: tile 0 is not configured");
  asm volatile("tdpbf16ps %tmm4, %tmm7, %tmm1");
  expect_refused(
      "tdpbf16ps %tmm4,%tmm7,%tmm1: "
      "3 lines of 20 bytes times 7 of 12 do not make 7 of 20");
  // The instruction stands in bytes, because assemblers refuse it.
  asm volatile(".byte 0xc4, 0xe2, 0x5b, 0x5e, 0xcc");
  expect_refused("tdpbssd %tmm4,%tmm4,%tmm1: it names a tile twice");
  configure({.line_bytes = {64, 62, 64}, .n_lines = {16, 16, 16}});
  asm volatile("tdpbuud %tmm2, %tmm1, %tmm0");
  expect_refused("tdpbuud %tmm2,%tmm1,%tmm0: its lines end within a sum");
}

using AmxDeathTest = AmxRefusals;

TEST_F(AmxDeathTest, InstructionsThatItDoesNotKnowEndTheProgram) {
  EXPECT_EXIT(asm volatile("ud2"), testing::KilledBySignal(SIGILL), "");
  EXPECT_EXIT(asm volatile(".byte 0xc4, 0xe2, 0x4b, 0x5c, 0xc4"),  // tdpfp16ps
              testing::KilledBySignal(SIGILL), "");
}

}  // namespace
}  // namespace troika::kernels

#endif  // __x86_64__
