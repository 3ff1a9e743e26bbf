#include "solve/profile/profile_machine.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/error.h"
#include "base/threads/core_set.h"
#include "solve/check.h"
#include "solve/predict.h"
#include "solve/profile/op_shapes.h"

namespace troika::solve {
namespace {

using lanes::Status;
using model::OpKind;
using plan::OpShape;

// The costs of a known lane. A time depends only on what lanes show of a task.
struct Costs {
  double start_us;
  double bytes_per_us;
  double flops_per_us;
};

double known_us(const Costs& costs, const OpShape& shape) {
  return costs.start_us + plan::op_bytes(shape) / costs.bytes_per_us +
         plan::op_flops(shape) / costs.flops_per_us;
}

class KnownMachine;

// A lane that computes nothing. The subgraph that was built decides the time.
class KnownLane : public lanes::Lane {
 public:
  KnownLane(KnownMachine& machine, int index, Costs costs)
      : machine_(machine), index_(index), costs_(costs) {
    info_.name = "known " + std::to_string(index);
    if (index > 0) info_.capabilities = lanes::kInt8Matrix;
  }
  const lanes::LaneInfo& info() const override { return info_; }
  std::span<const int> caller_cores() const override { return kept_to; }
  std::unique_ptr<lanes::Executable> build(const lanes::Subgraph& subgraph, plan::Shape shape,
                                           const weights::Store& weights,
                                           const lanes::Buffers& buffers) override;
  void submit(const lanes::Executable& executable, const lanes::Run& run,
              lanes::Completion& completion) override;
  const Costs& costs() const { return costs_; }
  int index() const { return index_; }
  bool fails = false;
  bool is_static = false;           // says that the lane takes only prompts without attention
  std::vector<int> kept_to;         // the cores of whoever submits tasks
  std::vector<int> submitted_from;  // the cores of who submitted the last one
  // Makes the lane a device, on which building takes this long, and less for what it built before.
  void make_device(double build_us, double rebuild_us) {
    info_.identity = "a device";
    info_.keeps_graphs = rebuild_us > 0.0;
    build_us_ = build_us;
    rebuild_us_ = rebuild_us;
  }

 private:
  double build_us_ = 0.0, rebuild_us_ = 0.0;
  std::set<OpShape> built_;
  KnownMachine& machine_;
  int index_;
  Costs costs_;
  lanes::LaneInfo info_;
};

struct KnownExecutable : lanes::Executable {
  KnownExecutable(int n_tokens, OpShape shape) : Executable(n_tokens), shape(shape) {}
  OpShape shape;
};

class KnownMachine : public lanes::Machine {
 public:
  explicit KnownMachine(const std::vector<Costs>& costs) {
    for (size_t i = 0; i < costs.size(); ++i) {
      owned_.push_back(std::make_unique<KnownLane>(*this, static_cast<int>(i), costs[i]));
      lanes_.push_back(owned_.back().get());
    }
  }
  std::span<lanes::Lane* const> lanes() const override { return lanes_; }
  const Clock& clock() const override { return clock_; }
  void wait(const lanes::Latch& latch) override {
    while (!latch.is_open()) {
      ASSERT_FALSE(events_.empty());
      const auto next = events_.begin();
      const Event event = next->second;
      clock_.us = next->first;
      events_.erase(next);
      last_lane_ = event.lane;
      event.completion->finished(event.status);
    }
  }
  void start(const KnownLane& lane, double us, lanes::Completion& completion) {
    // If a task is the first on another lane than the last one, it waits for the handover.
    const bool moves = last_lane_ >= 0 && last_lane_ != lane.index() && events_.empty();
    const double factor = ++n_started_ <= n_disturbed ? 5.0 : 1.0;
    const double end = clock_.us + factor * (us + (moves ? handover_us : 0.0));
    events_.emplace(end,
                    Event{lane.index(), lane.fails ? Status::kFailed : Status::kDone, &completion});
  }
  KnownLane& lane(size_t index) { return *owned_[index]; }
  void pass_time(double us) { clock_.us += us; }
  // Notes the type of a product that some lane builds, for which the arena must be filled.
  void note_product(tensor::Type type) {
    if (types_.empty() || types_.back() != type) types_.push_back(type);
  }
  // Counts how often products of another type than the one before were built.
  size_t n_fills() const { return types_.size(); }
  double handover_us = 0.0;
  int n_disturbed = 0;  // counts tasks that are slow, as if other programs used the machine

