// Holds lanes of all kinds to one behaviour: each op has the results of cores, or a sentence
// refuses it, for odd sizes, extreme values and runs of fewer rows than were built. A task that
// fails is told with a reason, and the lane goes on.
#include <gtest/gtest.h>

#include <atomic>
#include <bit>
#include <cctype>
#include <cmath>
#include <functional>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "kernels/choose.h"
#include "lanes/capped_lane.h"
#include "lanes/host/host_lane.h"
#include "lanes/opencl/opencl_lane.h"
#include "lanes/opencl/test_support.h"
#include "lanes/threaded_lane.h"
#include "lanes/vendor/test_support.h"
#include "lanes/vendor/vendor_lane.h"
#include "lanes/virtual/virtual_lane.h"
#include "tests/support/repository.h"

namespace troika::lanes {
namespace {

using model::OpKind;
using opencl::GraphRun;
using opencl::SmallGraph;
using plan::Phase;
using plan::Prefill;

constexpr int kMostRows = SmallGraph::kMostTokens;
// Neither a strip of 16 rows nor a group of 32 levels divides these.
constexpr int kOddWidth = 150, kOddMiddle = 71;

// Says that drivers refuse every task, and that weights which tasks read are not there.
std::atomic<bool> is_lost;

// A class of numbers in which lanes are asked to compute.
struct NumberClass {
  const char* name;
  Phase phase;
  Prefill prefill;
  float bound;  // 0: results are equal to the bit
};
constexpr NumberClass kNumberClasses[] = {
    {"prompts in int8", Phase::kPrompt, Prefill::kInt8, 0.0f},
    {"prompts in floats", Phase::kPrompt, Prefill::kF32, 2e-6f},
    {"steps in floats", Phase::kStep, Prefill::kF32, 2e-6f},
};

// A lane, and what it needs to live. Without a lane, `problem` says why there is none.
struct MadeLane {
  std::vector<std::shared_ptr<void>> behind;
  std::unique_ptr<Lane> lane;
  std::string problem = {};
  std::function<void(const Latch&)> wait = [](const Latch& latch) { latch.wait(); };
};

std::unique_ptr<HostLane> host_lane(const kernels::Table& table, Prefill prefill,
                                    int n_threads = 1) {
  return std::make_unique<HostLane>(table, plan::PlannedLane{{}, n_threads},
                                    plan::Activations::kF32, prefill);
}

MadeLane make_host(const kernels::Table& table, Prefill prefill) {
  return {{}, host_lane(table, prefill, 2)};
}

MadeLane make_threaded(const kernels::Table& table, Prefill prefill) {
  return {{}, std::make_unique<ThreadedLane>(host_lane(table, prefill))};
}

MadeLane make_capped(const kernels::Table& table, Prefill prefill) {
  const auto clock = std::make_shared<RealClock>();
  return {{clock}, std::make_unique<CappedLane>(host_lane(table, prefill), 0.9, *clock)};
}

// A processor of a phone, with the values that a lane of this machine computes.
struct PhoneOfOneLane {
  PhoneOfOneLane(const kernels::Table& table, Prefill prefill)
      : model(plan::read_phone(test::repository_file("phones/8gen3.json")),
              plan::read_stack(test::repository_file("phones/stacks/heterollm.json"))),
        machine(model.bus({Processor::kGpu})),
        values(host_lane(table, prefill)) {}

