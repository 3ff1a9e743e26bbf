#include "schedule/shared_graphs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "forge/hollow.h"
#include "model/architecture.h"
#include "model/known.h"
#include "schedule/chunks.h"
#include "schedule/policy.h"
#include "schedule/runner.h"

namespace troika::schedule {
namespace {

struct HollowOne {
  explicit HollowOne(const char* name) : hollow(model::get_known(name), "q8_0") {}
  forge::HollowModel hollow;
  gguf::File file = hollow.open();
  model::Blueprint blueprint = model::read(file);
  weights::Store weights{file, blueprint};
};

size_t n_activations(const lanes::Subgraph& subgraph) {
  return static_cast<size_t>(std::ranges::count_if(subgraph.ops, [](const model::Op& op) {
    return op.kind == model::OpKind::kGate || op.kind == model::OpKind::kActivate;
  }));
}

plan::Plan plan_of_chunks(int chunk) {
  plan::Plan plan;
  plan.step_shapes = {1};
  plan.prompt_shapes = {chunk};
  plan.output_shapes = {1};
  plan.splits.at_norms = true;
  return plan;
}

// A machine that computes nothing. It counts what its lanes build, and how often each of these
// runs.
class CountingMachine : public lanes::Machine {
 public:
  CountingMachine() {
    for (Counter& lane : counters_) lane.ended = &ended_;
  }
  std::span<lanes::Lane* const> lanes() const override { return lanes_; }
  const Clock& clock() const override { return clock_; }
  void wait(const lanes::Latch& latch) override {
    while (!latch.is_open()) {
      ASSERT_FALSE(ended_.empty()) << "nothing runs and the pass has not ended";
      lanes::Completion* completion = ended_.back();
      ended_.pop_back();
      completion->finished(lanes::Status::kDone);
    }
  }

  size_t n_built() const { return counters_[0].n_built + counters_[1].n_built; }
  // Returns how often each executable ran, if it ran.
  std::map<const lanes::Executable*, int> n_runs() const {
    std::map<const lanes::Executable*, int> runs = counters_[0].n_runs;
    for (const auto& [executable, n] : counters_[1].n_runs) runs[executable] += n;
    return runs;
  }

 private:
  struct Built : lanes::Executable {
    explicit Built(int n_tokens) : Executable(n_tokens) {}
  };
  struct Counter : lanes::Lane {
    const lanes::LaneInfo& info() const override { return lane_info; }
    std::unique_ptr<lanes::Executable> build(const lanes::Subgraph&, plan::Shape shape,
                                             const weights::Store&,
                                             const lanes::Buffers&) override {
      ++n_built;
      return std::make_unique<Built>(shape.n_rows);
    }
    void submit(const lanes::Executable& executable, const lanes::Run&,
                lanes::Completion& completion) override {
      ++n_runs[&executable];
      ended->push_back(&completion);
    }
    lanes::LaneInfo lane_info;
    size_t n_built = 0;
    std::map<const lanes::Executable*, int> n_runs;
    std::vector<lanes::Completion*>* ended = nullptr;
  };

