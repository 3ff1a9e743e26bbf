// Tests the machine code of the AMX kernels and probes, on a processor with AMX or emulated. Under
// the address sanitizer the emulation also checks what tiles read and write. The tests of every
// implementation (panels_test.cc) run for AMX too.
#if defined(__x86_64__)

#include <gtest/gtest.h>

#include <algorithm>
#include <thread>
#include <vector>

#include "kernels/probe.h"
#include "kernels/tiles_test_support.h"
#include "kernels/x86/x86.h"

namespace troika::kernels {
namespace {

class Amx : public AmxTest {};

TEST_F(Amx, N3Int8ProductsEqualTheReferenceToTheBit) {
  compare_int8_products(x86::kAmxTable.matmul_int8);
}

TEST_F(Amx, H13Bf16ProductsAgreeWithTheReferenceStretchByStretch) {
  compare_bf16_products(x86::kAmxTable.matmul_bf16);
}

constexpr size_t kRows = 93, kDepth = 197, kTokens = 37;

// A product in both precisions whose last strip and last tile of k are not whole.
struct Product {
  std::vector<float> values = random_floats(kRows * kDepth, 1, 0.05f);
  std::vector<float> bias = random_floats(kRows, 3);
  TestWeight weight{Type::kF32, kRows, kDepth, values};
  Int8Weight packed{Type::kF32, weight.view};
  Aligned<uint16_t> panel =
      bf16_panel(reference::kTable, Type::kF32, weight.view, 0, bf16_depth(kDepth));
  Aligned<std::byte> int8_x = int8_tokens(reference::kTable, x(), kTokens, kDepth);
  Aligned<std::byte> bf16_x = bf16_tokens(reference::kTable, x(), kTokens, kDepth);

  static std::vector<float> x() { return random_floats(kTokens * kDepth, 2); }

  void int8(const Table& table, size_t first_strip, size_t last_strip, float* y) const {
    table.matmul_int8(packed.view, {first_strip, last_strip, kTokens, int8_x.get(),
                                    int8_token_bytes(kDepth), bias.data(), y, kRows});
  }
  void bf16(const Table& table, size_t first_strip, size_t last_strip, float* y) const {
    const size_t n_k = bf16_depth(kDepth);
    table.matmul_bf16({panel.get() + first_strip * kStripRows * n_k, kRows, n_k, true, true},
                      {first_strip, last_strip, kTokens, bf16_x.get(), bf16_token_bytes(kDepth),
                       bias.data(), y, kRows});
  }
};

TEST_F(Amx, AnyRangeOfStripsWritesItsOwnRowsAndNoOthers) {
  const Product product;
  constexpr float kUntouched = -7;
  const size_t n = n_strips(kRows);
  std::vector<float> int8(kTokens * kRows), bf16(kTokens * kRows);
  product.int8(reference::kTable, 0, n, int8.data());
  product.bf16(x86::kAmxTable, 0, n, bf16.data());  // the tests above compare it with the reference
  for (size_t first = 0; first <= n; ++first) {
    for (size_t last = first; last <= n; ++last) {
      std::vector<float> int8_part(kTokens * kRows, kUntouched), bf16_part = int8_part;
      product.int8(x86::kAmxTable, first, last, int8_part.data());
      product.bf16(x86::kAmxTable, first, last, bf16_part.data());
      for (size_t i = 0; i < int8_part.size(); ++i) {
        const size_t strip = i % kRows / kStripRows;
        const bool is_inside = strip >= first && strip < last;
        ASSERT_EQ(int8_part[i], is_inside ? int8[i] : kUntouched) << first << " " << last;
        ASSERT_EQ(bf16_part[i], is_inside ? bf16[i] : kUntouched) << first << " " << last;
      }
    }
  }
}

// Tiles belong to a thread: each thread configures its own, and none disturbs another.
TEST_F(Amx, ThreadsMultiplyAtTheSameTime) {
  const Product product;
  const size_t n = n_strips(kRows);
  std::vector<float> int8(kTokens * kRows), bf16 = int8, int8_parts = int8, bf16_parts = int8;
  product.int8(reference::kTable, 0, n, int8.data());
  product.bf16(x86::kAmxTable, 0, n, bf16.data());
  std::vector<std::thread> threads;
  for (size_t i = 0; i < n; ++i) {
    threads.emplace_back([&, i] {
      for (int again = 0; again < 5; ++again) {
        product.int8(x86::kAmxTable, i, i + 1, int8_parts.data());
        product.bf16(x86::kAmxTable, i, i + 1, bf16_parts.data());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(int8_parts == int8);
  EXPECT_TRUE(bf16_parts == bf16);
}

TEST_F(Amx, TheProbesAreValidInstructions) {
  const Probes probes = choose_probes(available_);
  ASSERT_STREQ(probes.int8_name, "amx");
  ASSERT_STREQ(probes.bf16_name, "amx");
  constexpr size_t kTurns = 3;
  EXPECT_EQ(probes.int8(kTurns), 2.0 * 4 * 16 * 16 * 64 * kTurns);
  EXPECT_EQ(probes.bf16(kTurns), 2.0 * 4 * 16 * 16 * 32 * kTurns);
  if (emulator_ == nullptr) return;
  // Each probe sets up eight tiles and their configuration, gives them back, and makes four
  // products in a turn.
  EXPECT_EQ(emulator_->n_instructions(), 2 * (1 + 8 + 4 * kTurns + 1));
}

}  // namespace
}  // namespace troika::kernels

#endif  // __x86_64__