  CostModel model;
  VirtualMachine machine;
  std::unique_ptr<HostLane> values;
};

MadeLane make_virtual(const kernels::Table& table, Prefill prefill) {
  const auto phone = std::make_shared<PhoneOfOneLane>(table, prefill);
  VirtualLaneOptions options;
  options.processor = Processor::kGpu;
  options.values = phone->values.get();
  MadeLane made = {{phone}, std::make_unique<VirtualLane>(phone->machine, phone->model, options)};
  made.wait = [phone](const Latch& latch) { phone->machine.wait(latch); };
  return made;
}

decltype(opencl::Api::run_kernel) run_kernel_of_driver;

MadeLane opencl_lane(const kernels::Table& table, Prefill prefill, bool is_like_gpu) {
  opencl::FoundDevice found = opencl::find_device();
  if (found.device == nullptr) return {{}, nullptr, found.problem};
  opencl::Api api = found.device->api();
  run_kernel_of_driver = api.run_kernel;
  api.run_kernel = [](opencl::Queue queue, opencl::Kernel kernel, opencl::UInt n,
                      const size_t* first, const size_t* sizes, const size_t* together,
                      opencl::UInt n_events, const opencl::Event* events, opencl::Event* event) {
    constexpr opencl::Int kOutOfResources = -5;
    if (is_lost) return kOutOfResources;
    return run_kernel_of_driver(queue, kernel, n, first, sizes, together, n_events, events, event);
  };
  const auto device =
      std::make_shared<const opencl::Device>(std::make_shared<const opencl::Library>(api), 0);
  found.options.is_like_gpu = is_like_gpu;
  const OpenclPrecision precision = {plan::Activations::kF32, prefill, tensor::Type::kF32};
  return {{}, std::make_unique<OpenclLane>(device, found.options, table, precision)};
}

MadeLane make_opencl(const kernels::Table& table, Prefill prefill) {
  return opencl_lane(table, prefill, /*is_like_gpu=*/false);
}

MadeLane make_opencl_gpu(const kernels::Table& table, Prefill prefill) {
  return opencl_lane(table, prefill, /*is_like_gpu=*/true);
}

decltype(openvino::Api::infer) infer_of_library;

MadeLane make_vendor(const kernels::Table& table, Prefill prefill) {
  const openvino::FoundLibrary found = openvino::find_library();
  if (found.library == nullptr) return {{}, nullptr, found.problem};
  openvino::Api api = found.library->api();
  infer_of_library = api.infer;
  api.infer = [](openvino::Request* request) {
    constexpr openvino::Status kGeneralError = -1;
    return is_lost ? kGeneralError : infer_of_library(request);
  };
  const auto library = std::make_shared<openvino::Library>(api);
  library->limit_threads("CPU", 1);
  return {{},
          std::make_unique<VendorLane>(library, VendorOptions{"", "CPU", {}}, table,
                                       plan::Activations::kF32, prefill)};
}

// A graph of one op, or of few that belong together, over values of odd widths.
struct OpCase {
  const char* name;
  std::function<void(SmallGraph&)> add;
  bool is_product = false;
  bool is_dynamic = false;  // what is computed follows from what tokens see or choose
};

void add_mixture(SmallGraph& g) {
  g.blueprint().n_experts = 5;
  g.blueprint().n_experts_used = 2;
  const auto x = g.add_value(kOddWidth), logits = g.add_value(5), routes = g.add_value(4);
  const auto parts = g.add_value(2 * kOddMiddle), back = g.add_value(2 * kOddWidth);
  const auto y = g.add_value(kOddWidth);
  g.add_op(OpKind::kRoute, {logits}, routes).normalizes_shares = true;
  g.add_op(OpKind::kExpertLinear, {x, routes}, parts, g.add_matrix(5 * kOddMiddle, kOddWidth));
  g.add_op(OpKind::kExpertLinear, {parts, routes}, back, g.add_matrix(5 * kOddWidth, kOddMiddle))
      .takes_parts = true;
  g.add_op(OpKind::kExpertSum, {back, routes}, y);
}

void add_attention(SmallGraph& g) {
  for (const int width : {144, 72, 72, 144}) g.add_value(width);
  g.add_op(OpKind::kAttention, {0, 1, 2}, 3).scale = 0.3f;
}

// Adds an op from one value of kOddWidth, or two, to another one.
std::function<void(SmallGraph&)> one_op(OpKind kind, bool has_two = false,
                                        std::function<void(model::Op&)> change = {}) {
  return [=](SmallGraph& g) {
    std::vector<model::ValueId> inputs = {g.add_value(kOddWidth)};
    if (has_two) inputs.push_back(g.add_value(kOddWidth));
    model::Op& op = g.add_op(kind, inputs, g.add_value(kOddWidth));
    if (change) change(op);
  };
}

std::vector<OpCase> op_cases() {
  std::vector<OpCase> cases = {
      {"product",
       [](SmallGraph& g) {
         const auto x = g.add_value(kOddWidth), y = g.add_value(kOddMiddle);
         const auto bias = g.add_vector(kOddMiddle);
         g.add_op(OpKind::kLinear, {x}, y, g.add_matrix(kOddMiddle, kOddWidth)).bias = bias;
       },
       true},
      {"norm",
       [](SmallGraph& g) {
         const auto x = g.add_value(kOddWidth), y = g.add_value(kOddWidth);
         g.add_op(OpKind::kRmsNorm, {x}, y, g.add_vector(kOddWidth));
       }},
      {"norm of heads", one_op(OpKind::kRmsNorm, false, [](model::Op& op) { op.n_heads = 6; })},
      {"layer norm", one_op(OpKind::kLayerNorm)},
      {"sum", one_op(OpKind::kAdd, true)},
      {"soft cap", one_op(OpKind::kSoftCap, false, [](model::Op& op) { op.soft_cap = 1.5f; })},
      {"sigmoid gate",
       [](SmallGraph& g) {
         const auto x = g.add_value(kOddWidth), share = g.add_value(1);
         g.add_op(OpKind::kSigmoidGate, {x, share}, g.add_value(kOddWidth));
       }},
      {"choice of rows",
       [](SmallGraph& g) {
         const auto x = g.add_value(kOddWidth);
         g.add_op(OpKind::kSelect, {x}, g.add_value(kOddWidth, true));
       }},
      {"embedding",
       [](SmallGraph& g) {
         const auto y = g.add_value(kOddWidth);
         g.add_op(OpKind::kEmbed, {}, y, g.add_matrix(19, kOddWidth)).scale = 12.5f;
       }},
      {"rotation",
       [](SmallGraph& g) {
         const auto x = g.add_value(6 * 24);
         g.add_op(OpKind::kRope, {x}, x).n_heads = 6;
       }},
      {"attention", add_attention, false, true},
      {"experts", add_mixture, false, true},
  };
  for (const auto activation : {model::Activation::kSilu, model::Activation::kGelu,
                                model::Activation::kRelu, model::Activation::kDoubleRelu}) {
    const auto set = [=](model::Op& op) { op.activation = activation; };
    cases.push_back({"gate", one_op(OpKind::kGate, true, set)});
    cases.push_back({"activation", one_op(OpKind::kActivate, false, set)});
  }
  return cases;
}

struct LaneKind {
  const char* name;
  MadeLane (*make)(const kernels::Table&, Prefill);
  bool is_driver;  // tasks fail where a driver does, else where weights are not there
  // Says whether the lane refuses an op.
  bool (*refuses)(const NumberClass&, const OpCase&);
};
void PrintTo(const LaneKind& kind, std::ostream* out) { *out << kind.name; }

bool refuses_nothing(const NumberClass&, const OpCase&) { return false; }
bool refuses_what_is_not_static(const NumberClass& numbers, const OpCase& op) {
  return numbers.phase == Phase::kStep || op.is_dynamic ||
         (op.is_product && numbers.prefill == Prefill::kF32);
}
constexpr LaneKind kLaneKinds[] = {
    {"Host", make_host, false, refuses_nothing},
    {"Threaded", make_threaded, false, refuses_nothing},
    {"Capped", make_capped, false, refuses_nothing},
    {"Virtual", make_virtual, false, refuses_nothing},
    {"Opencl", make_opencl, true, refuses_nothing},
    {"OpenclAsOnGpu", make_opencl_gpu, true, refuses_nothing},
    {"Vendor", make_vendor, true, refuses_what_is_not_static},
};

// Tells that weights are not there while they are lost. It has no experts.
class LostWeights : public weights::ExpertSource {
 public:
  LostWeights() : ExpertSource({}) {}
  bool takes_guesses() const override { return false; }
  void want(int, std::span<const int32_t>, Phase) override {}
  void guess(int, std::span<const int32_t>) override {}
  Rows take(Place, int) override { return {}; }
  void finish(int) override {}
  WaitTimes waited() const override { return {}; }
  std::optional<std::string> take_problem() override {
    if (is_lost) return "weights have gone away";
    return std::nullopt;
  }
};

void prepare_int8(SmallGraph& graph) {
  std::vector<model::WeightId> packed, all;
  for (const model::Op& op : graph.blueprint().ops) {
    if (op.kind != OpKind::kLinear) continue;
    if (all.empty()) packed.push_back(op.weight);
    all.push_back(op.weight);
  }
  graph.store().pack_int8(packed, 1);
  graph.store().measure_int8(all, 1);
}

// Fills some rows of all values with what a model computes only by mistake.
void fill_extremes(const SmallGraph& graph, const Buffers& buffers) {
  const auto width_of = [&](size_t id) {
    return static_cast<size_t>(graph.blueprint().values[id].width);
  };
  for (size_t id = 0; id < graph.blueprint().values.size(); ++id) {
    const size_t width = width_of(id);
    float* const rows = buffers.view(static_cast<model::ValueId>(id), 1).floats();
    rows[1 * width + width / 2] = INFINITY;
    rows[2 * width + width / 3] = NAN;
    for (size_t i = 0; i < width; ++i) {
      rows[3 * width + i] *= 1e15f;  // has squares that floats hold
      rows[4 * width + i] *= 1e-39f;
      rows[5 * width + i] = 0.0f;
    }
    rows[6 * width] = -INFINITY;
  }
}

// A graph on a lane, with a cache over which it attends.
class LaneRun {
 public:
  LaneRun(MadeLane& made, SmallGraph& graph)
      : made_(made), graph_(graph), values_(*made.lane, graph) {}

