// Compares the lane of a vendor's runtime with that of cores: results are equal to the bit in int8
// and near in bf16, or the lane refuses in a sentence.
#include "lanes/vendor/vendor_lane.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "base/atomic_file.h"
#include "kernels/choose.h"
#include "lanes/host/test_support.h"
#include "lanes/machine.h"
#include "lanes/vendor/test_support.h"
#include "tests/support/temp_folder.h"

namespace troika::lanes {
namespace {

constexpr int kMiddle = 71, kSmall = 23, kMost = 37;

// The second half of a block: a norm, gate and up of one activation, an odd product with a bias,
// and down.
class SmallBlock {
 public:
  // Extreme weights give the gate only the levels 127 and -127.
  explicit SmallBlock(int width = 150, bool is_extreme = false) : width_(width) {
    model::Blueprint& b = blueprint_;
    b.values = {{"x", width_, false},   {"normed", width_, false}, {"gate", kMiddle, false},
                {"up", kMiddle, false}, {"y", width_, false},      {"odd", kSmall, false}};
    add_matrix("gate.weight", kMiddle, width_, 0.05f);
    add_matrix("up.weight", kMiddle, width_, 0.05f);
    add_matrix("odd.weight", kSmall, width_, 3.0f);
    add_matrix("down.weight", width_, kMiddle, 1e-4f);
    add_vector("norm.weight", width_);
    add_vector("odd.bias", kSmall);
    add_op(model::OpKind::kRmsNorm, {0}, 1, 4);
    b.ops.back().eps = 1e-5f;
    add_op(model::OpKind::kLinear, {1}, 2, 0);
    add_op(model::OpKind::kLinear, {1}, 3, 1);
    add_op(model::OpKind::kLinear, {1}, 5, 2);
    b.ops.back().bias = 5;
    add_op(model::OpKind::kGate, {2, 3}, 2, model::kNone);
    add_op(model::OpKind::kLinear, {2}, 4, 3);
    add_op(model::OpKind::kAdd, {4, 0}, 0, model::kNone);
    if (is_extreme) {
      for (float& w : floats_[0]) w = w < 0 ? -0.5f : 0.5f;
      std::fill_n(floats_[0].begin(), width, 0.5f);
    }
    store_ = std::make_unique<weights::Store>(b, std::move(constants_));
    buffers_ = std::make_unique<Buffers>(b, kMost, 1, true, 2);
  }

  // Packs copies of some matrices; the others are unpacked from their rows.
  void pack(const std::vector<model::WeightId>& packed, const weights::Int8Packing& packing = {}) {
    store_->pack_int8(packed, 1, {}, packing);
    if (!packing.is_plain()) return;
    const model::WeightId all[] = {0, 1, 2, 3};
    store_->measure_int8(all, 1);
  }

  Subgraph subgraph() const { return {&blueprint_, blueprint_.ops, "ffn"}; }
  const weights::Store& store() const { return *store_; }
  const Buffers& buffers() const { return *buffers_; }

  void fill(int set) {
    const std::vector<float> x = random_floats(size_t{kMost} * static_cast<size_t>(width_), 5);
    float* const to = buffers_->view(0, set).floats();
    std::copy(x.begin(), x.end(), to);
    std::fill_n(to, width_, 0.0f);  // is all zero
    for (int i = 0; i < width_; ++i) to[width_ + i] = i % 2 == 0 ? 3e4f : -3e4f;
    to[2 * width_ + 3] = 1e6f;                     // has one value far above the others
    std::fill_n(to + 3 * width_, width_, 1e-30f);  // has tiny values
    for (model::ValueId id = 1; id < 6; ++id) {
      std::fill_n(buffers_->view(id, set).floats(), kMost * buffers_->width(id), -7.0f);
    }
  }

