#include "lanes/vendor/product_graph.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <map>
#include <new>
#include <random>
#include <set>
#include <vector>

#include "lanes/vendor/test_support.h"
#include "tensor/half.h"

namespace troika::lanes::openvino {
namespace {

TEST(OpenVino, AnAbsentLibraryIsASentence) {
  try {
    const Library library("/nonexistent/folder", {});
    FAIL() << "no error";
  } catch (const Error& error) {
    const std::string problem = error.what();
#ifdef TROIKA_STATIC
    EXPECT_NE(problem.find("one static file"), std::string::npos) << problem;
#else
    EXPECT_NE(problem.find("TROIKA_OPENVINO"), std::string::npos) << problem;
#endif
  }
}

TEST(OpenVino, AnotherMajorVersionIsASentence) {
  EXPECT_NO_THROW(check_version("2026.4.1-22982-b13ec1a73f4"));
  for (const char* other : {"2025.1.0-1", "2027.0.0", "1", "", "custom"}) {
    EXPECT_THROW(check_version(other), Error) << other;
  }
}

TEST(OpenVino, AnAbsentDeviceIsASentenceThatListsThoseThatAreThere) {
  const FoundLibrary found = find_library();
  if (found.library == nullptr) GTEST_SKIP() << found.problem;
  try {
    found.library->check_device("SIDEBOARD");
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("CPU"), std::string::npos) << error.what();
  }
}

// What the device of a made-up library says of itself.
std::map<std::string, std::string> told_properties;

Status give_property(const Core*, const char*, const char* key, char** value) {
  const auto at = told_properties.find(key);
  if (at == told_properties.end()) return -1;
  *value = strdup(at->second.c_str());
  return kOk;
}

// Makes a library that knows what a device is and has memory for weights, and nothing else.
Api made_up_library() {
  Api api = {};
  api.get_version = [](Version* version) {
    *version = {"2026.4.1", ""};
    return kOk;
  };
  api.free_version = [](Version*) {};
  api.last_error = []() -> const char* { return nullptr; };
  api.create_core = [](Core**) { return kOk; };
  api.free_core = [](Core*) {};
  api.get_property = give_property;
  api.free_text = [](const char* text) { std::free(const_cast<char*>(text)); };
  api.read_model = [](const Core*, const char*, size_t, const Tensor*, Model**) { return kOk; };
  api.free_model = [](Model*) {};
  api.model_input = [](const Model*, size_t, Port**) { return kOk; };
  api.port_type = [](const Port*, ElementType* type) {
    *type = 1;
    return kOk;
  };
  api.free_port = [](Port*) {};
  api.create_tensor = [](ElementType, Shape shape, Tensor** tensor) {
    *tensor = static_cast<Tensor*>(std::malloc(static_cast<size_t>(*shape.sizes)));
    return kOk;
  };
  api.tensor_data = [](const Tensor* tensor, void** address) {
    *address = const_cast<Tensor*>(tensor);
    return kOk;
  };
  api.free_tensor = [](Tensor* tensor) { std::free(tensor); };
  return api;
}

// Counts texts of a made-up library that were given and not freed.
int n_texts = 0;

// OpenVINO gives each message as a copy of its own, and none for some failures.
TEST(OpenVino, AFailureWithoutAMessageIsASentenceTooAndMessagesAreFreed) {
  const auto problem_of = [](const Library& library) -> std::string {
    try {
      library.check(-7, "The device does not start");
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  };
  const Library silent(made_up_library());
  EXPECT_EQ(silent.problem(), "it gives no reason");
  EXPECT_TRUE(problem_of(silent).starts_with(
      "The device does not start: it gives no reason (status -7). Leave"))
      << problem_of(silent);
  Api api = made_up_library();
  api.last_error = []() -> const char* {
    ++n_texts;
    return strdup("It has\nno power.");
  };
  api.free_text = [](const char* text) {
    --n_texts;
    std::free(const_cast<char*>(text));
  };
  const Library telling(api);
  EXPECT_EQ(telling.problem(), "It has no power");
  EXPECT_TRUE(problem_of(telling).starts_with(
      "The device does not start: It has no power (status -7). Leave"))
      << problem_of(telling);
  EXPECT_EQ(n_texts, 0);
}

// The message is OpenVINO's own here, and the next failure has none: its core is gone.
TEST(OpenVino, ALibraryWhoseMessageIsGoneIsASentence) {
  const FoundLibrary found = find_library();
  if (found.library == nullptr) GTEST_SKIP() << found.problem;
  const Api& api = found.library->api();
  Model* model = nullptr;
  EXPECT_NE(api.read_model(found.library->core(), "no graph", 8, nullptr, &model), kOk);
  EXPECT_NE(found.library->problem(), "it gives no reason");
  Core* other = nullptr;
  ASSERT_EQ(api.create_core(&other), kOk);
  api.free_core(other);
  EXPECT_EQ(found.library->problem(), "it gives no reason");
  EXPECT_THROW(found.library->check(-1, "A call"), Error);
}

// Counts tensors of a made-up library that were made and not freed.
int n_tensors = 0;

TEST(OpenVino, AWeightThatCannotBeWrittenTakesNoMemory) {
  Api api = made_up_library();
  api.create_tensor = [](ElementType, Shape shape, Tensor** tensor) {
    ++n_tensors;
    *tensor = static_cast<Tensor*>(std::malloc(static_cast<size_t>(*shape.sizes)));
    return kOk;
  };
  api.free_tensor = [](Tensor* tensor) {
    --n_tensors;
    std::free(tensor);
  };
  const auto library = std::make_shared<Library>(api);
  const auto write = [](std::byte*) { throw std::bad_alloc(); };
  EXPECT_THROW(ProductWeights(library, {0, 3, 2}, write), std::bad_alloc);
  EXPECT_EQ(n_tensors, 0);
}

// Drivers change without OpenVINO. Generations of an NPU share a name.
TEST(OpenVino, AnotherDeviceOrDriverHasAnotherIdentityAndKey) {
  const auto library = std::make_shared<Library>(made_up_library());
  const ProductWeights weights(library, {0, 3, 2},
                               [](std::byte* to) { std::fill_n(to, 6, std::byte{1}); });
  std::set<std::string> identities;
  std::set<uint64_t> keys;
  size_t n = 0;
  for (const auto& [key, value] : {std::pair{"FULL_DEVICE_NAME", "Boost"},
                                   {"FULL_DEVICE_NAME", "Arc"},
                                   {"DEVICE_ARCHITECTURE", "3720"},
                                   {"DEVICE_ARCHITECTURE", "4000"},
                                   {"GPU_DRIVER_VERSION", "24.35"},
                                   {"GPU_DRIVER_VERSION", "24.39"},
                                   {"NPU_DRIVER_VERSION", "1001"},
                                   {"NPU_DRIVER_VERSION", "1002"},
                                   {"NPU_COMPILER_VERSION", "7"}}) {
    told_properties[key] = value;
    identities.insert(library->identity("NPU"));
    keys.insert(blob_key(*library, "NPU", "text", weights));
    ++n;
    EXPECT_EQ(identities.size(), n) << key << " " << value;
    EXPECT_EQ(keys.size(), n) << key << " " << value;
  }
  told_properties.clear();
  EXPECT_EQ(library->identity("NPU"), "NPU by OpenVINO 2026.4.1");
}

// Returns sums that are computed in whole numbers and turned into floats once.
std::vector<float> sums(const ProductShape& shape, const std::vector<uint8_t>& x,
                        const std::vector<int8_t>& w) {
  const auto n_tokens = static_cast<size_t>(shape.n_tokens), k = static_cast<size_t>(shape.k);
  const auto n_rows = static_cast<size_t>(shape.n_rows);
  std::vector<float> y;
  for (size_t t = 0; t < n_tokens; ++t) {
    for (size_t r = 0; r < n_rows; ++r) {
      int32_t sum = 0;
      for (size_t i = 0; i < k; ++i) sum += (x[t * k + i] - 128) * w[r * k + i];
      y.push_back(static_cast<float>(sum));
    }
  }
  return y;
}

TEST(OpenVino, AProductHasTheSumsOfWholeNumbers) {
  const FoundLibrary found = find_library();
  if (found.library == nullptr) GTEST_SKIP() << found.problem;
  const int most_sum = most_exact_sum(found.library, "CPU");
  std::mt19937 random(1);
  const auto level = [&] { return static_cast<int>(random() % 255) - 127; };
  for (const ProductShape& shape : {ProductShape{1, 32, 16},
                                    {5, 150, 7},
                                    {33, 257, 70},
                                    {16, 4864, 48},
                                    {3, 11008, 20},
                                    {3, 20000, 1}}) {
    // With levels up to this one, no sum can exceed what the device adds exactly.
    const int most = std::min(127, most_sum / 127 / shape.k);
    for (const bool is_extreme : {false, true}) {
      std::vector<uint8_t> x(static_cast<size_t>(shape.n_tokens * shape.k));
      std::vector<int8_t> w(static_cast<size_t>(shape.n_rows * shape.k));
      for (size_t i = 0; i < x.size(); ++i) {
        x[i] = static_cast<uint8_t>(is_extreme ? (i / 7 % 2 == 0 ? 255 : 1) : level() + 128);
      }
      for (size_t i = 0; i < w.size(); ++i) {
        const int extreme = i / 7 % 2 == 0 ? most : -most;
        w[i] = static_cast<int8_t>(is_extreme ? extreme : level() % (most + 1));
      }
      const ProductWeights weights(found.library, shape,
                                   [&](std::byte* to) { std::memcpy(to, w.data(), w.size()); });
      ProductGraph graph(found.library, "CPU", weights, shape.n_tokens);
      std::vector<float> y(static_cast<size_t>(shape.n_tokens * shape.n_rows), -1.0f);
      ASSERT_TRUE(graph.run(x.data(), y.data())) << found.library->problem();
      EXPECT_EQ(y, sums(shape, x, w))
          << shape.n_tokens << " x " << shape.n_rows << " x " << shape.k << " " << is_extreme;
      // Buffers at other addresses give the same result.
      std::vector<uint8_t> x2 = x;
      std::vector<float> y2(y.size());
      ASSERT_TRUE(graph.run(x2.data(), y2.data())) << found.library->problem();
      EXPECT_EQ(y2, y);
    }
  }
}

// A device that rounds sums is noticed.
TEST(OpenVino, SumsThatARoundingDeviceWouldMakeAreSeen) {
  const ProductShape shape = {5, 2000, 40};
  std::mt19937 random(3);
  std::vector<int8_t> w(static_cast<size_t>(shape.k) * 40);
  for (int8_t& level : w) level = static_cast<int8_t>(static_cast<int>(random() % 255) - 127);
  std::vector<uint8_t> x(static_cast<size_t>(shape.k) * 5);
  fill_extremes(shape, w, x.data());
  std::vector<float> y = sums(shape, x, w);
  EXPECT_TRUE(has_exact_sums(shape, w, x.data(), y.data()));
  // The last token and row are wrong: devices may compute them otherwise than the first ones.
  std::vector<float> wrong = y;
  wrong.back() += 1.0f;
  EXPECT_FALSE(has_exact_sums(shape, w, x.data(), wrong.data()));
  for (float& sum : y) sum = std::nearbyint(sum / 256) * 256;  // keeps 16 bits of so large a number
  EXPECT_FALSE(has_exact_sums(shape, w, x.data(), y.data()));
  // Below, sums are made as by a device that adds pairs of products and stops at the end of 16
  // bits.
  size_t at = 0;
  for (size_t t = 0; t < 5; ++t) {
    for (size_t r = 0; r < 40; ++r) {
      int sum = 0;
      for (size_t i = 0; i < 2000; i += 2) {
        const auto product = [&](size_t j) { return x[t * 2000 + j] * w[r * 2000 + j]; };
        sum += std::clamp(product(i) + product(i + 1), -32768, 32767);
        sum -= 128 * (w[r * 2000 + i] + w[r * 2000 + i + 1]);
      }
      y[at++] = static_cast<float>(sum);
    }
  }
  EXPECT_FALSE(has_exact_sums(shape, w, x.data(), y.data()));
}

std::vector<uint16_t> bf16_numbers(size_t n, unsigned seed, float size) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.0f, size);
  std::vector<uint16_t> numbers(n);
  for (uint16_t& number : numbers) number = tensor::f32_to_bf16(normal(random));
  return numbers;
}