  std::unique_ptr<Executable> build(plan::Shape shape) {
    return made_.lane->build(graph_.subgraph(), shape, graph_.store(), values_.buffers());
  }
  // Submits the graph some times and waits for all of them. Returns how they ended.
  std::vector<Status> run(const Executable& executable, Phase phase, int n_tokens,
                          bool has_extremes, int n_times = 1) {
    values_.fill(1);
    if (has_extremes) fill_extremes(graph_, values_.buffers());
    const model::Blueprint& b = graph_.blueprint();
    cache::KvCache kv({1, b.n_kv_heads, b.head_dim, tensor::Type::kF32, 1000},
                      pieces_of(made_.lane->memory()));
    kv.open();
    cache::Batch batch;
    batch.add_chain(std::vector<cache::Token>(static_cast<size_t>(n_tokens), 0), 0, 0);
    cache::PlacedBatch placed;
    kv.place(batch, &placed);
    lanes::Run run = values_.arguments(phase, n_tokens, 1);
    run.kv = &kv;
    run.slots = placed.slots;
    run.visible = placed.visible;
    std::vector<Ended> ended(static_cast<size_t>(n_times));
    for (Ended& one : ended) made_.lane->submit(executable, run, one);
    std::vector<Status> all;
    for (Ended& one : ended) {
      made_.wait(one.latch);
      all.push_back(one.status);
    }
    return all;
  }
  std::vector<float> read() const { return values_.read(1); }