  // Returns the bits of all values.
  std::vector<uint32_t> bits(int set) const {
    std::vector<uint32_t> bits;
    for (model::ValueId id = 0; id < 6; ++id) {
      const auto n = static_cast<size_t>(kMost) * static_cast<size_t>(buffers_->width(id));
      bits.resize(bits.size() + n);
      std::memcpy(bits.data() + bits.size() - n, buffers_->view(id, set).floats(),
                  n * sizeof(float));
    }
    return bits;
  }

 private:
  void add_matrix(const char* name, int n_rows, int k, float size) {
    floats_.push_back(random_floats(static_cast<size_t>(n_rows) * static_cast<size_t>(k),
                                    static_cast<uint32_t>(floats_.size()), size));
    blueprint_.weights.push_back({name, 0, n_rows, k, n_rows, 0});
    weights::StoredWeight constant;
    constant.matrix = {tensor::Type::kF32, reinterpret_cast<std::byte*>(floats_.back().data()),
                       static_cast<size_t>(k) * sizeof(float), n_rows, k};
    constants_.push_back(std::move(constant));
  }
  void add_vector(const char* name, int n) {
    blueprint_.weights.push_back({name, 0, 1, n, 1, 0});
    weights::StoredWeight constant;
    constant.vector = random_floats(static_cast<size_t>(n), 77);
    constants_.push_back(std::move(constant));
  }
  void add_op(model::OpKind kind, std::vector<model::ValueId> inputs, model::ValueId output,
              model::WeightId weight) {
    model::Op op{kind};
    op.layer = 0;
    std::copy(inputs.begin(), inputs.end(), op.inputs.begin());
    op.output = output;
    op.weight = weight;
    blueprint_.ops.push_back(op);
  }

  int width_;
  model::Blueprint blueprint_;
  std::vector<std::vector<float>> floats_;
  std::vector<weights::StoredWeight> constants_;
  std::unique_ptr<weights::Store> store_;
  std::unique_ptr<Buffers> buffers_;
};

// Returns the largest difference of values, relative to the largest value. Where only one of two
// values is finite, the difference has no bound.
float vendor_difference(const std::vector<uint32_t>& a, const std::vector<uint32_t>& b) {
  float largest = 0.0f, apart = 0.0f;
  for (size_t i = 0; i < a.size(); ++i) {
    const auto x = std::bit_cast<float>(a[i]), y = std::bit_cast<float>(b[i]);
    if (std::isfinite(x) != std::isfinite(y)) return INFINITY;
    if (!std::isfinite(x)) continue;
    apart = std::max(apart, std::fabs(x - y));
    largest = std::max(largest, std::fabs(y));
  }
  return apart / largest;
}

TEST(VendorTests, AResultThatIsNoNumberIsFarFromEveryBound) {
  const auto of = [](float first, float second) {
    return std::vector{std::bit_cast<uint32_t>(first), std::bit_cast<uint32_t>(second)};
  };
  EXPECT_EQ(vendor_difference(of(1.0f, 3.0f), of(1.0f, 4.0f)), 0.25f);
  EXPECT_EQ(vendor_difference(of(NAN, 4.0f), of(1.0f, 4.0f)), INFINITY);
  EXPECT_EQ(vendor_difference(of(1.0f, INFINITY), of(1.0f, 4.0f)), INFINITY);
  EXPECT_EQ(vendor_difference(of(1.0f, 4.0f), of(1.0f, NAN)), INFINITY);
  EXPECT_EQ(vendor_difference(of(NAN, 4.0f), of(NAN, 4.0f)), 0.0f);
}

class VendorLanes : public testing::Test {
 protected:
  VendorLanes() : kernels_(kernels::choose(detect_cpu_features())) {}

  void SetUp() override {
    const openvino::FoundLibrary found = openvino::find_library();
    if (found.library == nullptr) GTEST_SKIP() << found.problem;
  }

