// Compares kernels that need an extension of a device with those that need none. Where the device
// lacks an extension, plain arithmetic stands in for its functions.
#include "lanes/opencl/variants.h"

#include <gtest/gtest.h>

#include "kernels/choose.h"
#include "lanes/opencl/test_support.h"

namespace troika::lanes::opencl {
namespace {

using plan::Activations;
using plan::Prefill;
using tensor::Type;

constexpr int kTokens = SmallGraph::kMostTokens;

// What was measured with some extensions is not taken for others' times.
TEST(Variants, ALaneWithOtherExtensionsThanThoseOfItsDeviceHasAnotherIdentity) {
  DeviceEntry bare, able;
  able.has_dots = able.has_halves = true;
  const auto identity = [](const DeviceEntry& entry, Extensions extensions) {
    DeviceOptions options;
    options.extensions = extensions;
    return Variants(entry, options).identity();
  };
  EXPECT_EQ(identity(able, Extensions::kOfDevice), "");
  EXPECT_EQ(identity(able, Extensions::kEmulated), "");
  EXPECT_EQ(identity(able, Extensions::kNone),
            ", without integer dot products, without half floats");
  EXPECT_EQ(identity(bare, Extensions::kOfDevice), "");
  EXPECT_EQ(identity(bare, Extensions::kNone), "");
  EXPECT_EQ(identity(bare, Extensions::kEmulated),
            ", with emulated integer dot products, with emulated half floats");
}

// A single product, with activations that a test chooses.
struct OneProduct {
  OneProduct(Type type, int k, int n_rows) : graph(type), k(k), n_rows(n_rows) {
    graph.add_value(k);
    graph.add_value(n_rows);
    graph.add_op(model::OpKind::kLinear, {0}, 1, graph.add_matrix(n_rows, k));
  }
  // Makes all weights equal.
  void set_weights(float value) {
    const weights::Matrix& matrix = graph.store().matrix(0);
    const std::vector<float> row(static_cast<size_t>(k), value);
    for (size_t i = 0; i < static_cast<size_t>(n_rows); ++i) {
      tensor::quantize_row(matrix.type, row.data(),
                           const_cast<std::byte*>(matrix.data) + i * matrix.row_bytes, row.size());
    }
  }
  // Returns the product, (n_tokens, n_rows), in an executable for prompts, with some rows or all.
  std::vector<float> on(Lane& lane, const std::vector<float>& x, Range rows = {}) {
    GraphRun run(lane, graph);
    const int n_tokens = static_cast<int>(x.size()) / k;
    Subgraph subgraph = graph.subgraph();
    subgraph.slice.columns = {rows};
    const auto executable =
        lane.build(subgraph, {plan::Phase::kPrompt, n_tokens}, graph.store(), run.buffers());
    std::copy(x.begin(), x.end(), run.buffers().view(0, 0).floats());
    const lanes::Run arguments = run.arguments(plan::Phase::kPrompt, n_tokens, 0);
    lanes::Ended ended;
    lane.submit(*executable, arguments, ended);
    ended.latch.wait();
    EXPECT_EQ(ended.status, Status::kDone) << lane.problem();
    const float* const y = run.buffers().view(1, 0).floats();
    return {y, y + static_cast<size_t>(n_tokens) * static_cast<size_t>(n_rows)};
  }

  SmallGraph graph;
  int k, n_rows;
};

// Expects that a token has the same bits whatever goes together with it, and that rows of a product
// have those of the whole.
void expect_same_bits_in_any_company(Lane& lane, Type type, const std::string& name) {
  OneProduct product(type, 512, 150);
  const std::vector<float> x = random_floats(size_t{kTokens} * 512, 3);
  const std::vector<float> whole = product.on(lane, x);
  for (const size_t n : {13, 8, 4, 3, 2, 1}) {
    const auto part = product.on(lane, {x.begin(), x.begin() + static_cast<long>(n * 512)});
    EXPECT_TRUE(std::equal(part.begin(), part.end(), whole.begin())) << n << " tokens, " << name;
  }
  const auto rows = product.on(lane, x, {48, 150});
  for (size_t i = 0; i < rows.size(); ++i) {
    ASSERT_TRUE(i % 150 < 48 || rows[i] == whole[i]) << i << " " << name;
  }
}

class OpenclVariants : public testing::Test {
 protected:
  OpenclVariants() : kernels_(kernels::choose(detect_cpu_features())) {}