 private:
  MadeLane& made_;
  SmallGraph& graph_;
  GraphRun values_;
};

// Says whether two numbers are apart by no more than `most`, or equal to the bit where that is 0.
bool is_alike(float expected, float found, float most) {
  if (most > 0.0f) {
    return std::isfinite(expected) ? std::fabs(expected - found) <= most : !std::isfinite(found);
  }
  return std::bit_cast<uint32_t>(expected) == std::bit_cast<uint32_t>(found) ||
         (std::isnan(expected) && std::isnan(found));
}

// Expects the same numbers within a share of the largest of their row. What is no finite number
// must not be one on the other side either.
void expect_alike(const SmallGraph& graph, const std::vector<float>& expected,
                  const std::vector<float>& found, float bound, const std::string& what) {
  constexpr float kNothing = 1e-30f;  // devices may make 0 of numbers below this
  ASSERT_EQ(found.size(), expected.size());
  size_t at = 0;
  for (const model::Value& value : graph.blueprint().values) {
    for (int row = 0; row < kMostRows; ++row, at += static_cast<size_t>(value.width)) {
      float largest = kNothing;
      const auto end = at + static_cast<size_t>(value.width);
      for (size_t i = at; i < end; ++i) {
        if (std::isfinite(expected[i])) largest = std::max(largest, std::fabs(expected[i]));
      }
      for (size_t i = at; i < end; ++i) {
        ASSERT_TRUE(is_alike(expected[i], found[i], bound * largest))
            << what << ", " << value.name << ", row " << row << ", column " << i - at << ": "
            << found[i] << " in place of " << expected[i];
      }
    }
  }
}

void expect_sentence(const std::string& text) {
  ASSERT_FALSE(text.empty());
  EXPECT_TRUE(std::isupper(static_cast<unsigned char>(text.front()))) << text;
  EXPECT_EQ(text.back(), '.') << text;
}

class LaneConformance : public testing::TestWithParam<LaneKind> {
 protected:
  LaneConformance()
      : kernels_(kernels::choose(detect_cpu_features())),
        plain_(kernels::choose(detect_cpu_features(), "reference")) {}