 private:
  struct Event {
    int lane;
    Status status;
    lanes::Completion* completion;
  };
  struct KnownClock : Clock {
    double now_us() const override { return us; }
    double us = 1000.0;
  };
  KnownClock clock_;
  std::vector<std::unique_ptr<KnownLane>> owned_;
  std::vector<lanes::Lane*> lanes_;
  std::vector<tensor::Type> types_;
  std::multimap<double, Event> events_;
  int last_lane_ = -1;
  int n_started_ = 0;
};

std::unique_ptr<lanes::Executable> KnownLane::build(const lanes::Subgraph& subgraph,
                                                    plan::Shape shape,
                                                    const weights::Store& weights,
                                                    const lanes::Buffers& buffers) {
  const model::Op& op = subgraph.ops.front();
  EXPECT_EQ(subgraph.ops.size(), 1u);
  if (is_static && (shape.phase == plan::Phase::kStep || op.is_dynamic())) {
    throw Error("This lane takes static graphs of prompts.");
  }
  EXPECT_NE(buffers.view(op.output).address, nullptr);
  // The shape has no context here, because it is known only when a run is submitted.
  auto built = std::make_unique<KnownExecutable>(
      shape.n_rows,
      shape_of(*subgraph.blueprint, op, weights, tensor::Type::kF16, shape, shape.n_rows));
  if (op.kind == OpKind::kLinear) machine_.note_product(built->shape.type);
  machine_.pass_time(built_.insert(built->shape).second ? build_us_ : rebuild_us_);
  return built;
}

void KnownLane::submit(const lanes::Executable& executable, const lanes::Run& run,
                       lanes::Completion& completion) {
  submitted_from = cores_of_thread();
  OpShape shape = static_cast<const KnownExecutable&>(executable).shape;
  EXPECT_EQ(run.n_tokens, shape.n_tokens);
  if (shape.op == OpKind::kAttention) {
    const cache::VisibleSlots& last = run.visible.back();
    shape.context = static_cast<int>(last.past.size() + last.own.size());
  }
  machine_.start(*this, known_us(costs_, shape), completion);
}

constexpr size_t kSmallArena = 8u << 20;

ProfileOptions small_options() {
  ProfileOptions options;
  options.arena_bytes = kSmallArena;
  options.budget_us = 1e12;
  options.shapes = {{OpKind::kLinear, tensor::Type::kQ4_0, 320, 256, 7, 0, 0},
                    {OpKind::kLinear, tensor::Type::kQ8_0, 64, 1024, 1, 0, 0},
                    {OpKind::kLinear, tensor::Type::kF32, 48, 64, 33, 0, 0, plan::Phase::kPrompt},
                    {OpKind::kEmbed, tensor::Type::kQ4_0, 256, 256, 5, 0, 0},
                    {OpKind::kRmsNorm, tensor::Type::kF32, 512, 512, 3, 0, 0},
                    {OpKind::kLayerNorm, tensor::Type::kF32, 512, 512, 3, 0, 0},
                    {OpKind::kGate, tensor::Type::kF32, 96, 96, 2, 0, 0},
                    {OpKind::kActivate, tensor::Type::kF32, 96, 96, 2, 0, 0},
                    {OpKind::kAdd, tensor::Type::kF32, 96, 96, 2, 0, 0},
                    {OpKind::kRope, tensor::Type::kF32, 256, 256, 4, 0, 64},
                    {OpKind::kAttention, tensor::Type::kF16, 256, 128, 4, 70, 64},
                    {OpKind::kAttention, tensor::Type::kF16, 256, 128, 1, 1, 64}};
  return options;
}

TEST(ProfileMachine, GivesTheKnownTimesOfAnyMachine) {
  KnownMachine machine({{2.0, 4e3, 1e5}, {9.0, 9e3, 7e5}, {0.5, 1e3, 1e4}});
  machine.handover_us = 3.25;
  const ProfileOptions options = small_options();
  const RealClock wall;
  const plan::Profile profile = profile_machine(machine, options, nullptr, wall, {});

  ASSERT_EQ(profile.lanes.size(), 3u);
  EXPECT_EQ(profile.lanes[0].name, "known 0");
  EXPECT_FALSE(profile.lanes[0].is_matrix);
  EXPECT_TRUE(profile.lanes[1].is_matrix);
  EXPECT_EQ(profile.n_left_out, 0);
  ASSERT_EQ(profile.ops.size(), 3 * options.shapes.size());
  for (int lane = 0; lane < 3; ++lane) {
    const Costs& costs = machine.lane(static_cast<size_t>(lane)).costs();
    for (const OpShape& shape : options.shapes) {
      const plan::OpTime* time = profile.find(lane, shape);
      ASSERT_NE(time, nullptr) << model::op_kind_name(shape.op);
      EXPECT_NEAR(time->us, known_us(costs, shape), 1e-6 * time->us)
          << model::op_kind_name(shape.op) << " on " << lane;
      EXPECT_NEAR(time->spread, 0.0, 1e-6);
      EXPECT_GE(time->n_runs, options.patience.least_runs);
    }
    const OpShape tiny = {OpKind::kAdd, tensor::Type::kF32, 64, 64, 1, 0, 0};
    EXPECT_NEAR(profile.start_us(lane), known_us(costs, tiny), 1e-6);
  }
  ASSERT_EQ(profile.handovers.size(), 6u);
  for (const plan::Handover& handover : profile.handovers) EXPECT_NEAR(handover.us, 3.25, 1e-6);
}

TEST(ProfileMachine, WhatALaneRefusesIsLeftOutAndTakesForEver) {
  KnownMachine machine({{2.0, 4e3, 1e5}, {9.0, 9e3, 7e5}});
  machine.lane(1).is_static = true;
  const ProfileOptions options = small_options();
  const RealClock wall;
  const plan::Profile profile = profile_machine(machine, options, nullptr, wall, {});
  for (const OpShape& shape : options.shapes) {
    const bool is_refused = plan::depends_on_phase(shape.op) &&
                            (shape.phase == plan::Phase::kStep || shape.op == OpKind::kAttention);
    EXPECT_EQ(profile.find(1, shape) == nullptr, is_refused) << model::op_kind_name(shape.op);
    EXPECT_NE(profile.find(0, shape), nullptr);
  }
  EXPECT_EQ(profile.n_left_out, 0);  // more time would change nothing
  // Ops that are the same in both phases are measured as in prompts. The lane refuses them in
  // steps.
  EXPECT_TRUE(profile.refuses(1, OpKind::kGate, plan::Phase::kStep));
  EXPECT_FALSE(profile.refuses(1, OpKind::kGate, plan::Phase::kPrompt));
  EXPECT_TRUE(profile.refuses(1, OpKind::kLinear, plan::Phase::kStep));
  EXPECT_FALSE(profile.refuses(1, OpKind::kLinear, plan::Phase::kPrompt));
  ASSERT_EQ(profile.bandwidth.size(), 1u);
  EXPECT_EQ(profile.bandwidth[0].lanes, std::vector<int>{0});
  // A second profile finds everything known.
  const plan::Profile again = profile_machine(machine, options, &profile, wall, {});
  EXPECT_EQ(again.refusals, profile.refusals);
  EXPECT_EQ(again.ops.size(), profile.ops.size());
}

// A static runtime compiles what it has not kept, which is a cost of its own beside a run's.
TEST(ProfileMachine, H1NotesWhatProductsCostADeviceBeforeTheyRun) {
  const Costs costs = {2.0, 4e3, 1e5};
  KnownMachine machine({costs, costs, costs});
  machine.lane(1).make_device(4000.0, 50.0);
  machine.lane(2).make_device(300.0, 0.0);
  const ProfileOptions options = small_options();
  // Each variant of a shape is built, and only the first one for the first time.
  const int n_variants = options.patience.n_warm + options.patience.most_runs;
  const RealClock wall;
  const plan::Profile profile = profile_machine(machine, options, nullptr, wall, {});
  for (const OpShape& shape : options.shapes) {
    EXPECT_EQ(profile.find(0, shape)->preparation, plan::PreparationTime());
    const plan::PreparationTime& found = profile.find(1, shape)->preparation;
    if (shape.op != OpKind::kLinear) {
      EXPECT_EQ(found, plan::PreparationTime()) << model::op_kind_name(shape.op);
      continue;
    }
    EXPECT_NEAR(found.build_us, 50.0 + (4000.0 - 50.0) / n_variants, 1e-6);
    EXPECT_NEAR(found.rebuild_us, 50.0, 1e-6);
    EXPECT_NEAR(found.first_run_us, known_us(costs, shape), 1e-6);
    EXPECT_GT(profile.find(2, shape)->preparation.build_us, 0.0);
    EXPECT_EQ(profile.find(2, shape)->preparation.rebuild_us, 0.0) << "nothing is kept";
    // Runs are timed as on a lane that needs nothing before them.
    EXPECT_NEAR(profile.find(1, shape)->us, known_us(costs, shape), 1e-6);
  }
}

TEST(ProfileMachine, ALongDisturbanceDoesNotShow) {
  const Costs costs = {1.0, 1e3, 1e5};
  KnownMachine machine({costs});
  ProfileOptions options = small_options();
  machine.n_disturbed = 150;  // disturbs the start, the bandwidth and the first ops
  const RealClock wall;
  const plan::Profile profile = profile_machine(machine, options, nullptr, wall, {});
  EXPECT_EQ(profile.n_left_out, 0);
  for (const OpShape& shape : options.shapes) {
    EXPECT_NEAR(profile.find(0, shape)->us, known_us(costs, shape), 1e-6 * known_us(costs, shape));
  }
  const OpShape tiny = {OpKind::kAdd, tensor::Type::kF32, 64, 64, 1, 0, 0};
  EXPECT_NEAR(profile.start_us(0), known_us(costs, tiny), 1e-6);
  EXPECT_NEAR(profile.bandwidth[0].gb_s.front(), 1.0, 0.02);
  machine.n_disturbed = 1 << 30;
  options.n_visits = 1;
  EXPECT_GT(profile_machine(machine, options, nullptr, wall, {}).start_us(0), 2.0);
}

TEST(ProfileMachine, GivesTheKnownBandwidthAloneAndTogether) {
  KnownMachine machine({{0.0, 4e3, 1e12}, {0.0, 12e3, 1e12}});
  const RealClock wall;
  const plan::Profile profile =
      profile_machine(machine, {{}, 0, kSmallArena, {}}, nullptr, wall, {});
  ASSERT_EQ(profile.bandwidth.size(), 3u);
  // Activations count as moved, but not as read from the weight.
  EXPECT_NEAR(profile.bandwidth[0].gb_s.front(), 4.0, 0.04);
  EXPECT_NEAR(profile.bandwidth[1].gb_s.front(), 12.0, 0.12);
  EXPECT_EQ(profile.bandwidth[2].lanes, (std::vector<int>{0, 1}));
  EXPECT_NEAR(profile.bandwidth[2].gb_s[0], 4.0, 0.04);
  EXPECT_NEAR(profile.bandwidth[2].gb_s[1], 12.0, 0.12);
}

TEST(ProfileMachine, ThreeLanesReadTogetherToo) {
  KnownMachine machine({{0.0, 4e3, 1e12}, {0.0, 12e3, 1e12}, {0.0, 8e3, 1e12}});
  const RealClock wall;
  const plan::Profile profile =
      profile_machine(machine, {{}, 0, kSmallArena, {}}, nullptr, wall, {});
  const auto is_of_three = [](const plan::ReadRate& rate) { return rate.lanes.size() == 3; };
  EXPECT_EQ(std::count_if(profile.bandwidth.begin(), profile.bandwidth.end(), is_of_three), 1);
  EXPECT_EQ(profile.bandwidth.size(), 7u);
}

// An arena has many times the bytes of the last cache, and filling it takes longer than reading it.
TEST(ProfileMachine, RatesFillTheArenaOnceForEachType) {
  KnownMachine machine({{0.0, 4e3, 1e12}, {0.0, 12e3, 1e12}, {0.0, 8e3, 1e12}});
  ProfileOptions options;
  options.arena_bytes = kSmallArena;
  options.n_visits = 3;
  const RealClock wall;
  const plan::Profile profile = profile_machine(machine, options, nullptr, wall, {});
  EXPECT_EQ(profile.bandwidth.size(), 7u);
  EXPECT_LE(machine.n_fills(), 2u * 3u);
}

TEST(ProfileMachine, MeasuresOnlyWhatIsNotKept) {
  KnownMachine machine({{1.0, 1e3, 1e5}});
  ProfileOptions options = small_options();
  const RealClock wall;
  plan::Profile kept;
  kept.lanes = profile_lanes(machine);
  kept.ops = {{0, options.shapes[3], 123.0, 0.5, 4}};
  options.shapes = {options.shapes[3], options.shapes[4]};
  const plan::Profile profile = profile_machine(machine, options, &kept, wall, {});
  ASSERT_EQ(profile.ops.size(), 2u);
  EXPECT_EQ(profile.find(0, options.shapes[0])->us, 123.0);
  EXPECT_NEAR(profile.find(0, options.shapes[1])->us, known_us({1.0, 1e3, 1e5}, options.shapes[1]),
              1e-6);
}

// What was measured beside other programs would be wrong for ever if it were never measured again.
TEST(ProfileMachine, MeasuresDisturbedTimesAgainAndKeepsTheLesser) {
  const Costs costs = {1.0, 1e3, 1e5};
  KnownMachine machine({costs});
  ProfileOptions options = small_options();
  const RealClock wall;
  plan::Profile kept;
  kept.lanes = profile_lanes(machine);
  const std::vector<OpShape> shapes = {options.shapes[0], options.shapes[1], options.shapes[3]};
  const OpShape of_another_model = options.shapes[4];
  kept.ops = {{0, of_another_model, 1e9, 0.9, 4},
              {0, shapes[0], 1e9, 0.9, 4},
              {0, shapes[1], 1e-3, 0.9, 4},
              {0, shapes[2], 123.0, 0.1, 4}};
  options.shapes = shapes;
  const plan::Profile better = profile_machine(machine, options, &kept, wall, {});
  ASSERT_EQ(better.ops.size(), 4u);
  EXPECT_EQ(better.n_measured, 3);
  for (const OpShape& shape : {of_another_model, shapes[0]}) {
    EXPECT_NEAR(better.find(0, shape)->us, known_us(costs, shape), 1e-6 * known_us(costs, shape));
    EXPECT_NEAR(better.find(0, shape)->spread, 0.0, 1e-6);
  }
  EXPECT_EQ(better.find(0, shapes[1])->us, 1e-3);
  EXPECT_EQ(better.find(0, shapes[2])->us, 123.0);

  for (plan::OpTime& time : kept.ops) time.busy_load = 9.0;
  options.doubted_load = 9.0;
  EXPECT_EQ(profile_machine(machine, options, &kept, wall, {}).n_measured, 3);
  options.doubted_load = 4.0;
  const plan::Profile best = profile_machine(machine, options, &kept, wall, {});
  EXPECT_EQ(best.n_measured, 4);
  EXPECT_NEAR(best.find(0, shapes[2])->us, known_us(costs, shapes[2]), 1e-6 * 123.0);
}

TEST(ProfileMachine, WhatIsNotMeasuredAgainStaysAndComesFirstNextTime) {
  KnownMachine machine({{1.0, 1e3, 1e5}});
  ProfileOptions options = small_options();
  const RealClock wall;
  options.busy_load = 9.0;
  const plan::Profile kept = profile_machine(machine, options, nullptr, wall, {});
  options.doubted_load = 4.0;
  options.budget_us = 0.0;
  const plan::Profile same = profile_machine(machine, options, &kept, wall, {});
  EXPECT_EQ(same.n_measured, 0);
  EXPECT_EQ(same.n_left_out, static_cast<int>(kept.ops.size()));
  ASSERT_EQ(same.ops.size(), kept.ops.size());
  for (size_t i = 0; i < kept.ops.size(); ++i) {
    EXPECT_EQ(same.ops[i].shape, kept.ops[i].shape);
    EXPECT_EQ(same.ops[i].us, kept.ops[i].us);
  }
  // Only the first of them is found to be disturbed, and it goes behind the others.
  plan::Profile disturbed = kept;
  disturbed.ops.front().us = disturbed.ops.front().spread = 1e6;
  options.doubted_load = 9.0;
  options.budget_us = 1e12;
  const plan::Profile again = profile_machine(machine, options, &disturbed, wall, {});
  EXPECT_EQ(again.n_measured, 1);
  EXPECT_EQ(again.ops.back().shape, kept.ops.front().shape);
  EXPECT_NEAR(again.ops.back().us, kept.ops.front().us, 1e-6 * kept.ops.front().us);
}

// A lane that works on the thread that asks for tasks is measured on the cores on which it runs.
TEST(ProfileMachine, KeepsToTheCoresOfALaneWithoutAThread) {
  const std::vector<int> before = cores_of_thread();
  KnownMachine machine({{1.0, 1e3, 1e5}});
  machine.lane(0).kept_to = {before.back()};
  const RealClock wall;
  (void)profile_machine(machine, small_options(), nullptr, wall, {});
  EXPECT_EQ(machine.lane(0).submitted_from, machine.lane(0).kept_to);
  EXPECT_EQ(cores_of_thread(), before);
}

// A clock that goes on by a microsecond whenever somebody looks.
struct TurningClock : Clock {
  double now_us() const override { return us += 1.0; }
  mutable double us = 0.0;
};

// A profile that a busy machine took gets better op by op, however little time each run has, and is
// then as good as any.
TEST(ProfileMachine, WhatABusyMachineTookIsTakenAgainOnce) {
  KnownMachine machine({{1.0, 1e3, 1e5}});
  ProfileOptions options = small_options();
  options.busy_load = 9.0;
  const RealClock wall;
  plan::Profile profile = profile_machine(machine, options, nullptr, wall, {});
  const auto n_ops = static_cast<int>(profile.ops.size());
  ASSERT_GT(n_ops, 4);
  for (size_t i = 0; i < profile.ops.size(); i += 2) profile.ops[i].us *= 0.5;  // these stay
  options.busy_load = 0.0;
  options.doubted_load = 4.0;
  options.budget_us = 3.0;
  const TurningClock clock;
  int n_measured = 0;
  for (int run = 0; run < n_ops; ++run) {
    profile = profile_machine(machine, options, &profile, clock, {});
    n_measured += profile.n_measured;
    EXPECT_EQ(profile.n_left_out, n_ops - n_measured) << run;
    if (profile.n_measured == 0) break;
  }
  EXPECT_EQ(n_measured, n_ops);
  EXPECT_EQ(profile.n_measured, 0);
}

// A busy machine looks slower than it is, so that a good profile stays good when it is taken again.
TEST(ProfileMachine, KeepsTheBetterOfKeptRatesAndNewOnes) {
  const RealClock wall;
  const auto profile_of = [&](const Costs& costs, const plan::Profile* kept) {
    KnownMachine machine({costs});
    return profile_machine(machine, {{}, 0, kSmallArena, {}}, kept, wall, {});
  };
  const Costs idle = {2.0, 12e3, 1e12}, busy = {400.0, 4e3, 1e12};
  const plan::Profile good = profile_of(idle, nullptr);
  const plan::Profile again = profile_of(busy, &good);
  EXPECT_EQ(again.start_us(0), good.start_us(0));
  EXPECT_EQ(again.bandwidth[0].gb_s, good.bandwidth[0].gb_s);
  const plan::Profile bad = profile_of(busy, nullptr);
  const plan::Profile better = profile_of(idle, &bad);
  EXPECT_LT(better.start_us(0), bad.start_us(0));
  EXPECT_GT(better.bandwidth[0].gb_s.front(), bad.bandwidth[0].gb_s.front());
  plan::Profile other = good;  // lists other rates, which say nothing
  other.bandwidth.clear();
  EXPECT_GT(profile_of(busy, &other).start_us(0), good.start_us(0));
}

TEST(ProfileMachine, SaysWhatItHadNoTimeFor) {
  KnownMachine machine({{1.0, 1e3, 1e5}});
  ProfileOptions options = small_options();
  options.budget_us = 0.0;
  uint64_t last_done = 0;
  const RealClock wall;
  const plan::Profile profile = profile_machine(machine, options, nullptr, wall,
                                                [&](uint64_t done, uint64_t) { last_done = done; });
  EXPECT_TRUE(profile.ops.empty());
  EXPECT_EQ(profile.n_left_out, static_cast<int>(options.shapes.size()));
  EXPECT_EQ(last_done, 1u);
  EXPECT_EQ(profile.starts.size(), 1u);
}

TEST(ProfileMachine, OneShapeOfEachKindIsMeasuredHoweverShortTheTime) {
  KnownMachine machine({{1.0, 1e3, 1e5}});
  ProfileOptions options = small_options();
  options.shapes.clear();
  for (const OpShape& shape : grid_shapes(tensor::Type::kQ4_0, tensor::Type::kF16)) {
    if (plan::op_flops(shape) < 1e7) options.shapes.push_back(shape);
  }
  options.budget_us = 1e-9;
  const RealClock wall;
  const plan::Profile profile = profile_machine(machine, options, nullptr, wall, {});
  std::set<std::tuple<OpKind, tensor::Type, plan::Phase>> wanted;
  for (const OpShape& shape : options.shapes) wanted.insert({shape.op, shape.type, shape.phase});
  EXPECT_EQ(profile.ops.size(), wanted.size());
  EXPECT_GT(profile.n_left_out, 100);
  const CostPredictor predictor(profile);
  for (const OpShape& shape : options.shapes) EXPECT_GT(predictor.predict_us(0, shape), 0.0);
}

TEST(ProfileMachine, AFailedTaskIsAnError) {
  KnownMachine machine({{1.0, 1e3, 1e5}});
  machine.lane(0).fails = true;
  const RealClock wall;
  EXPECT_THROW(profile_machine(machine, small_options(), nullptr, wall, {}), Error);
}

TEST(ProfileMachine, AMatrixBeyondTheArenaIsLeftOut) {
  KnownMachine machine({{1.0, 1e3, 1e5}});
  ProfileOptions options = small_options();
  options.shapes = {{OpKind::kLinear, tensor::Type::kF32, 1 << 20, 1 << 12, 1, 0, 0}};
  const RealClock wall;
  EXPECT_TRUE(profile_machine(machine, options, nullptr, wall, {}).ops.empty());
}

TEST(ProfileMachine, H9_PredictsAKnownMachineFromAProfile) {
  KnownMachine machine({{3.0, 8e3, 2e5}});
  ProfileOptions options = small_options();
  options.shapes.clear();
  for (const OpShape& shape : grid_shapes(tensor::Type::kQ4_0, tensor::Type::kF16)) {
    if (shape.op == OpKind::kLinear && plan::op_flops(shape) < 1e9) options.shapes.push_back(shape);
  }
  options.patience = {0, 1, 1, 0.0};
  const RealClock wall;
  const plan::Profile profile = profile_machine(machine, options, nullptr, wall, {});
  const std::vector<CheckRow> rows = check_predictions(profile, 1);
  EXPECT_EQ(rows.size(), 1u);  // has one lane and one op
  for (const CheckRow& row : rows) {
    EXPECT_GT(row.n_held_out, 5);
    EXPECT_LT(row.tree_median, 0.15);
  }
}

TEST(OpShapes, TheGridKnowsEveryOp) {
  const std::vector<OpShape> shapes = grid_shapes(tensor::Type::kQ4_0, tensor::Type::kF16);
  for (const OpKind op :
       {OpKind::kEmbed, OpKind::kRmsNorm, OpKind::kLayerNorm, OpKind::kLinear, OpKind::kRope,
        OpKind::kAttention, OpKind::kGate, OpKind::kActivate, OpKind::kAdd, OpKind::kSelect}) {
    EXPECT_TRUE(std::any_of(shapes.begin(), shapes.end(), [&](const OpShape& shape) {
      return shape.op == op;
    })) << model::op_kind_name(op);
  }
}

TEST(OpShapes, AModelByNameAsksForItsProducts) {
  const std::vector<OpShape> shapes =
      model_shapes(model::get_known("qwen2.5-1.5b"), tensor::Type::kQ4_0, tensor::Type::kF16);
  const OpShape down = {OpKind::kLinear, tensor::Type::kQ4_0, 1536, 8960, 1, 0, 0};
  EXPECT_NE(std::find(shapes.begin(), shapes.end(), down), shapes.end());
  const auto has = [&](OpKind op) {
    return std::any_of(shapes.begin(), shapes.end(),
                       [&](const OpShape& shape) { return shape.op == op; });
  };
  for (const OpKind op : {OpKind::kAttention, OpKind::kRope, OpKind::kRmsNorm, OpKind::kGate}) {
    EXPECT_TRUE(has(op)) << model::op_kind_name(op);
  }
}

}  // namespace
}  // namespace troika::solve
