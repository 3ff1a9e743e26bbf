// Compares the lane of an OpenCL device with that of cores: prompts in int8 are equal to the bit,
// and floats are within a bound and the same for any number of tokens. What the lane cannot compute
// is refused in a sentence.
#include "lanes/opencl/opencl_lane.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <map>
#include <optional>

#include "kernels/choose.h"
#include "lanes/opencl/opencl_executable.h"
#include "lanes/opencl/test_support.h"

namespace troika::lanes::opencl {
namespace {

using model::OpKind;
using plan::Activations;
using plan::Prefill;
using tensor::Type;

constexpr int kMost = SmallGraph::kMostTokens;
constexpr plan::Shape kPrompt = {plan::Phase::kPrompt, kMost};
constexpr plan::Shape kStep = {plan::Phase::kStep, kMost};

class OpenclLanes : public testing::Test {
 protected:
  OpenclLanes() : kernels_(kernels::choose(detect_cpu_features())) {}

  void SetUp() override {
    found_ = find_device();
    if (found_.device == nullptr) GTEST_SKIP() << found_.problem;
  }

  std::unique_ptr<OpenclLane> device(Prefill prefill, const Int8Rules* rules = nullptr,
                                     bool is_fast = false) {
    const OpenclPrecision precision = {Activations::kF32, prefill, Type::kF16, rules};
    DeviceOptions options = found_.options;
    options.has_fast_handover = is_fast;
    return std::make_unique<OpenclLane>(found_.device, options, kernels_.table, precision);
  }
  std::unique_ptr<HostLane> host(Prefill prefill, const Int8Rules* rules = nullptr) {
    return std::make_unique<HostLane>(kernels_.table, plan::PlannedLane{{}, 1}, Activations::kF32,
                                      prefill, rules);
  }
  // Compares all values of both lanes after a run in floats.
  void expect_near(SmallGraph& graph, float bound, const std::string& name) {
    const auto device_lane = device(Prefill::kF32);
    const auto host_lane = host(Prefill::kF32);
    GraphRun on_device(*device_lane, graph), on_host(*host_lane, graph);
    for (const int n : {kMost, 5, 1}) {
      const auto expected = on_host.values(graph.subgraph(), kStep, n, 1);
      EXPECT_LE(difference(expected, on_device.values(graph.subgraph(), kStep, n, 1)), bound)
          << name << ", " << n << " tokens";
    }
  }
  static std::string problem_of(Lane& lane, SmallGraph& graph, const Subgraph& subgraph,
                                plan::Shape shape) {
    const Buffers buffers(graph.blueprint(), kMost, kMost, true, 1, lane.memory());
    try {
      lane.build(subgraph, shape, graph.store(), buffers);
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  }

  kernels::Kernels kernels_;
  FoundDevice found_;
};

TEST_F(OpenclLanes, ProductsOfEveryTypeAreNearThoseOfCores) {
  for (const tensor::TypeInfo& info : tensor::type_table()) {
    const bool is_odd = tensor::is_float(info.type);
    SmallGraph graph = SmallGraph::block(info.type, is_odd ? 150 : 256, is_odd ? 71 : 512);
    expect_near(graph, 2e-6f, info.name);
  }
}

TEST_F(OpenclLanes, ATokenHasTheSameBitsInAnyCompany) {
  for (const Type type : {Type::kF32, Type::kQ4_0, Type::kQ4_K, Type::kQ6_K}) {
    SmallGraph graph = SmallGraph::block(type, 256, 512);
    const auto lane = device(Prefill::kF32);
    GraphRun run(*lane, graph);
    const std::vector<float> whole = run.values(graph.subgraph(), kPrompt, kMost);
    for (const int n : {13, 8, 4, 3, 2, 1}) {
      const std::vector<float> part = run.values(graph.subgraph(), {plan::Phase::kStep, n}, n);
      size_t at = 0;
      for (const model::Value& value : graph.blueprint().values) {
        const size_t n_floats = static_cast<size_t>(value.width) * static_cast<size_t>(n);
        EXPECT_EQ(std::memcmp(&whole[at], &part[at], n_floats * sizeof(float)), 0)
            << value.name << ", " << n << " tokens of " << tensor::type_name(type);
        at += static_cast<size_t>(value.width) * kMost;
      }
    }
  }
}

// Returns a graph in which each token chooses 2 of 5 experts with rows that fill no strip.
SmallGraph mixture_of(Type type) {
  constexpr int kWidth = 256, kRows = 512 / 5;
  SmallGraph graph(type);
  graph.blueprint().n_experts = 5;
  graph.blueprint().n_experts_used = 2;
  const auto x = graph.add_value(kWidth), logits = graph.add_value(5), routes = graph.add_value(4);
  const auto gate = graph.add_value(2 * kRows), up = graph.add_value(2 * kRows);
  const auto sum = graph.add_value(kRows);
  graph.add_op(OpKind::kRoute, {logits}, routes).scale = 1.5f;
  graph.add_op(OpKind::kExpertLinear, {x, routes}, gate, graph.add_matrix(5 * kRows, kWidth));
  graph.add_op(OpKind::kExpertLinear, {x, routes}, up, graph.add_matrix(5 * kRows, kWidth));
  graph.add_op(OpKind::kGate, {gate, up}, gate);
  graph.add_op(OpKind::kExpertSum, {gate, routes}, sum);
  return graph;
}

TEST_F(OpenclLanes, ExpertsOfEveryTypeAreNearThoseOfCores) {
  for (const tensor::TypeInfo& info : tensor::type_table()) {
    SmallGraph graph = mixture_of(info.type);
    expect_near(graph, 2e-6f, info.name);
  }
}

TEST_F(OpenclLanes, ATokenHasTheSameExpertsToTheBitInAnyCompany) {
  for (const Type type : {Type::kF32, Type::kQ4_0, Type::kQ4_K}) {
    SmallGraph graph = mixture_of(type);
    const auto lane = device(Prefill::kF32);
    GraphRun run(*lane, graph);
    const size_t width = 512 / 5;
    const auto sums = [&](int n) {
      const std::vector<float> all = run.values(graph.subgraph(), {plan::Phase::kStep, kMost}, n);
      const auto end = all.end() - static_cast<std::ptrdiff_t>(width * kMost);
      return std::vector<float>(end, end + static_cast<std::ptrdiff_t>(width) * n);
    };
    const std::vector<float> whole = sums(kMost);
    for (const int n : {14, 6, 2, 1}) {
      const std::vector<float> part = sums(n);
      EXPECT_TRUE(std::equal(part.begin(), part.end(), whole.begin()))
          << n << " tokens of " << tensor::type_name(type);
    }
  }
}

TEST_F(OpenclLanes, RowsOfAProductHaveTheBitsOfTheWhole) {
  SmallGraph graph = SmallGraph::block(Type::kQ4_0, 256, 512);
  const auto lane = device(Prefill::kF32);
  GraphRun run(*lane, graph);
  Subgraph subgraph = graph.subgraph();
  subgraph.ops = subgraph.ops.subspan(1, 2);
  const std::vector<float> whole = run.values(subgraph, kStep, 7);
  Subgraph part = subgraph;
  part.slice.columns = {{0, 208}, {208, 512}};
  const std::vector<float> parts = run.values(part, kStep, 7);
  run.fill(0);
  const std::vector<float> untouched = run.read(0);
  const size_t gate = 2 * 256 * size_t{kMost}, up = gate + 512 * size_t{kMost};
  for (size_t t = 0; t < 7; ++t) {
    for (size_t i = 0; i < 512; ++i) {
      const size_t at_gate = gate + t * 512 + i, at_up = up + t * 512 + i;
      EXPECT_EQ(parts[at_gate], i < 208 ? whole[at_gate] : untouched[at_gate]) << t << " " << i;
      EXPECT_EQ(parts[at_up], i < 208 ? untouched[at_up] : whole[at_up]) << t << " " << i;
    }
  }
}

TEST_F(OpenclLanes, PromptsInInt8HaveTheBitsOfCores) {
  for (const auto& [type, width, middle] :
       {std::tuple{Type::kF32, 150, 71}, {Type::kQ8_0, 256, 512}, {Type::kQ4_K, 2304, 256}}) {
    SmallGraph graph = SmallGraph::block(type, width, middle);
    const model::WeightId packed[] = {2, 4}, all[] = {2, 3, 4};
    graph.store().pack_int8(packed, 1);
    graph.store().measure_int8(all, 1);
    const auto device_lane = device(Prefill::kInt8);
    const auto host_lane = host(Prefill::kInt8);
    GraphRun on_device(*device_lane, graph), on_host(*host_lane, graph);
    for (const int n_built : {kMost, 5, 1}) {
      for (const int n : {n_built, n_built / 2}) {
        const plan::Shape shape = {plan::Phase::kPrompt, n_built};
        EXPECT_TRUE(on_device.values(graph.subgraph(), shape, n, 1) ==
                    on_host.values(graph.subgraph(), shape, n, 1))
            << tensor::type_name(type) << ", " << n << " of " << n_built;
      }
    }
    // A slice has some rows of one product, or some tokens of all products.
    Subgraph part = graph.subgraph();
    part.slice.columns.assign(6, {});
    part.slice.columns[1] = {16, 48};
    EXPECT_TRUE(on_device.values(part, kPrompt, kMost) == on_host.values(part, kPrompt, kMost));
    part = graph.subgraph();
    part.slice.tokens = {6, 17};
    EXPECT_TRUE(on_device.values(part, kPrompt, kMost) == on_host.values(part, kPrompt, kMost));
  }
}

decltype(Api::device_info) real_device_info = nullptr;
Bits told_abilities = 0;

TEST_F(OpenclLanes, ADeviceThatRoundsOtherwiseTakesNoPromptsInInt8) {
  Api api = found_.device->api();
  real_device_info = api.device_info;
  api.device_info = [](DeviceId id, UInt what, size_t room, void* answer, size_t* size) {
    const Int status = real_device_info(id, what, room, answer, size);
    if (what != kFloatAbilities || status != kOk || answer == nullptr) return status;
    std::memcpy(answer, &told_abilities, sizeof(told_abilities));
    return status;
  };
  SmallGraph graph = SmallGraph::block(Type::kF32, 150, 71);
  const model::WeightId all[] = {2, 3, 4};
  graph.store().pack_int8(all, 1);
  for (const Bits abilities : {Bits{0}, kRoundsToNearest}) {
    told_abilities = abilities;
    const auto library = std::make_shared<const Library>(api);
    OpenclLane lane(std::make_shared<const Device>(library, 0), found_.options, kernels_.table,
                    {Activations::kF32, Prefill::kInt8});
    const std::string problem = problem_of(lane, graph, graph.subgraph(), kPrompt);
    EXPECT_EQ(problem.find("does not round to the nearest") != std::string::npos, abilities == 0)
        << problem;
    EXPECT_EQ(problem_of(lane, graph, graph.subgraph(), kStep), "no error");
  }
}

TEST_F(OpenclLanes, OneScaleForAllTokensAndFactorsHaveTheBitsOfCores) {
  SmallGraph graph = SmallGraph::block(Type::kF32, 150, 71);
  const model::WeightId all[] = {2, 3, 4};
  graph.store().pack_int8(all, 1, {}, {true, {}});
  const std::vector<float> factors = random_floats(150, 8);
  Int8Rule rule;
  rule.kind = Int8Rule::Kind::kLimit;
  rule.range = {1.5f, true};
  rule.factors = factors.data();
  const Int8Rules rules(5, rule);
  const auto device_lane = device(Prefill::kInt8, &rules);
  const auto host_lane = host(Prefill::kInt8, &rules);
  GraphRun on_device(*device_lane, graph), on_host(*host_lane, graph);
  EXPECT_TRUE(on_device.values(graph.subgraph(), kPrompt, kMost) ==
              on_host.values(graph.subgraph(), kPrompt, kMost));
}

TEST_F(OpenclLanes, EveryOpOfRowsAndElementsIsNearThatOfCores) {
  const auto check = [&](const char* name, auto add) {
    for (const Type type : {Type::kF32, Type::kQ4_1}) {
      SmallGraph graph(type);
      graph.add_value(160);
      graph.add_value(160);
      add(graph);
      expect_near(graph, 2e-6f, name);
    }
  };
  check("layer norm", [](SmallGraph& g) {
    const auto weight = g.add_vector(160), bias = g.add_vector(160);
    g.add_op(OpKind::kLayerNorm, {0}, 1, weight).bias = bias;
    g.add_op(OpKind::kLayerNorm, {1}, 0);
  });
  check("norm of heads", [](SmallGraph& g) {
    g.add_op(OpKind::kRmsNorm, {0}, 1, g.add_vector(32)).n_heads = 5;
    g.add_op(OpKind::kRmsNorm, {1}, 0);
  });
  for (const auto activation : {model::Activation::kSilu, model::Activation::kGelu,
                                model::Activation::kRelu, model::Activation::kDoubleRelu}) {
    check("activation", [&](SmallGraph& g) {
      g.add_op(OpKind::kGate, {0, 1}, g.add_value(160)).activation = activation;
      g.add_op(OpKind::kActivate, {1}, 0).activation = activation;
    });
  }
  check("soft cap", [](SmallGraph& g) { g.add_op(OpKind::kSoftCap, {0}, 1).soft_cap = 1.5f; });
  check("add", [](SmallGraph& g) { g.add_op(OpKind::kAdd, {0, 1}, 1); });
  check("sigmoid gate", [](SmallGraph& g) {
    g.add_op(OpKind::kSigmoidGate, {0, g.add_value(1)}, 1);
  });
  check("select", [](SmallGraph& g) { g.add_op(OpKind::kSelect, {0}, g.add_value(160, true)); });
  check("embedding", [](SmallGraph& g) {
    g.add_op(OpKind::kEmbed, {}, 1, g.add_matrix(19, 160)).scale = 12.5f;
    g.add_op(OpKind::kEmbed, {}, 0, g.add_matrix(19, 160));
  });
  for (const bool is_half_split : {false, true}) {
    check("rope", [&](SmallGraph& g) {
      g.blueprint().ropes[0].is_half_split = is_half_split;
      g.add_value(6 * 24);
      g.add_op(OpKind::kRope, {2}, 2).n_heads = 6;
    });
  }
}

class OpenclQueues : public OpenclLanes, public testing::WithParamInterface<bool> {};
INSTANTIATE_TEST_SUITE_P(H8, OpenclQueues, testing::Bool(), [](const auto& info) {
  return std::string(info.param ? "DriversTell" : "LanesWait");
});

TEST_P(OpenclQueues, ManyTasksMayBeInTheQueueAndEndInTheirOrder) {
  SmallGraph graph = SmallGraph::block(Type::kQ8_0, 256, 512);
  const auto lane = device(Prefill::kF32, nullptr, GetParam());
  ASSERT_GT(lane->info().queue_depth, 1);
  GraphRun run(*lane, graph);
  // Each task adds to what the one before left, so their order matters.
  Subgraph subgraph = graph.subgraph();
  subgraph.ops = subgraph.ops.subspan(5, 1);
  const auto executable = lane->build(subgraph, kStep, graph.store(), run.buffers());
  struct Told : Completion {
    void finished(Status status) override {
      EXPECT_EQ(status, Status::kDone);
      place = (*n)++;
      latch.open();
    }
    std::atomic<int>* n = nullptr;
    int place = -1;
    Latch latch;
  };
  run.fill(0);
  const std::vector<float> before = run.read(0);
  const lanes::Run arguments = run.arguments(plan::Phase::kStep, kMost, 0);
  constexpr int kRounds = 50;
  const int depth = lane->info().queue_depth;
  for (int round = 0; round < kRounds; ++round) {
    std::atomic<int> n_told{0};
    std::vector<Told> told(static_cast<size_t>(depth));
    for (Told& one : told) one.n = &n_told;
    for (Told& one : told) lane->submit(*executable, arguments, one);
    for (Told& one : told) one.latch.wait();
    for (size_t i = 0; i < told.size(); ++i) EXPECT_EQ(told[i].place, static_cast<int>(i));
  }
  const std::vector<float> after = run.read(0);
  const size_t y = 2 * 256 * size_t{kMost} + 2 * 512 * size_t{kMost};
  for (size_t i = 0; i < 256 * size_t{kMost}; ++i) {
    float x = before[i];
    for (int n = 0; n < kRounds * depth; ++n) x = before[y + i] + x;
    ASSERT_EQ(after[i], x) << i;
  }
}

// Stand before the driver's functions and count the bytes of all buffers that are not released.
decltype(Api::create_buffer) real_create_buffer = nullptr;
decltype(Api::release_buffer) real_release_buffer = nullptr;
std::map<Buffer, size_t> live_buffers;
Buffer create_counted_buffer(Context context, Bits flags, size_t bytes, void* from, Int* status) {
  const Buffer buffer = real_create_buffer(context, flags, bytes, from, status);
  if (*status == kOk) live_buffers[buffer] = bytes;
  return buffer;
}
Int release_counted_buffer(Buffer buffer) {
  live_buffers.erase(buffer);
  return real_release_buffer(buffer);
}
size_t live_bytes() {
  size_t bytes = 0;
  for (const auto& [buffer, n] : live_buffers) bytes += n;
  return bytes;
}

// Weights with minima need sums of groups besides, which are no executable's own.
TEST_F(OpenclLanes, WeightsLieOnTheDeviceOnceForAllExecutables) {
  Api api = found_.device->api();
  real_create_buffer = api.create_buffer;
  real_release_buffer = api.release_buffer;
  api.create_buffer = create_counted_buffer;
  api.release_buffer = release_counted_buffer;
  const auto counted = std::make_shared<const Device>(std::make_shared<const Library>(api), 0);
  for (const Type type : {Type::kQ8_0, Type::kQ4_K}) {
    SmallGraph graph = SmallGraph::block(type, 256, 512);
    OpenclLane lane(counted, found_.options, kernels_.table, {Activations::kF32, Prefill::kF32});
    GraphRun run(lane, graph);
    const size_t before = lane.held_bytes(), live_before = live_bytes();
    const auto a = lane.build(graph.subgraph(), kStep, graph.store(), run.buffers());
    const size_t with_one = lane.held_bytes();
    EXPECT_GE(with_one, before + 3 * 256 * 512 / (type == Type::kQ8_0 ? 1 : 2));
    EXPECT_EQ(live_bytes() - live_before, with_one - before) << tensor::type_name(type);
    {
      const auto b = lane.build(graph.subgraph(), kPrompt, graph.store(), run.buffers());
      EXPECT_EQ(lane.held_bytes(), with_one);
      EXPECT_EQ(live_bytes() - live_before, with_one - before) << tensor::type_name(type);
    }
  }
  live_buffers.clear();
}

TEST_F(OpenclLanes, SayWhichDeviceAndDriverTheyAre) {
  const auto lane = device(Prefill::kF32);
  const DeviceEntry& entry = found_.device->entry();
  for (const std::string& part : {entry.name, entry.platform, entry.driver}) {
    EXPECT_NE(lane->info().identity.find(part), std::string::npos) << lane->info().identity;
  }
}

// What was kept is looked for by an identity, before a lane is made.
TEST_F(OpenclLanes, HaveTheIdentityThatIsToldWithoutThem) {
  DeviceOptions options = found_.options;
  if (options.library.find("oclgrind") != std::string::npos) {
    GTEST_SKIP() << "only tests open devices of oclgrind";
  }
  for (const Extensions extensions :
       {Extensions::kOfDevice, Extensions::kNone, Extensions::kEmulated}) {
    options.extensions = extensions;
    const OpenclLane lane(found_.device, options, kernels_.table, {});
    const std::string expected =
        found_.device->entry().identity() + Variants(found_.device->entry(), options).identity();
    EXPECT_EQ(lane.info().identity, expected);
    EXPECT_EQ(OpenclLane::identity_of(options, plan::Prefill::kF32), expected);
  }
}

TEST_F(OpenclLanes, WhatItDoesNotComputeIsASentence) {
  SmallGraph graph = SmallGraph::block(Type::kQ8_0, 256, 512);
  const auto in_floats = device(Prefill::kF32);
  Subgraph part = graph.subgraph();
  part.slice.tokens = {0, 8};
  EXPECT_NE(problem_of(*in_floats, graph, part, kPrompt).find("which tokens"), std::string::npos);
  OpenclLane rounded(found_.device, found_.options, kernels_.table,
                     {Activations::kQ8, Prefill::kInt8});
  EXPECT_NE(problem_of(rounded, graph, graph.subgraph(), kStep).find("activations in f32"),
            std::string::npos);
  // No sentence names an option that not every command with lanes has, or what the device lacks.
  for (const Prefill prefill : {Prefill::kSame, Prefill::kQ8, Prefill::kBf16}) {
    OpenclLane lane(found_.device, found_.options, kernels_.table, {Activations::kQ8, prefill});
    const std::string problem = problem_of(lane, graph, graph.subgraph(), kPrompt);
    EXPECT_NE(problem.find("in f32"), std::string::npos) << problem;
    EXPECT_EQ(problem.find("‹"), std::string::npos) << problem;
    EXPECT_EQ(problem.find(" f16") != std::string::npos, found_.device->entry().has_halves)
        << problem;
  }
  // The weights of the graph have no int8 levels.
  EXPECT_NE(problem_of(rounded, graph, graph.subgraph(), kPrompt).find("int8"), std::string::npos);
  const Buffers elsewhere(graph.blueprint(), kMost, kMost);
  EXPECT_THROW(in_floats->build(graph.subgraph(), kStep, graph.store(), elsewhere), Error);
}

// Runs attention of a prompt over what an earlier one has left in the cache, and of a tree behind
// it.
struct CacheRun {
  CacheRun(Lane& lane, SmallGraph& graph, Type type)
      : lane(lane),
        graph(graph),
        run(lane, graph),
        kv({1, 3, 32, type, 1000}, pieces_of(lane.memory())),
        sequence(kv.open()) {}

