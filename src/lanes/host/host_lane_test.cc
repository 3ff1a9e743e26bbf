#include "lanes/host/host_lane.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "kernels/choose.h"
#include "kernels/panels.h"
#include "lanes/host/attention/attention_lists.h"
#include "lanes/host/test_support.h"
#include "lanes/machine.h"
#include "lanes/threaded_lane.h"
#include "tests/support/sanitized.h"
#include "tests/support/turns.h"

namespace troika::lanes {
namespace {

// Attention of one layer alone, over a cache.
class AttentionAlone {
 public:
  static constexpr int kMostTokens = 64;

  explicit AttentionAlone(int context) : kv_({1, 2, 64, tensor::Type::kF16, context}) {
    blueprint_.n_layers = 1;
    blueprint_.n_heads = 4;
    blueprint_.n_kv_heads = 2;
    blueprint_.head_dim = 64;
    blueprint_.values = {
        {"q", 256, false}, {"k", 128, false}, {"v", 128, false}, {"out", 256, false}};
    model::Op op{model::OpKind::kAttention};
    op.layer = 0;
    op.inputs = {0, 1, 2};
    op.output = 3;
    op.scale = 0.125f;
    blueprint_.ops = {op};
    store_ = std::make_unique<weights::Store>(blueprint_, std::vector<weights::StoredWeight>());
    buffers_ = std::make_unique<Buffers>(blueprint_, kMostTokens, 1);
    for (model::ValueId id = 0; id < 4; ++id) {
      const auto n = static_cast<size_t>(kMostTokens * buffers_->width(id));
      const auto x = random_floats(n, static_cast<uint32_t>(id));
      std::copy(x.begin(), x.end(), buffers_->view(id).floats());
    }
    sequence_ = kv_.open();
  }

  const model::Blueprint& blueprint() const { return blueprint_; }
  bool gives_way = false;  // is asked of every run

  std::unique_ptr<Executable> build(Lane& lane, plan::Phase phase) const {
    return lane.build({&blueprint_, blueprint_.ops, "attention"}, {phase, kMostTokens}, *store_,
                      *buffers_);
  }

  // Places the next tokens and runs an executable on them.
  Status run(Lane& lane, const Executable& executable, plan::Phase phase, int n_tokens) {
    cache::Batch batch;
    batch.add_chain(std::vector<cache::Token>(static_cast<size_t>(n_tokens), 0), n_past_,
                    sequence_);
    cache::PlacedBatch placed;
    kv_.place(batch, &placed);
    const Status status = run(lane, executable, phase, placed.slots, placed.visible);
    kv_.keep_all(batch, placed);
    n_past_ += n_tokens;
    return status;
  }

  Status run(Lane& lane, const Executable& executable, plan::Phase phase,
             const std::vector<cache::Slot>& slots,
             const std::vector<cache::VisibleSlots>& visible) {
    lanes::Run run;
    run.phase = phase;
    run.n_tokens = static_cast<int>(slots.size());
    run.slots = slots;
    run.visible = visible;
    run.kv = &kv_;
    run.gives_way = gives_way;
    lanes::Ended ended;
    lane.submit(executable, run, ended);
    ended.latch.wait();
    return ended.status;
  }