  RealClock clock_;
  std::vector<lanes::Completion*> ended_;
  Counter counters_[2];
  std::vector<lanes::Lane*> lanes_ = {&counters_[0], &counters_[1]};
};

TEST(SharedGraphs, N2_AllButAttentionIsShared) {
  const HollowOne m("qwen1.5-1.8b");
  plan::Plan plan = plan_of_chunks(256);
  const SharedGraphs shared = count_shared(m.blueprint, m.weights, plan);
  EXPECT_EQ(shared.n_subgraphs, 144);  // stands in llm.npu §3.2
  EXPECT_EQ(shared.n_static, 120);
  EXPECT_GT(shared.weight_bytes, size_t{1'200'000'000});
  EXPECT_LT(shared.weight_bytes, m.weights.total_bytes());
  EXPECT_GT(shared.static_buffer_bytes, shared.dynamic_buffer_bytes);
  plan.splits.at_norms = false;
  EXPECT_EQ(count_shared(m.blueprint, m.weights, plan).n_subgraphs, 3 * 24);
}

// Each chunk length has one list, however many chunks a prompt has.
TEST(SharedGraphs, N2_ExecutablesAreBuiltOnceAndRunByEveryChunk) {
  constexpr int kChunk = 256, kChunks = 5;
  const HollowOne m("qwen1.5-1.8b");
  plan::Plan plan = plan_of_chunks(kChunk);
  plan.lanes = {{}, {}};
  plan.placements = {{"attention", 0, 1}};
  plan.context = kChunks * kChunk;
  CountingMachine machine;
  const Graphs graphs(m.blueprint, plan, machine, m.weights, {.has_values = false});
  const TaskList& list = graphs.body(plan::Phase::kPrompt, kChunk);
  const int n_shared = count_shared(m.blueprint, m.weights, plan).n_static;
  size_t n_tasks = 0, n_static = 0;
  for (const TaskList& body : graphs.bodies()) n_tasks += body.tasks.size();
  for (const TaskList& head : graphs.heads()) n_tasks += head.tasks.size();
  for (const Task& task : list.tasks) n_static += !task.is_dynamic && task.block != model::kNone;
  EXPECT_EQ(graphs.bodies().size(), 2u);  // are for steps of one token, and for chunks
  EXPECT_EQ(machine.n_built(), n_tasks);
  EXPECT_EQ(n_static, static_cast<size_t>(n_shared));

  for (const plan::Order order :
       {plan::Order::kInOrder, plan::Order::kLockStep, plan::Order::kOutOfOrder}) {
    plan.order = order;
    const int n_sets = plan.n_buffer_sets();
    const std::map<const lanes::Executable*, int> before = machine.n_runs();
    const std::vector<const TaskList*> chunks(kChunks, &list);
    std::vector<lanes::Run> runs(kChunks);
    for (size_t i = 0; i < runs.size(); ++i) {
      runs[i].n_tokens = kChunk;
      runs[i].buffer_set = buffer_set_of(i, n_sets);
    }
    const std::unique_ptr<Policy> policy = make_policy(order);
    Runner(machine).run(pass_of_chunks(chunks, order, n_sets), runs, {policy.get()});
    std::map<const lanes::Executable*, int> after = machine.n_runs();
    EXPECT_EQ(after.size(), list.tasks.size());
    for (const Task& task : list.tasks) {
      const auto earlier = before.find(task.executable.get());
      const int n_earlier = earlier == before.end() ? 0 : earlier->second;
      EXPECT_EQ(after[task.executable.get()] - n_earlier, kChunks)
          << task.name << " of block " << task.block << ", " << plan::order_name(order);
    }
    EXPECT_EQ(machine.n_built(), n_tasks) << "a prompt builds nothing";
  }
}

// Whoever predicts a pass asks the plan which executables it takes, and whoever runs it asks the
// graphs.
TEST(Graphs, H4_APassTakesTheListThatThePlanNames) {
  const HollowOne m("tiny-llama");
  CountingMachine machine;
  for (const plan::Prefill prefill : {plan::Prefill::kSame, plan::Prefill::kQ8}) {
    plan::Plan plan;
    plan.prefill = prefill;
    plan.lanes = {{}, {}};
    plan.step_shapes = {1, 8};
    plan.prompt_shapes = {64, 256};
    plan.output_shapes = {1};
    plan.lengths = {plan::length_from_text("0:32,1:16"), plan::length_from_text("0:64,1:32"),
                    plan::length_from_text("0:128,1:32"), plan::length_from_text("0:128,1:128"),
                    plan::length_from_text("1:256,0:44")};
    const Graphs graphs(m.blueprint, plan, machine, m.weights, {.has_values = false});
    std::set<plan::Shape> taken;
    for (const plan::Phase phase : {plan::Phase::kStep, plan::Phase::kPrompt}) {
      const bool has_prompts = plan.has_one_class() || phase == plan::Phase::kPrompt;
      for (int n = 1; n <= (has_prompts ? plan.most_rows() : plan.step_shapes.back()); ++n) {
        const plan::Shape wanted = plan.body_shape(phase, n);
        EXPECT_EQ(graphs.body(phase, n).shape, wanted) << n << ", " << plan::phase_name(phase);
        taken.insert(wanted);
      }
    }
    EXPECT_EQ(taken.size(), graphs.bodies().size());
  }
}

TEST(Graphs, S6_WhereHeadsAreTasksACutOfPromptsIsRefused) {
  const HollowOne m("tiny-llama");
  CountingMachine machine;
  plan::Plan plan = plan_of_chunks(64);
  plan.prefill = plan::Prefill::kQ8;
  plan.lanes = {{}, {}};
  GraphOptions options;
  options.has_values = false;
  options.heads.estimate_lane = 1;
  const auto n_heads = static_cast<size_t>(m.blueprint.n_heads);
  options.heads.heads.assign(static_cast<size_t>(m.blueprint.n_layers),
                             {std::vector<double>(n_heads, 0.2), std::vector<int>(n_heads, 0)});
  const auto make = [&](const char* cut) {
    plan.cuts = {plan::cut_from_text(cut)};
    return Graphs(m.blueprint, plan, machine, m.weights, options).most_nodes();
  };
  EXPECT_GT(make("attention@step=heads:0:1,1:1"), size_t{3} * n_heads);
  EXPECT_THROW(make("attention@prompt=heads:0:1,1:1"), Error);
  EXPECT_THROW(make("attention=heads:0:1,1:1"), Error);
}

TEST(Cut, N2H2_EveryOpIsInOneSubgraphWhereverNormsAndActivationsStand) {
  for (const char* name : {"qwen1.5-1.8b", "phi-2", "gemma-2b", "llama-3-8b"}) {
    const HollowOne m(name);
    for (int i = 0; i < 4; ++i) {
      const bool is_cut_at_norms = i % 2 == 1, is_cut_at_activations = i >= 2;
      const model::Op* next = m.blueprint.ops.data();
      std::set<std::string> names;
      for (const lanes::Subgraph& subgraph : cut_into_subgraphs(
               m.blueprint,
               {.at_norms = is_cut_at_norms, .at_activations = is_cut_at_activations})) {
        EXPECT_EQ(subgraph.ops.data(), next) << name;
        next += subgraph.ops.size();
        names.insert(subgraph.name);
        EXPECT_TRUE(plan::is_subgraph_name(subgraph.name)) << subgraph.name;
        // Activations stand alone, and the last product behind them.
        const size_t n = n_activations(subgraph);
        EXPECT_EQ(n == subgraph.ops.size(), subgraph.name == std::string("activation")) << name;
        EXPECT_TRUE(!is_cut_at_activations || n == 0 || n == subgraph.ops.size()) << name;
      }
      EXPECT_EQ(next, m.blueprint.ops.data() + m.blueprint.ops.size());
      EXPECT_EQ(names.count("norm"), is_cut_at_norms ? 1u : 0u) << name;
      EXPECT_EQ(names.count("ffn"), 1u) << name;
      for (const char* of_activations : {"activation", "down"}) {
        EXPECT_EQ(names.count(of_activations), is_cut_at_activations ? 1u : 0u) << name;
      }
    }
  }
}

}  // namespace
}  // namespace troika::schedule