  void SetUp() override {
    found_ = find_device();
    if (found_.device == nullptr) GTEST_SKIP() << found_.problem;
  }

  std::unique_ptr<OpenclLane> device(Prefill prefill, Extensions extensions,
                                     const Int8Rules* rules = nullptr, bool is_like_gpu = false) {
    DeviceOptions options = found_.options;
    options.extensions = extensions;
    options.is_like_gpu = is_like_gpu;
    const OpenclPrecision precision = {Activations::kF32, prefill, Type::kF16, rules};
    return std::make_unique<OpenclLane>(found_.device, options, kernels_.table, precision);
  }
  // Expects the bits of cores in every variant, for several numbers of tokens and for slices.
  void expect_bits_of_cores(SmallGraph& graph, const Int8Rules* rules) {
    HostLane host(kernels_.table, plan::PlannedLane{{}, 1}, Activations::kF32, Prefill::kInt8,
                  rules);
    GraphRun on_host(host, graph);
    for (const auto& [extensions, is_like_gpu] : {std::pair{Extensions::kOfDevice, false},
                                                  {Extensions::kNone, false},
                                                  {Extensions::kEmulated, false},
                                                  {Extensions::kNone, true},
                                                  {Extensions::kEmulated, true}}) {
      const auto lane = device(Prefill::kInt8, extensions, rules, is_like_gpu);
      GraphRun on_device(*lane, graph);
      const auto compare = [&](const Subgraph& subgraph, int n_built, int n_tokens) {
        const plan::Shape shape = {plan::Phase::kPrompt, n_built};
        EXPECT_TRUE(on_device.values(subgraph, shape, n_tokens, 1) ==
                    on_host.values(subgraph, shape, n_tokens, 1))
            << lane->note() << ", " << n_tokens << " of " << n_built;
      };
      for (const int n : {kTokens, 8, 5, 2, 1}) compare(graph.subgraph(), n, n);
      compare(graph.subgraph(), kTokens, 11);
      Subgraph part = graph.subgraph();
      part.slice.columns.assign(part.ops.size(), {});
      part.slice.columns[1] = {16, 48};
      compare(part, kTokens, kTokens);
      part = graph.subgraph();
      part.slice.tokens = {6, 17};
      compare(part, kTokens, kTokens);
    }
  }