// Products of numbers in bf16 are exact in double.
TEST(OpenVino, H13_AProductInBf16HasFloatSums) {
  const FoundLibrary found = find_library();
  if (found.library == nullptr) GTEST_SKIP() << found.problem;
  constexpr double kBound = 3e-6;  // relative to the sum of magnitudes
  for (const auto& [n_tokens, k, n_rows] :
       {std::array{1, 32, 16}, {5, 150, 7}, {33, 257, 70}, {16, 4864, 48}, {3, 20000, 1}}) {
    const ProductShape shape = {n_tokens, k, n_rows, ProductKind::kBf16};
    const auto n = static_cast<size_t>(k);
    std::vector<uint16_t> x = bf16_numbers(n * static_cast<size_t>(n_tokens), 1, 1.0f);
    const std::vector<uint16_t> w = bf16_numbers(n * static_cast<size_t>(n_rows), 2, 0.05f);
    const ProductWeights weights(found.library, shape, [&](std::byte* to) {
      std::memcpy(to, w.data(), w.size() * sizeof(uint16_t));
    });
    ProductGraph graph(found.library, "CPU", weights, n_tokens);
    std::vector<float> y(static_cast<size_t>(n_tokens * n_rows), -1.0f);
    ASSERT_TRUE(graph.run(x.data(), y.data())) << found.library->problem();
    for (size_t i = 0; i < y.size(); ++i) {
      const uint16_t* const xi = x.data() + i / static_cast<size_t>(n_rows) * n;
      const uint16_t* const wi = w.data() + i % static_cast<size_t>(n_rows) * n;
      double sum = 0.0, size = 0.0;
      for (size_t j = 0; j < n; ++j) {
        const double product = double{tensor::bf16_to_f32(xi[j])} * tensor::bf16_to_f32(wi[j]);
        sum += product;
        size += std::fabs(product);
      }
      ASSERT_LE(std::fabs(y[i] - sum), kBound * size) << k << ", " << i;
    }
  }
}