  // Returns all values of the pass, and the rows of the cache.
  std::vector<float> attend(const cache::Batch& batch, const std::vector<int>& kept,
                            std::vector<std::byte>* rows) {
    const auto executable =
        lane.build(graph.subgraph(), {plan::Phase::kStep, kMost}, graph.store(), run.buffers());
    run.fill(1);
    if (odd_key) run.buffers().view(1, 1).floats()[3] = *odd_key;
    cache::PlacedBatch placed;
    kv.place(batch, &placed);
    lanes::Run arguments = run.arguments(plan::Phase::kStep, batch.size(), 1);
    arguments.kv = &kv;
    arguments.slots = placed.slots;
    arguments.visible = placed.visible;
    lanes::Ended ended;
    lane.submit(*executable, arguments, ended);
    ended.latch.wait();
    EXPECT_EQ(ended.status, Status::kDone) << lane.problem();
    for (const cache::Slot slot : placed.slots) {
      for (int head = 0; head < 3; ++head) {
        for (const std::byte* row : {kv.key_row(0, slot, head), kv.value_row(0, slot, head)}) {
          rows->insert(rows->end(), row, row + kv.shape().head_bytes());
        }
      }
    }
    kept.empty() ? kv.keep_all(batch, placed) : kv.keep(batch, placed, kept);
    return run.read(1);
  }