  std::unique_ptr<VendorLane> vendor(const Int8Rules* rules = nullptr,
                                     plan::Prefill prefill = plan::Prefill::kInt8,
                                     const std::string& blobs = {}) {
    const char* const folder = std::getenv("TROIKA_OPENVINO");
    const VendorOptions options = {folder != nullptr ? folder : "", "CPU", {}, blobs};
    return std::make_unique<VendorLane>(options, kernels_.table, plan::Activations::kQ8, prefill,
                                        rules);
  }
  std::unique_ptr<HostLane> host(const Int8Rules* rules = nullptr,
                                 plan::Prefill prefill = plan::Prefill::kInt8) {
    return std::make_unique<HostLane>(kernels_.table, plan::PlannedLane{{}, 1},
                                      plan::Activations::kQ8, prefill, rules);
  }

  static void run(Lane& lane, const Executable& executable, int n_tokens, int set) {
    lanes::Run run;
    run.phase = plan::Phase::kPrompt;
    run.n_tokens = n_tokens;
    run.buffer_set = set;
    lanes::Ended ended;
    lane.submit(executable, run, ended);
    ASSERT_EQ(ended.status, Status::kDone) << lane.problem();
  }

  static std::vector<uint32_t> bits_of(Lane& lane, SmallBlock* block, const Subgraph& subgraph,
                                       int n_built, int n_tokens, int set) {
    const auto executable =
        lane.build(subgraph, {plan::Phase::kPrompt, n_built}, block->store(), block->buffers());
    block->fill(set);
    run(lane, *executable, n_tokens, set);
    return block->bits(set);
  }

