// Tests the emulator of AMX. On a processor with AMX the tests of results run on it, which shows
// that the emulator does the same.
#if defined(__x86_64__)

#include "kernels/amx_emulator_test_support.h"

#include <gtest/gtest.h>

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
constexpr Configuration kNoTiles = {.palette = 0, .line_bytes = {}, .n_lines = {}};

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
  EXPECT_EQ(configuration(), kNoTiles);
  configure(Configuration());
  EXPECT_EQ(configuration(), Configuration());
  // A thread has a configuration of its own. Which one it starts with is the system's affair.
  std::thread([] {
    configure(Configuration());
    release();
    EXPECT_EQ(configuration(), kNoTiles);
  }).join();
  EXPECT_EQ(configuration(), Configuration());
  configure(kNoTiles);
  EXPECT_EQ(configuration(), kNoTiles);
  static const Configuration kElsewhere;
  asm volatile("ldtilecfg %0" ::"m"(kElsewhere));  // its address is relative to the instruction
  EXPECT_EQ(configuration(), kElsewhere);
  release();
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
  TROIKA_EXPECT_LOADED(0x12345678, rax, rdx, 1);
  TROIKA_EXPECT_LOADED(-0x12345678, rdx, rax, 2);
  TROIKA_EXPECT_LOADED(0, r8, r15, 1);
  TROIKA_EXPECT_LOADED(-0x1000, r10, r13, 4);
  TROIKA_EXPECT_LOADED(0, r11, r12, 8);  // rsp is no index, and r12 differs from it in one bit
  TROIKA_EXPECT_LOADED(0, r12, r11, 1);
  TROIKA_EXPECT_LOADED(0, r13, r10, 1);  // has a displacement, as rbp always has
  TROIKA_EXPECT_LOADED(0x7ffffff0, r14, r9, 1);
  TROIKA_EXPECT_LOADED(0, rax, r8, 1);
  TROIKA_EXPECT_LOADED(0, r8, rax, 1);
}

TEST_F(AmxAddresses, OfTheFrameAndTheStack) {
  const uint8_t* base = p_;
  asm volatile("xchg %0, %%rbp\n tileloadd 0(%%rbp,%1,1), %%tmm3\n xchg %0, %%rbp"
               : "+a"(base)
               : "c"(kStride)
               : "memory");
  expect_loaded("0(rbp,rcx,1)");
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

// Computes tile 1 += tile 4 * tile 7, whose bytes are given as they lie in memory.
template <typename Product>
void multiply(const void* left, const void* right, void* sums, Product product) {
  configure(Configuration());
  load<1>(sums, 64);
  load<4>(left, 64);
  load<7>(right, 64);
  product();
  store<1>(sums, 64);
  release();
}

TEST_F(AmxEmulation, ProductsOfBytesWrapRound) {
  const std::vector<uint8_t> left = random_bytes(1024, 1), right = random_bytes(1024, 2);
  std::vector<uint32_t> sums(256);
  for (size_t i = 0; i < sums.size(); ++i) sums[i] = 0x7fff'0000u + static_cast<uint32_t>(i);
  std::vector<uint32_t> expected = sums;
  for (size_t i = 0; i < 256; ++i) {
    for (size_t k = 0; k < 64; ++k) {
      const int b = static_cast<int8_t>(right[k / 4 * 64 + i % 16 * 4 + k % 4]);
      expected[i] += static_cast<uint32_t>(left[i / 16 * 64 + k] * b);
    }
  }
  multiply(left.data(), right.data(), sums.data(),
           [] { asm volatile("tdpbusd %tmm7, %tmm4, %tmm1"); });
  EXPECT_EQ(sums, expected);
}

// The numbers are whole and small, so that no order of sums rounds.
TEST_F(AmxEmulation, ProductsOfBf16) {
  const std::vector<uint8_t> random = random_bytes(1024, 3);
  uint16_t left[16][32], right[16][32];
  float sums[16][16], expected[16][16];
  for (size_t i = 0; i < 512; ++i) {
    left[i / 32][i % 32] = tensor::f32_to_bf16(static_cast<float>(random[i] % 16) - 8);
    right[i / 32][i % 32] = tensor::f32_to_bf16(static_cast<float>(random[512 + i] % 16) - 8);
  }
  for (size_t m = 0; m < 16; ++m) {
    for (size_t n = 0; n < 16; ++n) {
      sums[m][n] = expected[m][n] = static_cast<float>(m) + 0.5f;
      for (size_t k = 0; k < 32; ++k) {
        expected[m][n] +=
            tensor::bf16_to_f32(left[m][k]) * tensor::bf16_to_f32(right[k / 2][2 * n + k % 2]);
      }
    }
  }
  multiply(left, right, sums, [] { asm volatile("tdpbf16ps %tmm7, %tmm4, %tmm1"); });
  EXPECT_EQ(std::memcmp(sums, expected, sizeof(sums)), 0);
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

TEST_F(AmxRefusals, OfWhatNoProcessorDoes) {
  asm volatile("tilezero %tmm3");
  asm volatile("tdpbusd %tmm5, %tmm4, %tmm3");  // is not reported, because only the first is
  expect_refused("tilezero: the tiles are not configured");
  configure(Configuration());
  expect_refused("");
  // The instruction stands in bytes, because assemblers refuse it.
  asm volatile(".byte 0xc4, 0xe2, 0x59, 0x5e, 0xcc");
  expect_refused("tdpbusd: it names a tile twice");
  release();
  asm volatile("tdpbusd %tmm5, %tmm4, %tmm3");
  expect_refused("tdpbusd: the tiles are not configured");
}

TEST_F(AmxRefusals, OfTilesThatAreNotWhole) {
  configure({.n_lines = {16, 8}});
  expect_refused("ldtilecfg: only whole tiles are emulated");
  EXPECT_EQ(configuration(), kNoTiles);
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