 private:
  model::Blueprint blueprint_;
  std::unique_ptr<weights::Store> store_;
  std::unique_ptr<Buffers> buffers_;
  cache::KvCache kv_;
  cache::SequenceId sequence_ = {};
  int n_past_ = 0;
};

plan::PromptAttention attention_in(plan::AttentionForm form) {
  plan::PromptAttention attention;
  attention.form = form;
  attention.above = 0.0;  // else a first layer that nobody measured sees everything
  attention.from = plan::PromptAttention::kLeastFrom;
  return attention;
}

// What grows with the text grows in leaps, but at the end of the context it is what the context was
// reckoned to need, to the byte where one run comes near to that.
TEST(HostLane, TakesForAttentionWhatWasReckonedForTheContext) {
  constexpr int kContext = 1600;
  const kernels::Kernels kernels = kernels::choose(detect_cpu_features());
  for (const auto form : {plan::AttentionForm::kFull, plan::AttentionForm::kSparse,
                          plan::AttentionForm::kQuery, plan::AttentionForm::kInt8}) {
    for (const int n_threads : {1, 3}) {
      plan::Plan plan;
      plan.lanes = {{{}, n_threads}};
      plan.prefill = plan::Prefill::kBf16;
      plan.attention = attention_in(form);
      plan.step_shapes = plan.prompt_shapes = {AttentionAlone::kMostTokens};
      HostLane lane(kernels.table, plan.lanes[0], plan.activations, plan.prefill, nullptr,
                    plan.attention);
      AttentionAlone attention(kContext);
      const auto prompt = attention.build(lane, plan::Phase::kPrompt);
      const auto step = attention.build(lane, plan::Phase::kStep);
      const size_t before = lane.held_bytes();
      for (int n = 0; n < kContext - AttentionAlone::kMostTokens;
           n += AttentionAlone::kMostTokens) {
        ASSERT_EQ(attention.run(lane, *prompt, plan::Phase::kPrompt, AttentionAlone::kMostTokens),
                  Status::kDone);
      }
      ASSERT_EQ(attention.run(lane, *step, plan::Phase::kStep, 5), Status::kDone);
      const size_t grown = lane.held_bytes() - before;
      const bool has_lists = form != plan::AttentionForm::kFull;
      EXPECT_EQ(grown, attention_list_bytes(attention.blueprint(), plan, 0, kContext))
          << plan::attention_form_name(form) << " " << n_threads;
      EXPECT_EQ(grown > 0, has_lists || n_threads > 1);
    }
  }
}

// Who gives way is seen by its short turns; that it also yields is not.
TEST(HostLane, GivesWayWhereTheRunSaysSo) {
  const std::string why_not = test::why_no_shorter_turns();
  if (!why_not.empty()) GTEST_SKIP() << why_not;
  const kernels::Kernels kernels = kernels::choose(detect_cpu_features());
  HostLane lane(kernels.table, {{}, 1}, plan::Activations::kQ8, plan::Prefill::kSame);
  AttentionAlone attention(1600);
  const auto step = attention.build(lane, plan::Phase::kStep);
  uint64_t usual_ns = 0, keeping_ns = 0, giving_ns = 0;
  // The short turns last as long as their thread.
  std::thread([&] {
    usual_ns = test::turns_here().turn_ns;
    attention.run(lane, *step, plan::Phase::kStep, 1);
    keeping_ns = test::turns_here().turn_ns;
    attention.gives_way = true;
    attention.run(lane, *step, plan::Phase::kStep, 1);
    giving_ns = test::turns_here().turn_ns;
  }).join();
  EXPECT_EQ(keeping_ns, usual_ns);
  EXPECT_LT(giving_ns, usual_ns);
}

// A step of dense attention shares segments, and no other form of attention would take fewer.
TEST(HostLane, SegmentsWithoutMemoryAreNoMatterOfTheForm) {
  if (test::kIsSanitized) GTEST_SKIP() << "sanitizers end the program that asks for so much";
  const kernels::Kernels kernels = kernels::choose(detect_cpu_features());
  HostLane lane(kernels.table, {{}, 2}, plan::Activations::kQ8, plan::Prefill::kSame);
  AttentionAlone attention(AttentionAlone::kMostTokens);
  const auto executable = attention.build(lane, plan::Phase::kStep);
  const cache::Slot slot = 0;  // no address space has segments for so many of it
  EXPECT_EQ(attention.run(lane, *executable, plan::Phase::kStep, {slot},
                          {{std::span(&slot, size_t{1} << 50), {}}}),
            Status::kFailed);
  EXPECT_NE(lane.problem().find("shorter one or fewer ‹threads›"), std::string::npos)
      << lane.problem();
  EXPECT_EQ(attention.run(lane, *executable, plan::Phase::kStep, 3), Status::kDone);
}

// A thread of a lane has nobody to throw to.
TEST(HostLane, ATextWithoutMemoryFailsItsTaskAlone) {
  if (test::kIsSanitized) GTEST_SKIP() << "sanitizers end the program that asks for so much";
  const kernels::Kernels kernels = kernels::choose(detect_cpu_features());
  ThreadedLane lane(std::make_unique<HostLane>(kernels.table, plan::PlannedLane{{}, 2},
                                               plan::Activations::kQ8, plan::Prefill::kBf16,
                                               nullptr, attention_in(plan::AttentionForm::kQuery)));
  AttentionAlone attention(AttentionAlone::kMostTokens);
  const auto executable = attention.build(lane, plan::Phase::kPrompt);
  // No address space has lists for so many positions. The lane asks for their number alone.
  const cache::Slot slot = 0;
  EXPECT_EQ(attention.run(lane, *executable, plan::Phase::kPrompt, {slot},
                          {{std::span(&slot, size_t{1} << 50), {}}}),
            Status::kFailed);
  EXPECT_NE(lane.problem().find("no memory"), std::string::npos) << lane.problem();
  EXPECT_NE(lane.problem().find("‹attention› full"), std::string::npos) << lane.problem();
  EXPECT_EQ(attention.run(lane, *executable, plan::Phase::kPrompt, 3), Status::kDone);
}

// Stands for the kernels of panels: notes how many rows of the weight they are given at once.
struct SeenProducts {
  static inline const kernels::Table* table = nullptr;
  static inline size_t most_rows = 0;