  Lane& lane;
  SmallGraph& graph;
  GraphRun run;
  cache::KvCache kv;
  cache::SequenceId sequence;
  std::optional<float> odd_key;  // one element of the first token's key
};

TEST_F(OpenclLanes, AttentionOverTheCacheIsNearThatOfCores) {
  const std::vector<cache::Token> tokens(kMost, 0);
  for (const Type type : {Type::kF32, Type::kF16, Type::kQ8_0}) {
    for (const int window : {0, 19}) {
      SmallGraph graph(Type::kF32);
      graph.blueprint().head_dim = 32;
      for (const int width : {192, 96, 96, 192}) graph.add_value(width);
      model::Op& op = graph.add_op(OpKind::kAttention, {0, 1, 2}, 3);
      op.scale = 0.3f;
      op.window = window;
      op.soft_cap = window > 0 ? 2.0f : 0.0f;
      OpenclLane device_lane(found_.device, found_.options, kernels_.table,
                             {Activations::kF32, Prefill::kF32, type});
      const auto host_lane = host(Prefill::kF32);
      CacheRun on_device(device_lane, graph, type), on_host(*host_lane, graph, type);
      const auto compare = [&](const cache::Batch& batch, const std::vector<int>& kept) {
        std::vector<std::byte> of_device, of_host;
        const auto found = on_device.attend(batch, kept, &of_device);
        const auto expected = on_host.attend(batch, kept, &of_host);
        EXPECT_LE(difference(expected, found), 2e-6f) << tensor::type_name(type);
        EXPECT_TRUE(of_device == of_host) << tensor::type_name(type);
      };
      // The batches fill more than a page.
      for (int i = 0; i < 14; ++i) {
        cache::Batch batch;
        batch.add_chain(tokens, i * kMost, 0);
        compare(batch, {});
      }
      cache::Batch tree;
      const int length = 14 * kMost;
      tree.add_chain(std::span(tokens).first(3), length, 0);
      for (const int parent : {0, 1, 1}) {
        cache::Batch::Row row = tree.rows[static_cast<size_t>(parent)];
        row.position += 1;
        row.parent = parent;
        tree.rows.push_back(row);
      }
      compare(tree, {0, 1, 4});
      EXPECT_EQ(device_lane.note().find("Cores compute"), std::string::npos) << device_lane.note();
    }
  }
}

// A cache must not hide from who reads it what it has no room for.
TEST_F(OpenclLanes, WhatACacheCannotHoldIsNoNumberAsOnCores) {
  SmallGraph graph(Type::kF32);
  graph.blueprint().head_dim = 32;
  for (const int width : {192, 96, 96, 192}) graph.add_value(width);
  graph.add_op(OpKind::kAttention, {0, 1, 2}, 3).scale = 0.3f;
  const std::vector<cache::Token> tokens(3, 0);
  for (const Type type : {Type::kF32, Type::kF16, Type::kQ8_0}) {
    OpenclLane device_lane(found_.device, found_.options, kernels_.table,
                           {Activations::kF32, Prefill::kF32, type});
    const auto host_lane = host(Prefill::kF32);
    for (const float odd : {3e4f, 127.0f * 65504.0f, 1e9f, -1e9f, INFINITY, std::nanf("")}) {
      CacheRun on_device(device_lane, graph, type), on_host(*host_lane, graph, type);
      on_device.odd_key = on_host.odd_key = odd;
      cache::Batch batch;
      batch.add_chain(tokens, 0, 0);
      std::vector<std::byte> of_device, of_host;
      const auto found = on_device.attend(batch, {}, &of_device);
      const auto expected = on_host.attend(batch, {}, &of_host);
      EXPECT_TRUE(std::isnan(odd) || of_device == of_host) << tensor::type_name(type) << " " << odd;
      // The first output is that of the head with this key.
      const size_t out = found.size() - 192 * size_t{SmallGraph::kMostTokens};
      EXPECT_EQ(std::isnan(found[out]), std::isnan(expected[out]))
          << tensor::type_name(type) << " " << odd;
    }
  }
}

// In prompts in int8 cores attend, and read the lists of positions that a run has.
TEST_F(OpenclLanes, WhatARunBringsAlongIsCopiedForKernelsAlone) {
  SmallGraph graph(Type::kF32);
  for (const int width : {144, 72, 72, 144}) graph.add_value(width);
  graph.add_op(OpKind::kAttention, {0, 1, 2}, 3);
  graph.add_op(OpKind::kAdd, {0, 3}, 0);
  const auto lane = device(Prefill::kInt8);
  const Buffers buffers(graph.blueprint(), kMost, kMost, true, 1, lane->memory());
  const auto copied = [&](size_t op, plan::Shape shape) {
    Subgraph subgraph = graph.subgraph();
    subgraph.ops = subgraph.ops.subspan(op, 1);
    const size_t before = lane->held_bytes();
    const auto built = lane->build(subgraph, shape, graph.store(), buffers);
    const auto& executable = static_cast<const OpenclExecutable&>(*built);
    if (executable.reads_run()) {
      EXPECT_GT(lane->held_bytes(), before);
    }
    return std::pair(executable.reads_run(), executable.sees_positions());
  };
  EXPECT_EQ(copied(1, kPrompt), std::pair(false, false));
  EXPECT_EQ(copied(1, kStep), std::pair(true, false));
  EXPECT_EQ(copied(0, {plan::Phase::kStep, 2 * kMost}), std::pair(true, true));
  EXPECT_EQ(copied(0, kPrompt), std::pair(false, false));
}

TEST_F(OpenclLanes, HeadsOfAttentionHaveTheBitsOfTheWhole) {
  SmallGraph graph(Type::kF32);
  graph.blueprint().head_dim = 32;
  for (const int width : {192, 96, 96, 192}) graph.add_value(width);
  graph.add_op(OpKind::kAttention, {0, 1, 2}, 3).scale = 0.3f;
  const auto lane = device(Prefill::kF32);
  GraphRun run(*lane, graph);
  const auto values_of = [&](const std::vector<Range>& parts) {
    cache::KvCache kv({1, 3, 32, Type::kF16, 1000}, pieces_of(lane->memory()));
    kv.open();
    cache::Batch batch;
    batch.add_chain(std::vector<cache::Token>(kMost, 0), 0, 0);
    cache::PlacedBatch placed;
    kv.place(batch, &placed);
    lanes::Run arguments = run.arguments(plan::Phase::kStep, kMost, 0);
    arguments.kv = &kv;
    arguments.slots = placed.slots;
    arguments.visible = placed.visible;
    run.fill(0);
    for (const Range& heads : parts) {
      Subgraph part = graph.subgraph();
      part.slice.heads = heads;
      const auto executable = lane->build(part, kStep, graph.store(), run.buffers());
      lanes::Ended ended;
      lane->submit(*executable, arguments, ended);
      ended.latch.wait();
      EXPECT_EQ(ended.status, Status::kDone) << lane->problem();
    }
    return run.read(0);
  };
  const std::vector<float> whole = values_of({{}});
  EXPECT_TRUE(values_of({{0, 2}, {2, 3}}) == whole);
  EXPECT_FALSE(values_of({{0, 2}}) == whole);
}

TEST_F(OpenclLanes, ACacheElsewhereFailsTheTask) {
  SmallGraph graph(Type::kF32);
  graph.blueprint().head_dim = 32;
  for (const int width : {192, 96, 96, 192}) graph.add_value(width);
  graph.add_op(OpKind::kAttention, {0, 1, 2}, 3);
  const auto lane = device(Prefill::kF32);
  GraphRun run(*lane, graph);
  cache::KvCache kv({1, 3, 32, Type::kF16, 1000});
  kv.open();
  cache::Batch batch;
  batch.add_chain(std::vector<cache::Token>(2, 0), 0, 0);
  cache::PlacedBatch placed;
  kv.place(batch, &placed);
  lanes::Run arguments = run.arguments(plan::Phase::kStep, 2, 0);
  arguments.kv = &kv;
  arguments.slots = placed.slots;
  arguments.visible = placed.visible;
  const auto executable = lane->build(graph.subgraph(), kStep, graph.store(), run.buffers());
  lanes::Ended ended;
  lane->submit(*executable, arguments, ended);
  ended.latch.wait();
  EXPECT_EQ(ended.status, Status::kFailed);
  EXPECT_NE(lane->problem().find("does not share"), std::string::npos) << lane->problem();
}

// The thread that reported the last task may still be in the lane.
TEST_P(OpenclQueues, ALaneMayBeDestroyedAsSoonAsItsTaskHasEnded) {
  SmallGraph graph = SmallGraph::block(Type::kQ8_0, 256, 512);
  for (int i = 0; i < 30; ++i) {
    lanes::Ended ended[2];
    const auto lane = device(Prefill::kF32, nullptr, GetParam());
    GraphRun run(*lane, graph);
    const auto executable = lane->build(graph.subgraph(), kStep, graph.store(), run.buffers());
    const lanes::Run arguments = run.arguments(plan::Phase::kStep, 3, 0);
    for (lanes::Ended& one : ended) lane->submit(*executable, arguments, one);
    for (lanes::Ended& one : ended) {
      one.latch.wait();
      EXPECT_EQ(one.status, Status::kDone);
    }
  }
}

}  // namespace
}  // namespace troika::lanes::opencl
