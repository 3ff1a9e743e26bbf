// Gives tests of kernels implementations to test, and data to test them with.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "kernels/amx_emulator_test_support.h"
#include "kernels/choose.h"
#include "kernels/random_test_support.h"
#include "kernels/reference/reference.h"
#include "tensor/codec.h"

namespace troika::kernels {

// The base of tests that run for every implementation of this build. A test is skipped where the
// processor cannot run the implementation, or emulated where only AMX is missing and the test asks
// for that.
class EveryImplementation : public testing::TestWithParam<size_t> {
 protected:
  explicit EveryImplementation(bool emulates_amx = false) : emulates_amx_(emulates_amx) {}
  void SetUp() override {
    const Implementation& implementation = implementations()[GetParam()];
    CpuFeatures available = detect_cpu_features();
    if (emulates_amx_ && implementation.needs.has(CpuFeature::kAmxInt8)) {
      amx_ = emulate_amx_if_missing(&available);
    }
    if (!available.has_all(implementation.needs)) {
      GTEST_SKIP() << "this processor cannot run " << implementation.name << ", which needs "
                   << to_string(implementation.needs);
    }
    kernels_ = choose(available, implementation.name);
  }
  const Table& table() const { return kernels_.table; }
  bool is_emulated() const { return amx_ != nullptr; }

 private:
  const bool emulates_amx_;
  std::unique_ptr<AmxEmulator> amx_;
  Kernels kernels_;
};

inline std::string implementation_name(const testing::TestParamInfo<size_t>& info) {
  return implementations()[info.param].name;
}

inline auto every_implementation() { return testing::Range(size_t{0}, implementations().size()); }

// A weight matrix with its bytes, which begin at an odd address.
struct TestWeight {
  std::vector<std::byte> storage;
  MatmulWeight view;

  TestWeight(Type type, size_t n_rows, size_t k, const std::vector<float>& values) {
    const size_t bytes = tensor::row_bytes(type, k);
    storage.resize(bytes * n_rows + 1);
    for (size_t r = 0; r < n_rows; ++r) {
      tensor::quantize_row(type, values.data() + r * k, storage.data() + 1 + r * bytes, k);
    }
    view = {storage.data() + 1, bytes, k, 0, n_rows};
  }
};

// Returns activations quantised by the reference.
inline std::vector<std::byte> quantized(const std::vector<float>& x, size_t n_tokens, size_t k) {
  std::vector<std::byte> bytes(n_tokens * q8_row_bytes(k));
  for (size_t t = 0; t < n_tokens; ++t) {
    reference::kTable.quantize_activations(x.data() + t * k, bytes.data() + t * q8_row_bytes(k), k);
  }
  return bytes;
}

}  // namespace troika::kernels