  // Compares an op on the lane and on cores, for two numbers of rows, each in full and in part.
  void compare(MadeLane& made, const NumberClass& numbers, const OpCase& op) {
    SmallGraph graph(tensor::Type::kF32);
    op.add(graph);
    if (numbers.prefill == Prefill::kInt8) prepare_int8(graph);
    // Bits are those of this processor's kernels; what need only be near is judged by plain ones.
    const bool is_exact = numbers.bound == 0.0f;
    MadeLane judge = {{}, host_lane(is_exact ? kernels_.table : plain_.table, numbers.prefill)};
    LaneRun of_lane(made, graph), of_judge(judge, graph);
    for (const int n_built : {kMostRows, 9}) {
      const plan::Shape shape = {numbers.phase, n_built};
      const std::string what =
          std::string(op.name) + " of " + std::to_string(n_built) + " rows, " + numbers.name;
      std::unique_ptr<Executable> executable;
      std::string refusal;
      try {
        executable = of_lane.build(shape);
      } catch (const Error& error) {
        refusal = error.what();
      }
      ASSERT_EQ(!refusal.empty(), GetParam().refuses(numbers, op)) << what << ": " << refusal;
      if (!refusal.empty()) {
        expect_sentence(refusal);
        continue;
      }
      const auto on_cores = of_judge.build(shape);
      for (const int n_tokens : {n_built, n_built - 2, 1}) {
        const bool has_extremes = n_tokens < n_built && n_tokens > 1;
        const auto status = of_lane.run(*executable, numbers.phase, n_tokens, has_extremes);
        ASSERT_EQ(status.front(), Status::kDone) << what << ": " << made.lane->problem();
        of_judge.run(*on_cores, numbers.phase, n_tokens, has_extremes);
        expect_alike(graph, of_judge.read(), of_lane.read(), numbers.bound, what);
      }
    }
  }

  kernels::Kernels kernels_, plain_;
};

TEST_P(LaneConformance, EachOpHasTheResultsOfCoresOrIsRefused) {
  for (const NumberClass& numbers : kNumberClasses) {
    MadeLane made = GetParam().make(kernels_.table, numbers.prefill);
    if (made.lane == nullptr) GTEST_SKIP() << made.problem;
    for (const OpCase& op : op_cases()) compare(made, numbers, op);
  }
}

TEST_P(LaneConformance, ATaskThatFailsIsToldWithAReasonAndTheLaneGoesOn) {
  int n_classes = 0;
  for (const NumberClass& numbers : kNumberClasses) {
    MadeLane made = GetParam().make(kernels_.table, numbers.prefill);
    if (made.lane == nullptr) GTEST_SKIP() << made.problem;
    SmallGraph graph = SmallGraph::block(tensor::Type::kF32, kOddWidth, kOddMiddle);
    if (numbers.prefill == Prefill::kInt8) prepare_int8(graph);
    LostWeights weights;
    if (!GetParam().is_driver) graph.store().set_experts(&weights);
    LaneRun run(made, graph);
    std::unique_ptr<Executable> executable;
    try {
      executable = run.build({numbers.phase, 5});
    } catch (const Error&) {
      continue;  // refused, as the test above expects
    }
    ++n_classes;
    ASSERT_EQ(run.run(*executable, numbers.phase, 5, false).front(), Status::kDone);
    const std::vector<float> expected = run.read();
    // A queue holds several tasks when its device is lost.
    const int n_tasks = std::min(made.lane->info().queue_depth, 3);
    is_lost = true;
    const std::vector<Status> ended = run.run(*executable, numbers.phase, 5, false, n_tasks);
    is_lost = false;
    for (const Status status : ended) EXPECT_EQ(status, Status::kFailed) << numbers.name;
    EXPECT_FALSE(made.lane->problem().empty()) << numbers.name;
    ASSERT_EQ(run.run(*executable, numbers.phase, 5, false).front(), Status::kDone);
    EXPECT_TRUE(run.read() == expected) << numbers.name;
  }
  EXPECT_GT(n_classes, 0);
}

INSTANTIATE_TEST_SUITE_P(All, LaneConformance, testing::ValuesIn(kLaneKinds),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace troika::lanes