  kernels::Kernels kernels_;
  FoundDevice found_;
};

// Lengths that are no multiple of four are filled with zeros, rows with strips that are not full.
TEST_F(OpenclVariants, IntegerDotProductsHaveTheBitsOfCores) {
  for (const auto& [type, width, middle] :
       {std::tuple{Type::kF32, 150, 71}, {Type::kF32, 33, 50}, {Type::kQ4_K, 2304, 256}}) {
    SmallGraph graph = SmallGraph::block(type, width, middle);
    const model::WeightId packed[] = {2, 4}, all[] = {2, 3, 4};
    graph.store().pack_int8(packed, 1);
    graph.store().measure_int8(all, 1);
    expect_bits_of_cores(graph, nullptr);
  }
}

TEST_F(OpenclVariants, IntegerDotProductsOfOneScaleForAllTokensHaveTheBitsOfCores) {
  SmallGraph graph = SmallGraph::block(Type::kF32, 150, 71);
  const model::WeightId all[] = {2, 3, 4};
  graph.store().pack_int8(all, 1, {}, {true, {}});
  const std::vector<float> factors = random_floats(150, 8);
  Int8Rule rule;
  rule.kind = Int8Rule::Kind::kLimit;
  rule.range = {1.5f, true};
  rule.factors = factors.data();
  const Int8Rules rules(5, rule);
  expect_bits_of_cores(graph, &rules);
}

// Sums of the largest levels in all places are the largest of rows of this length.
TEST_F(OpenclVariants, IntegerDotProductsOfTheLargestLevelsAreExact) {
  constexpr int kK = 8192;
  OneProduct product(Type::kF32, kK, 17);
  product.set_weights(-0.25f);
  const model::WeightId all[] = {0};
  product.graph.store().measure_int8(all, 1);
  std::vector<float> x(size_t{3} * kK, 3.0f);
  std::fill(x.begin() + kK, x.end(), -3.0f);
  HostLane host(kernels_.table, plan::PlannedLane{{}, 1}, Activations::kF32, Prefill::kInt8);
  const std::vector<float> expected = product.on(host, x);
  EXPECT_NEAR(expected[0], -0.25f * 3.0f * kK, 1.0f);
  EXPECT_NEAR(expected[2 * 17 + 16], 0.25f * 3.0f * kK, 1.0f);
  for (const Extensions extensions : {Extensions::kNone, Extensions::kEmulated}) {
    EXPECT_TRUE(product.on(*device(Prefill::kInt8, extensions), x) == expected);
  }
}

// Halves have 11 bits: the largest of 32 sums of each group is rounded to these.
constexpr float kHalfBound = 2e-3f;

TEST_F(OpenclVariants, H13HalvesAreNearFloatsAndOfPromptsOnly) {
  const auto in_floats = device(Prefill::kF32, Extensions::kEmulated);
  const auto in_halves = device(Prefill::kF16, Extensions::kEmulated);
  for (const Type type :
       {Type::kBF16, Type::kQ4_0, Type::kQ8_0, Type::kQ5_1, Type::kQ4_K, Type::kQ6_K}) {
    SmallGraph graph = SmallGraph::block(type, 256, 512);
    GraphRun floats(*in_floats, graph), halves(*in_halves, graph);
    const char* const name = tensor::type_name(type);
    for (const int n : {kTokens, 5}) {
      const plan::Shape prompt = {plan::Phase::kPrompt, n}, step = {plan::Phase::kStep, n};
      const auto expected = floats.values(graph.subgraph(), prompt, n, 1);
      const auto found = halves.values(graph.subgraph(), prompt, n, 1);
      EXPECT_LE(difference(expected, found), kHalfBound) << name;
      // Weights that are floats need not fit halves, and are multiplied as floats.
      EXPECT_EQ(found == expected, tensor::is_float(type)) << name;
      EXPECT_TRUE(halves.values(graph.subgraph(), step, n, 1) == expected) << name;
    }
  }
}

TEST_F(OpenclVariants, H13ATokenHasTheSameBitsInAnyCompanyInHalves) {
  for (const Type type : {Type::kQ4_0, Type::kQ4_K, Type::kQ6_K}) {
    const auto lane = device(Prefill::kF16, Extensions::kEmulated);
    expect_same_bits_in_any_company(*lane, type, tensor::type_name(type));
  }
}

// A group's activations are brought to 1 by a power of two, so that their size makes no difference.
TEST_F(OpenclVariants, H13HalvesTakeActivationsOfAnySize) {
  for (const Type type : {Type::kQ4_0, Type::kQ8_0}) {
    OneProduct product(type, 256, 35);
    const auto lane = device(Prefill::kF16, Extensions::kEmulated);
    std::vector<float> x = random_floats(size_t{3} * 256, 3);
    const std::vector<float> expected = product.on(*lane, x);
    for (const int power : {-60, -20, 15, 60}) {
      std::vector<float> scaled = x, wanted = expected;
      for (float& value : scaled) value = std::ldexp(value, power);
      for (float& value : wanted) value = std::ldexp(value, power);
      EXPECT_TRUE(product.on(*lane, scaled) == wanted) << power;
    }
    // One token has an outlier, one is tiny, one is zero.
    const auto in_floats = device(Prefill::kF32, Extensions::kEmulated);
    x[17] = 3e4f;
    for (size_t i = 256; i < 512; ++i) x[i] *= 1e-6f;
    std::fill(x.begin() + 512, x.end(), 0.0f);
    const auto floats = product.on(*in_floats, x), halves = product.on(*lane, x);
    for (size_t t = 0; t < 3; ++t) {
      const auto row = [&](const std::vector<float>& y) {
        const auto begin = y.begin() + static_cast<long>(t * 35);
        return std::vector<float>(begin, begin + 35);
      };
      EXPECT_LE(difference(row(floats), row(halves)), kHalfBound) << t;
    }
  }
}

TEST_F(OpenclVariants, H13SumsOfTheLargestLevelsFitHalves) {
  for (const Type type : {Type::kQ4_0, Type::kQ8_0, Type::kQ6_K, Type::kQ4_K}) {
    OneProduct product(type, 256, 17);
    product.set_weights(1.0f);
    const std::vector<float> x(256, 0.999f);
    const auto floats = product.on(*device(Prefill::kF32, Extensions::kEmulated), x);
    const auto halves = product.on(*device(Prefill::kF16, Extensions::kEmulated), x);
    EXPECT_LE(difference(floats, halves), 5e-3f) << tensor::type_name(type);
  }
}

TEST_F(OpenclVariants, H13WhatIsNoNumberStaysNoneInHalves) {
  OneProduct product(Type::kQ4_K, 256, 35);
  const auto lane = device(Prefill::kF16, Extensions::kEmulated);
  std::vector<float> x = random_floats(size_t{3} * 256, 3);
  const std::vector<float> expected = product.on(*lane, x);
  for (const float none : {std::nanf(""), INFINITY, -INFINITY}) {
    x[256 + 40] = none;
    const std::vector<float> found = product.on(*lane, x);
    for (size_t i = 0; i < found.size(); ++i) {
      const bool is_hit = i / 35 == 1;
      EXPECT_EQ(std::isfinite(found[i]), !is_hit) << none << " " << i;
      EXPECT_TRUE(is_hit || found[i] == expected[i]) << i;
    }
  }
}

TEST_F(OpenclVariants, H13HalvesThatADeviceDoesNotHaveAreASentence) {
  const auto problem_of = [](auto body) -> std::string {
    try {
      body();
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  };
  const std::string problem = problem_of([&] { device(Prefill::kF16, Extensions::kNone); });
  EXPECT_NE(problem.find("half floats"), std::string::npos) << problem;
  EXPECT_NE(problem.find("‹prefill› f32"), std::string::npos) << problem;
  HostLane host(kernels_.table, plan::PlannedLane{{}, 1}, Activations::kF32, Prefill::kF16);
  OneProduct product(Type::kQ4_0, 256, 35);
  const std::string on_cores = problem_of([&] { product.on(host, std::vector<float>(256, 1.0f)); });
  EXPECT_NE(on_cores.find("Only OpenCL devices"), std::string::npos) << on_cores;
}

TEST_F(OpenclVariants, ALaneSaysHowItMultipliesPrompts) {
  const auto note = [&](Prefill prefill, Extensions extensions) {
    return device(prefill, extensions)->note();
  };
  EXPECT_NE(note(Prefill::kInt8, Extensions::kNone).find("in floats that hold whole numbers"),
            std::string::npos);
  EXPECT_NE(note(Prefill::kInt8, Extensions::kEmulated).find("integer dot products"),
            std::string::npos);
  for (const Type type : {Type::kQ4_0, Type::kF16}) {
    const auto lane = device(Prefill::kF16, Extensions::kEmulated);
    OneProduct product(type, 256, 35);
    (void)product.on(*lane, std::vector<float>(256, 1.0f));
    const char* const how = type == Type::kQ4_0 ? "in emulated half floats" : "in floats, as no";
    EXPECT_NE(lane->note().find(how), std::string::npos) << lane->note();
  }
  EXPECT_EQ(note(Prefill::kF32, Extensions::kEmulated).find("multiplied"), std::string::npos);
  // A lane that has no product of prompts says nothing of them, and of no weight.
  EXPECT_EQ(note(Prefill::kF16, Extensions::kEmulated).find("multiplied"), std::string::npos);
}

TEST_F(OpenclVariants, KernelsForGpusAreNearThoseForCores) {
  const auto for_cores = device(Prefill::kF32, Extensions::kNone);
  const auto for_gpus = device(Prefill::kF32, Extensions::kNone, nullptr, true);
  for (const Type type : {Type::kF32, Type::kF16, Type::kBF16, Type::kQ4_0, Type::kQ4_K}) {
    const bool is_odd = tensor::is_float(type);
    SmallGraph graph = SmallGraph::block(type, is_odd ? 150 : 256, is_odd ? 71 : 512);
    GraphRun cores(*for_cores, graph), gpus(*for_gpus, graph);
    for (const int n : {kTokens, 5, 1}) {
      const plan::Shape step = {plan::Phase::kStep, n};
      EXPECT_LE(difference(cores.values(graph.subgraph(), step, n, 1),
                           gpus.values(graph.subgraph(), step, n, 1)),
                2e-6f)
          << tensor::type_name(type) << ", " << n << " tokens";
    }
  }
}

TEST_F(OpenclVariants, ATokenHasTheSameBitsInAnyCompanyOnAGpu) {
  for (const Type type : {Type::kF32, Type::kQ4_K, Type::kQ6_K}) {
    const auto lane = device(Prefill::kF32, Extensions::kEmulated, nullptr, true);
    expect_same_bits_in_any_company(*lane, type, tensor::type_name(type));
  }
}

TEST_F(OpenclVariants, H13HalvesOnAGpuAreNearFloatsAndTheSameInAnyCompany) {
  for (const Type type : {Type::kQ4_0, Type::kQ4_K}) {
    const auto in_floats = device(Prefill::kF32, Extensions::kEmulated, nullptr, true);
    const auto in_halves = device(Prefill::kF16, Extensions::kEmulated, nullptr, true);
    expect_same_bits_in_any_company(*in_halves, type, tensor::type_name(type));
    OneProduct product(type, 512, 150);
    const std::vector<float> x = random_floats(size_t{kTokens} * 512, 3);
    EXPECT_LE(difference(product.on(*in_floats, x), product.on(*in_halves, x)), kHalfBound);
  }
}

DeviceOptions options_of(Extensions extensions) {
  DeviceOptions options;
  options.extensions = extensions;
  return options;
}

TEST(OpenclVariantsOf, AGpuShareGroupsOfFloatsAmongWorkItems) {
  DeviceEntry gpu, small_gpu, narrow_gpu, cores;
  gpu.most_group_items = narrow_gpu.most_group_items = 256;
  gpu.most_group_side = small_gpu.most_group_side = 64;
  narrow_gpu.most_group_side = 1;
  small_gpu.most_group_items = 12;
  cores.is_cpu = true;
  PanelForm floats, exact;
  exact.is_exact = true;
  const DeviceOptions options;
  EXPECT_GT(Variants(gpu, options).split(floats), 1u);
  EXPECT_EQ(Variants(gpu, options).split(exact), 1u);
  EXPECT_EQ(Variants(small_gpu, options).split(floats), 1u);
  EXPECT_EQ(Variants(narrow_gpu, options).split(floats), 1u);
  EXPECT_LT(Variants(small_gpu, options).piece_rows(), kStripRows);
  EXPECT_EQ(Variants(cores, options).split(floats), 1u);
  EXPECT_EQ(Variants(cores, options).piece_rows(), kStripRows);
}

TEST(OpenclVariantsOf, TheDeviceAreThoseItHasExtensionsFor) {
  DeviceEntry with, without;
  with.has_dots = true;
  const auto quads = [](const DeviceEntry& entry, Extensions extensions) {
    return Variants(entry, options_of(extensions)).has_quads();
  };
  EXPECT_TRUE(quads(with, Extensions::kOfDevice));
  EXPECT_FALSE(quads(with, Extensions::kNone));
  EXPECT_FALSE(quads(without, Extensions::kOfDevice));
  EXPECT_TRUE(quads(without, Extensions::kEmulated));
  // What the device has is not emulated.
  PanelForm form;
  form.levels = PanelForm::Levels::kQuads;
  const auto options = [&](const DeviceEntry& entry) {
    return Variants(entry, options_of(Extensions::kEmulated)).options(form);
  };
  EXPECT_TRUE(options(with).starts_with("-cl-std=CL3.0 -DDOT=dot_4x8packed_ss_int "));
  EXPECT_EQ(options(without).find("packed"), std::string::npos);
}

}  // namespace
}  // namespace troika::lanes::opencl