  static void note(const kernels::PanelProduct& strips) {
    most_rows = std::max(most_rows, (strips.last_strip - strips.first_strip) * kernels::kStripRows);
  }
  static void int8(const kernels::Int8Panels& panels, const kernels::PanelProduct& strips) {
    note(strips);
    table->matmul_int8(panels, strips);
  }
  static void bf16(const kernels::Bf16Stretch& panels, const kernels::PanelProduct& strips) {
    note(strips);
    table->matmul_bf16(panels, strips);
  }
};

// A graph of one product that is large enough for every arrangement.
class LargeProduct {
  static constexpr int kRows = 512, kDepth = 64, kTokens = 40;

 public:
  LargeProduct() : weights_(random_floats(kRows * kDepth, 3, 0.05f)) {
    blueprint_.values = {{"x", kDepth, false}, {"y", kRows, false}};
    blueprint_.weights.push_back({"y.weight", 0, kRows, kDepth, kRows, 0});
    model::Op op{model::OpKind::kLinear};
    op.layer = 0;
    op.inputs[0] = 0;
    op.output = 1;
    op.weight = 0;
    blueprint_.ops = {op};
    weights::StoredWeight constant;
    constant.matrix = {tensor::Type::kF32, reinterpret_cast<std::byte*>(weights_.data()),
                       kDepth * sizeof(float), kRows, kDepth};
    std::vector<weights::StoredWeight> constants;
    constants.push_back(std::move(constant));
    store_ = std::make_unique<weights::Store>(blueprint_, std::move(constants));
    const model::WeightId ids[] = {0};
    store_->pack_int8(ids, 1, {}, {});
    buffers_ = std::make_unique<Buffers>(blueprint_, kTokens, 1);
    const std::vector<float> x = random_floats(kTokens * kDepth, 5, 1.0f);
    std::copy(x.begin(), x.end(), buffers_->view(0).floats());
  }

  // Runs the product in an arrangement; empty: nothing asks for one. Returns the most rows of the
  // weight that were multiplied together.
  size_t rows_together(plan::Prefill prefill, const std::string& arrangement) const {
    const kernels::Kernels kernels = kernels::choose(detect_cpu_features());
    kernels::Table table = kernels.table;
    table.matmul_int8 = SeenProducts::int8;
    table.matmul_bf16 = SeenProducts::bf16;
    SeenProducts::table = &kernels.table;
    SeenProducts::most_rows = 0;
    const Int8Rules rules(1, Int8Rule());
    HostLane lane(table, {{}, 1}, plan::Activations::kQ8, prefill, &rules);
    const plan::Shape shape = {plan::Phase::kPrompt, kTokens};
    const plan::ProductArrangement choice = {0, kRows, kDepth, shape, arrangement};
    Subgraph subgraph = {&blueprint_, blueprint_.ops, "qkv"};
    if (!arrangement.empty()) subgraph.arrangements = {&choice, 1};
    run_once(lane, subgraph, kTokens, kTokens, *store_, *buffers_);
    return SeenProducts::most_rows;
  }

 private:
  model::Blueprint blueprint_;
  std::vector<float> weights_;
  std::unique_ptr<weights::Store> store_;
  std::unique_ptr<Buffers> buffers_;
};

TEST(HostLane, N8_AProductTakesTheArrangementOfItsPlan) {
  const LargeProduct product;
  for (const plan::Prefill prefill : {plan::Prefill::kInt8, plan::Prefill::kBf16}) {
    SCOPED_TRACE(plan::prefill_name(prefill));
    EXPECT_EQ(product.rows_together(prefill, ""), 64u);
    EXPECT_EQ(product.rows_together(prefill, "64 rows"), 64u);
    EXPECT_EQ(product.rows_together(prefill, "32 rows"), 32u);
    EXPECT_EQ(product.rows_together(prefill, "128 rows"), 128u);
  }
}

}  // namespace
}  // namespace troika::lanes