  std::string problem_of(VendorLane& lane, const SmallBlock& block, const Subgraph& subgraph,
                         plan::Phase phase = plan::Phase::kPrompt) {
    try {
      lane.build(subgraph, {phase, 8}, block.store(), block.buffers());
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  }

  kernels::Kernels kernels_;
};

TEST_F(VendorLanes, WholeSubgraphsHaveTheBitsOfTheHost) {
  SmallBlock block;
  block.pack({0, 3});
  const auto vendor_lane = vendor();
  const auto host_lane = host();
  for (const int n_built : {kMost, 5, 1}) {
    for (const int n_tokens : {n_built, n_built / 2}) {
      for (const int set : {0, 1}) {
        EXPECT_EQ(bits_of(*vendor_lane, &block, block.subgraph(), n_built, n_tokens, set),
                  bits_of(*host_lane, &block, block.subgraph(), n_built, n_tokens, set))
            << n_tokens << " of " << n_built;
      }
    }
  }
  EXPECT_GT(vendor_lane->held_bytes(), size_t{3 * 150 * kMiddle});
}

TEST_F(VendorLanes, SlicesOfRowsAndTokensHaveTheBitsOfTheHost) {
  SmallBlock block;
  block.pack({1});
  const auto vendor_lane = vendor();
  const auto host_lane = host();
  const Range all, none = {0, 0};
  Subgraph rows = block.subgraph();
  rows.ops = rows.ops.subspan(1, 4);
  rows.slice.columns = {{16, 48}, {16, 48}, none, {16, 48}};
  Subgraph rest = block.subgraph();
  rest.ops = rest.ops.subspan(1, 4);
  rest.slice.columns = {{48, Range::kEnd}, {48, Range::kEnd}, {16, Range::kEnd}, all};
  rest.slice.columns[3] = {48, Range::kEnd};
  rest.slice.tokens = {7, Range::kEnd};
  Subgraph tokens = block.subgraph();
  tokens.slice.tokens = {4, 20};
  for (const Subgraph& subgraph : {rows, rest, tokens}) {
    for (const int n_tokens : {kMost, 12, 3}) {
      EXPECT_EQ(bits_of(*vendor_lane, &block, subgraph, kMost, n_tokens, 0),
                bits_of(*host_lane, &block, subgraph, kMost, n_tokens, 0))
          << n_tokens;
    }
  }
}

// The first part of a length has 5 tokens, so it uses the graphs of a prompt of 5.
TEST_F(VendorLanes, H5PartsOfLengthsShareTheGraphsOfUsualShapes) {
  SmallBlock block;
  block.pack({0, 1, 2, 3});
  const auto lane = vendor();
  const auto host_lane = host();
  const auto usual =
      lane->build(block.subgraph(), {plan::Phase::kPrompt, 5}, block.store(), block.buffers());
  const GraphCosts before = lane->costs();
  const size_t held = lane->held_bytes();
  Subgraph part = block.subgraph();
  part.slice.tokens = {0, 5};
  EXPECT_EQ(bits_of(*lane, &block, part, kMost, kMost, 0),
            bits_of(*host_lane, &block, part, kMost, kMost, 0));
  EXPECT_EQ(lane->costs().n_compiled, before.n_compiled);
  EXPECT_EQ(lane->costs().n_shared, 2);
  EXPECT_EQ(lane->held_bytes(), held);
  // The executable that was built first still has its own results.
  block.fill(1);
  run(*lane, *usual, 5, 1);
  EXPECT_EQ(block.bits(1), bits_of(*host_lane, &block, block.subgraph(), 5, 5, 1));
  // Another part of 5 tokens at another place uses these graphs too.
  part.slice.tokens = {7, 12};
  EXPECT_EQ(bits_of(*lane, &block, part, kMost, kMost, 0),
            bits_of(*host_lane, &block, part, kMost, kMost, 0));
  EXPECT_EQ(lane->costs().n_compiled, before.n_compiled);
}

// The weights of two models have the same numbers, but not the same content.
TEST_F(VendorLanes, ModelsOneAfterAnotherHaveTheirOwnWeights) {
  const auto vendor_lane = vendor();
  const auto host_lane = host();
  for (const bool is_extreme : {false, true, false}) {
    SmallBlock block(150, is_extreme);
    block.pack({});
    EXPECT_EQ(bits_of(*vendor_lane, &block, block.subgraph(), 5, 5, 0),
              bits_of(*host_lane, &block, block.subgraph(), 5, 5, 0));
  }
}

// Sums of 2,100 products of the largest levels exceed what floats hold exactly.
TEST_F(VendorLanes, LongRowsOfExtremeWeightsHaveTheBitsOfTheHost) {
  SmallBlock block(2100, true);
  block.pack({});
  EXPECT_EQ(bits_of(*vendor(), &block, block.subgraph(), kMost, 33, 0),
            bits_of(*host(), &block, block.subgraph(), kMost, 33, 0));
}

// A device whose sums are floats takes products in parts.
TEST_F(VendorLanes, ProductsInPartsHaveTheBitsOfTheHost) {
  SmallBlock block(1000, true);
  block.pack({0});
  Subgraph subgraph = block.subgraph();
  subgraph.ops = subgraph.ops.subspan(1, 2);
  const std::vector<uint32_t> expected = bits_of(*host(), &block, subgraph, kMost, kMost - 1, 1);
  const openvino::FoundLibrary found = openvino::find_library();
  const std::string device = "CPU";
  for (const int most : {1 << 24, 6 << 20, 1 << 20}) {
    VendorPool pool;
    const Precision precision = {plan::Activations::kQ8, plan::Prefill::kInt8};
    std::vector<VendorProduct> products;
    for (const model::Op& op : subgraph.ops) {
      const BoundProduct bound = bind_product(op, block.store(), kernels_.table, precision);
      products.push_back({&op, bound, {0, kMiddle}});
    }
    VendorShelf shelf(found.library, most);
    GraphCosts costs;
    VendorProducts parts({found.library, device, block.buffers(), pool, shelf, costs}, products, 0,
                         kMost);
    EXPECT_EQ(shelf.weights_of(products)->parts.size() > 1, most < 1 << 24);
    block.fill(1);
    lanes::Run run;
    run.n_tokens = kMost - 1;
    ASSERT_TRUE(parts.run(kernels_.table, run, block.buffers().set_stride(), pool));
    EXPECT_EQ(block.bits(1), expected) << most;
  }
}

TEST_F(VendorLanes, OneScaleForAllTokensAndFactorsHaveTheBitsOfTheHost) {
  SmallBlock block;
  block.pack({0, 1, 2, 3}, {true, {}});
  const std::vector<float> factors = random_floats(150, 8);
  Int8Rule rule;
  rule.kind = Int8Rule::Kind::kLimit;
  rule.range = {1.5f, true};
  rule.factors = factors.data();
  const Int8Rules rules(6, rule);
  EXPECT_EQ(bits_of(*vendor(&rules), &block, block.subgraph(), kMost, kMost, 0),
            bits_of(*host(&rules), &block, block.subgraph(), kMost, kMost, 0));
}

TEST_F(VendorLanes, WhatIsNotStaticOrNotExactIsASentence) {
  SmallBlock block;
  block.pack({0, 1, 2, 3});
  const auto lane = vendor();
  EXPECT_NE(problem_of(*lane, block, block.subgraph(), plan::Phase::kStep).find("step"),
            std::string::npos);
  Subgraph attention = block.subgraph();
  model::Op op{model::OpKind::kAttention};
  attention.ops = {&op, 1};
  EXPECT_NE(problem_of(*lane, block, attention).find("attention"), std::string::npos);
  op.kind = model::OpKind::kExpertLinear;
  EXPECT_NE(problem_of(*lane, block, attention).find("experts"), std::string::npos);
  for (const auto kind : {Int8Rule::Kind::kSplit, Int8Rule::Kind::kGroup}) {
    Int8Rule rule;
    rule.kind = kind;
    const Int8Rules rules(6, rule);
    EXPECT_NE(problem_of(*vendor(&rules), block, block.subgraph()).find("gate.weight"),
              std::string::npos);
  }
}

// The test says for each class whether the lane has the bits of cores, is near them, or refuses.
TEST_F(VendorLanes, H13_StatesInWhichClassesItComputes) {
  using plan::Prefill;
  SmallBlock block;
  block.pack({0, 2});
  for (const Prefill prefill : {Prefill::kSame, Prefill::kF32, Prefill::kQ8}) {
    const std::string problem = problem_of(*vendor(nullptr, prefill), block, block.subgraph());
    EXPECT_NE(problem.find("gate.weight"), std::string::npos) << problem;
  }
  for (const Prefill prefill : {Prefill::kInt8, Prefill::kBf16}) {
    const auto lane = vendor(nullptr, prefill);
    const auto found = bits_of(*lane, &block, block.subgraph(), kMost, kMost, 0);
    const auto expected =
        bits_of(*host(nullptr, prefill), &block, block.subgraph(), kMost, kMost, 0);
    EXPECT_LE(vendor_difference(found, expected), prefill == Prefill::kInt8 ? 0.0f : 1e-2f);
  }
}

// A token has the same bits in graphs of any length and with other rows beside its own.
TEST_F(VendorLanes, H13_InBf16ATokenHasTheSameBitsInAnyCompany) {
  const auto prefill = plan::Prefill::kBf16;
  for (const int width : {150, 2100}) {
    SmallBlock block(width);
    block.pack({});
    const auto lane = vendor(nullptr, prefill);
    const auto whole = lane->build(block.subgraph(), {plan::Phase::kPrompt, kMost}, block.store(),
                                   block.buffers());
    block.fill(0);
    run(*lane, *whole, kMost, 0);
    const std::vector<uint32_t> expected = block.bits(0);
    EXPECT_LE(vendor_difference(expected, bits_of(*host(nullptr, prefill), &block, block.subgraph(),
                                                  kMost, kMost, 0)),
              1e-2f);
    block.fill(0);
    // Parts run one behind the other in the same buffers.
    std::vector<std::unique_ptr<Executable>> kept;
    for (const Range tokens : {Range{0, 1}, {1, 6}, {6, 22}, {22, kMost}}) {
      Subgraph part = block.subgraph();
      part.slice.tokens = tokens;
      kept.push_back(
          lane->build(part, {plan::Phase::kPrompt, kMost}, block.store(), block.buffers()));
      run(*lane, *kept.back(), kMost, 0);
    }
    EXPECT_TRUE(block.bits(0) == expected) << width;
    EXPECT_GT(lane->held_bytes(), size_t{4} * 3 * kMiddle * static_cast<size_t>(width));
  }
}

TEST_F(VendorLanes, H13_RowsInBf16AreThoseOfTheWholeProduct) {
  SmallBlock block;
  block.pack({});
  const auto lane = vendor(nullptr, plan::Prefill::kBf16);
  const auto host_lane = host(nullptr, plan::Prefill::kBf16);
  const Range none = {0, 0};
  Subgraph rows = block.subgraph();
  rows.ops = rows.ops.subspan(1, 4);
  rows.slice.columns = {{16, 48}, {16, 48}, none, {16, 48}};
  rows.slice.tokens = {7, Range::kEnd};
  for (const int n_tokens : {kMost, 12}) {
    const auto found = bits_of(*lane, &block, rows, kMost, n_tokens, 1);
    const auto expected = bits_of(*host_lane, &block, rows, kMost, n_tokens, 1);
    EXPECT_LE(vendor_difference(found, expected), 1e-2f) << n_tokens;
    // What belongs to others is left as it was.
    for (size_t i = 0; i < found.size(); ++i) {
      const bool is_untouched = expected[i] == std::bit_cast<uint32_t>(-7.0f);
      ASSERT_TRUE(!is_untouched || found[i] == expected[i]) << i;
    }
  }
}

TEST_F(VendorLanes, H13_GraphsInBf16AreKeptToo) {
  SmallBlock block;
  block.pack({});
  const test::TempFolder folder;
  std::vector<uint32_t> expected;
  for (const int n_imported : {0, 2}) {
    const auto lane = vendor(nullptr, plan::Prefill::kBf16, folder.file("blobs"));
    const auto found = bits_of(*lane, &block, block.subgraph(), kMost, kMost, 0);
    EXPECT_EQ(lane->costs().n_imported, n_imported);
    EXPECT_TRUE(expected.empty() || found == expected);
    expected = found;
  }
}

// Stand before the library's functions and say that the device is gone.
decltype(openvino::Api::infer) infer_of_device = nullptr;
decltype(openvino::Api::compile) compile_of_device = nullptr;
bool is_device_lost = false;
constexpr openvino::Status kDeviceError = -1;

openvino::Status compile_until_lost(const openvino::Core* core, const openvino::Model* model,
                                    const char* device, size_t n_properties,
                                    openvino::CompiledModel** compiled, ...) {
  if (is_device_lost) return kDeviceError;
  // Graphs of int8 have no properties.
  return compile_of_device(core, model, device, n_properties, compiled);
}

TEST_F(VendorLanes, ALostDeviceFailsItsTasksTakesNoGraphsAndMayComeBack) {
  const openvino::FoundLibrary found = openvino::find_library();
  openvino::Api api = found.library->api();
  infer_of_device = api.infer;
  compile_of_device = api.compile;
  api.infer = [](openvino::Request* request) {
    return is_device_lost ? kDeviceError : infer_of_device(request);
  };
  api.compile = compile_until_lost;
  const auto library = std::make_shared<openvino::Library>(api);
  library->limit_threads("CPU", 1);
  VendorLane lane(library, {"", "CPU", {}}, kernels_.table, plan::Activations::kQ8,
                  plan::Prefill::kInt8);
  SmallBlock block;
  block.pack({0, 1, 2, 3});
  const auto expected = bits_of(*host(), &block, block.subgraph(), kMost, kMost, 0);
  const auto executable =
      lane.build(block.subgraph(), {plan::Phase::kPrompt, kMost}, block.store(), block.buffers());
  is_device_lost = true;
  block.fill(0);
  lanes::Run run_arguments;
  run_arguments.phase = plan::Phase::kPrompt;
  run_arguments.n_tokens = kMost;
  lanes::Ended ended;
  lane.submit(*executable, run_arguments, ended);
  EXPECT_EQ(ended.status, Status::kFailed);
  EXPECT_FALSE(lane.problem().empty());
  const std::string refusal = problem_of(lane, block, block.subgraph());
  EXPECT_NE(refusal.find("does not take the product"), std::string::npos) << refusal;
  is_device_lost = false;
  block.fill(0);
  run(lane, *executable, kMost, 0);
  EXPECT_EQ(block.bits(0), expected);
}

TEST_F(VendorLanes, CompiledGraphsAreKeptAndDamagedOnesAreCompiledAgain) {
  namespace fs = std::filesystem;
  SmallBlock block;
  block.pack({0, 1, 2, 3});
  const auto expected = bits_of(*host(), &block, block.subgraph(), kMost, kMost, 0);
  const test::TempFolder folder;
  const std::string blobs = folder.file("blobs");
  const auto make = [&](int n_compiled, int n_imported) {
    const auto lane = vendor(nullptr, plan::Prefill::kInt8, blobs);
    EXPECT_EQ(bits_of(*lane, &block, block.subgraph(), kMost, kMost, 0), expected);
    EXPECT_EQ(lane->costs().n_compiled, n_compiled);
    EXPECT_EQ(lane->costs().n_imported, n_imported);
    return lane->note();
  };
  EXPECT_EQ(make(2, 0).find("damaged"), std::string::npos);
  EXPECT_EQ(make(0, 2).find("damaged"), std::string::npos);
  for (const fs::directory_entry& entry : fs::directory_iterator(blobs)) {
    EXPECT_EQ(entry.path().extension(), ".blob");
    std::fstream file(entry.path(), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(entry.file_size() / 2));
    file.put('\x5a').put('\xa5').put('\x5a');
  }
  EXPECT_NE(make(2, 0).find("damaged"), std::string::npos);
  for (const fs::directory_entry& entry : fs::directory_iterator(blobs)) {
    fs::resize_file(entry.path(), 20);
  }
  EXPECT_NE(make(2, 0).find("damaged"), std::string::npos);
  // The files are valid, but hold nothing that the library accepts.
  for (const fs::directory_entry& entry : fs::directory_iterator(blobs)) {
    const uint64_t key = std::stoull(entry.path().stem().string(), nullptr, 16);
    KeptFiles(blobs, openvino::kKeptGraphs).keep(key, [](const std::string&) {
      return std::string("no blob at all");
    });
  }
  EXPECT_NE(make(2, 0).find("damaged"), std::string::npos);
  EXPECT_EQ(make(0, 2).find("damaged"), std::string::npos);
}

TEST_F(VendorLanes, AFolderThatCannotBeWrittenIsNoted) {
  SmallBlock block;
  block.pack({0, 1, 2, 3});
  const test::TempFolder folder;
  write_file(folder.file("taken"), "");
  const auto lane = vendor(nullptr, plan::Prefill::kInt8, folder.file("taken"));
  lane->build(block.subgraph(), {plan::Phase::kPrompt, 4}, block.store(), block.buffers());
  EXPECT_NE(lane->note().find("not kept"), std::string::npos) << lane->note();
}

TEST(VendorLevels, LongRowsAreDividedUntilNoSumCanBeRounded) {
  LevelRows rows;
  rows.k = 5000;
  rows.scales = {1.0f, 1.0f};
  rows.levels.assign(10000, 1);
  EXPECT_EQ(exact_part_length(rows, openvino::kMostExactSum), 5000);
  std::fill_n(rows.levels.begin() + 5000, 5000, int8_t{-127});
  const int length = exact_part_length(rows, openvino::kMostExactSum);
  EXPECT_LE(length * 127 * 127, openvino::kMostExactSum);
  EXPECT_GE(length, 960);
}

}  // namespace
}  // namespace troika::lanes