// The sums are those of devices that are not what they should be.
TEST(OpenVino, H13_FloatSumsAreJudged) {
  for (const auto& [n_tokens, k, n_rows] : {std::array{1, 31, 1}, {9, 2000, 71}, {2, 64, 32}}) {
    const ProductShape shape = {n_tokens, k, n_rows, ProductKind::kBf16};
    const auto n = static_cast<size_t>(k), rows = static_cast<size_t>(n_rows);
    std::vector<uint16_t> x(n * static_cast<size_t>(n_tokens));
    fill_bf16(shape, x.data());
    const std::vector<uint16_t> w = bf16_numbers(n * rows, 4, 1.0f);
    std::vector<float> exact(rows * static_cast<size_t>(n_tokens));
    for (size_t i = 0; i < exact.size(); ++i) {
      double sum = 0.0;
      for (size_t j = 0; j < n; ++j) {
        sum += double{tensor::bf16_to_f32(x[i / rows * n + j])} *
               tensor::bf16_to_f32(w[i % rows * n + j]);
      }
      exact[i] = static_cast<float>(sum);
    }
    EXPECT_TRUE(has_near_sums(shape, w, x.data(), exact.data()));
    // The last token and row are wrong: devices may compute them otherwise than the first ones.
    std::vector<float> wrong = exact;
    wrong.back() += 0.2f * std::fabs(wrong.back()) + 1e3f;
    EXPECT_FALSE(has_near_sums(shape, w, x.data(), wrong.data()));
    // A device that keeps nothing but bf16 rounds them so.
    for (float& sum : exact) sum = tensor::bf16_to_f32(tensor::f32_to_bf16(sum));
    EXPECT_TRUE(has_near_sums(shape, w, x.data(), exact.data()));
  }
}

TEST(OpenVino, AProductThatCannotBeIsRefusedWithASentence) {
  const FoundLibrary found = find_library();
  if (found.library == nullptr) GTEST_SKIP() << found.problem;
  const ProductWeights weights(found.library, {0, 3, 2},
                               [](std::byte* to) { std::fill_n(to, 6, std::byte{1}); });
  EXPECT_THROW(ProductGraph(found.library, "CPU", weights, -4), Error);
  EXPECT_THROW(ProductGraph(found.library, "SIDEBOARD", weights, 4), Error);
}

}  // namespace
}  // namespace troika::lanes::openvino
