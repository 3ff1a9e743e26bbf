#include "schedule/layout_switch.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>

#include "schedule/plan_switch.h"

namespace troika::schedule {
namespace {

constexpr Layout kPrompt = Layout::kPrompt, kStep = Layout::kStep;

std::vector<BlockTimes> equal_blocks(int n, double prompt_us, double step_us, double load_us) {
  return std::vector<BlockTimes>(static_cast<size_t>(n),
                                 BlockTimes{prompt_us, step_us, load_us, load_us});
}

std::vector<Layout> all(int n, Layout layout) {
  return std::vector<Layout>(static_cast<size_t>(n), layout);
}

std::vector<BlockTimes> random_blocks(std::mt19937& random, int n) {
  std::uniform_real_distribution<double> us(0.5, 4.0);
  std::vector<BlockTimes> times;
  for (int i = 0; i < n; ++i) {
    const double prompt_us = us(random);
    times.push_back({prompt_us, prompt_us * (1.0 + us(random) / 4.0), us(random), us(random)});
  }
  return times;
}

// Figure 8 of the paper has six blocks and two chunks, and a load hides behind two blocks.
TEST(LayoutSwitch, D1TheExampleOfThePaper) {
  const auto times = equal_blocks(6, 1.0, 1.0, 2.0);
  const SwitchForecast result = forecast(times, all(6, kPrompt), 2, {0, 0});
  ASSERT_EQ(result.loads.size(), 6u);
  for (int i = 0; i < 6; ++i) {
    const SwitchForecast::Load& load = result.loads[static_cast<size_t>(i)];
    EXPECT_EQ(load.load, (BlockLoad{5 - i, kStep}));
    EXPECT_EQ(load.begin, 2 * i);
    EXPECT_EQ(load.k, 2);
  }
  // When the first chunk ends, half of the model is switched. No time is lost.
  EXPECT_EQ(result.loads[2].end_us, 6.0);
  EXPECT_TRUE(result.is_finished);
  EXPECT_EQ(result.prompt_us, 12.0);
  EXPECT_EQ(result.latency_us(), 12.0);
}

TEST(LayoutSwitch, D1KIsTheLeastOfEquation2) {
  std::mt19937 random(7);
  for (int trial = 0; trial < 200; ++trial) {
    const int n = 1 + static_cast<int>(random() % 8);
    const auto times = random_blocks(random, n);
    auto layouts = all(n, kPrompt);
    for (Layout& layout : layouts) layout = random() % 2 == 0 ? kPrompt : kStep;
    const int first = static_cast<int>(random() % static_cast<unsigned>(n));
    const double load_us = 0.1 * static_cast<double>(random() % 400);
    const int k = covering_blocks(times, layouts, first, load_us);
    const auto covered = [&](int blocks) {
      double us = 0.0;
      for (int i = 0; i < blocks; ++i) {
        const auto at = static_cast<size_t>((first + i) % n);
        us += times[at].compute_us(layouts[at]);
      }
      return us;
    };
    EXPECT_GE(k, 1);
    EXPECT_GE(covered(k), load_us - 1e-6);
    if (k > 1) {
      EXPECT_LT(covered(k - 1), load_us);
    }
    // A schedule that follows the ends of loads chooses the same numbers of blocks.
    const SwitchForecast result = forecast(times, all(n, kPrompt), 40, {0, 0});
    for (const SwitchForecast::Load& load : result.loads) {
      if (load.begin + load.k >= 40 * n) break;
      std::vector<Layout> then = all(n, kPrompt);
      for (const SwitchForecast::Load& other : result.loads) {
        if (other.begin >= load.begin) break;
        then[static_cast<size_t>(other.load.block)] = kStep;
      }
      EXPECT_EQ(load.k, covering_blocks(times, then, load.begin % n,
                                        times[static_cast<size_t>(load.load.block)].load_step_us));
    }
  }
}

// Computing goes on however long loads take, much longer or shorter than was profiled.
TEST(LayoutSwitch, D1NeverWaitsAndHoldsOneCopyAndOneBlock) {
  std::mt19937 random(11);
  for (int trial = 0; trial < 300; ++trial) {
    const int n = 1 + static_cast<int>(random() % 7);
    const auto times = random_blocks(random, n);
    LayoutSwitch state(times, trial % 3 == 0 ? kStep : kPrompt);
    int left = 0;  // counts blocks until the load in flight ends
    std::vector<Layout> before = state.layouts();
    for (int prompt = 0; prompt < 3; ++prompt) {
      const int n_chunks = 1 + static_cast<int>(random() % 6);
      state.follow(plan_switch(times, state.layouts(), n_chunks));
      for (int pass = 0; pass < n_chunks; ++pass) {
        for (int block = 0; block < n; ++block) {
          const bool was_loading = state.loading().has_value();
          const auto load = state.before_block(block);
          // With one load at a time, at most one block has two copies.
          EXPECT_FALSE(was_loading && load);
          if (load) {
            EXPECT_NE(state.layout(load->block), load->into);
            left = static_cast<int>(random() % 9);
          }
          // A block always has a layout, and only the end of a load changes one.
          EXPECT_EQ(state.layouts(), before);
          if (state.loading() && left-- == 0) {
            state.loaded();
            int n_changed = 0;
            for (size_t i = 0; i < before.size(); ++i) n_changed += before[i] != state.layouts()[i];
            EXPECT_EQ(n_changed, 1);
            before = state.layouts();
          }
        }
      }
    }
    // If the prompt was too short to finish, steps go on with the switch.
    for (int pass = 0; pass < 100 && !state.is_done(); ++pass) {
      for (int block = 0; block < n; ++block) {
        state.before_block(block);
        if (state.loading()) state.loaded();
      }
    }
    EXPECT_TRUE(state.is_done());
  }
}

// Says whether some order of loads and pauses has all blocks switched when the prompt ends.
bool can_finish(const std::vector<BlockTimes>& times, int n_chunks, std::vector<Layout> layouts,
                int position, int loading, double left_us) {
  const auto n = static_cast<int>(times.size());
  if (position == n * n_chunks) {
    return loading < 0 && std::count(layouts.begin(), layouts.end(), kPrompt) == 0;
  }
  const auto compute = [&](int in_flight, double us) {
    const auto block = static_cast<size_t>(position % n);
    us -= times[block].compute_us(layouts[block]);
    std::vector<Layout> then = layouts;
    if (in_flight >= 0 && us <= 1e-9) {
      then[static_cast<size_t>(in_flight)] = kStep;
      in_flight = -1;
    }
    return can_finish(times, n_chunks, then, position + 1, in_flight, us);
  };
  if (compute(loading, left_us)) return true;
  if (loading >= 0) return false;
  for (int other = 0; other < n; ++other) {
    const auto at = static_cast<size_t>(other);
    if (layouts[at] == kPrompt && compute(other, times[at].load_step_us)) return true;
  }
  return false;
}

TEST(LayoutSwitch, D1FinishesWithThePromptIfThatIsPossible) {
  int n_possible = 0, n_impossible = 0;
  for (int n = 1; n <= 4; ++n) {
    for (int n_chunks = 1; n_chunks <= 3; ++n_chunks) {
      for (const double load_us : {0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 6.0, 10.0}) {
        for (const double step_us : {1.0, 1.25, 2.0}) {
          const auto times = equal_blocks(n, 1.0, step_us, load_us);
          const bool is_possible = can_finish(times, n_chunks, all(n, kPrompt), 0, -1, 0.0);
          (is_possible ? n_possible : n_impossible) += 1;
          const SwitchForecast greedy = forecast(times, all(n, kPrompt), n_chunks, {0, 0});
          if (step_us == 1.0) {
            EXPECT_EQ(greedy.is_finished, is_possible) << n << " " << n_chunks << " " << load_us;
          } else {
            // Other orders may finish because they compute more slowly, which is no gain.
            EXPECT_LE(greedy.is_finished, is_possible) << n << " " << n_chunks << " " << load_us;
          }
          const SwitchPlan plan = plan_switch(times, all(n, kPrompt), n_chunks);
          const SwitchForecast chosen = forecast(times, all(n, kPrompt), n_chunks, plan);
          EXPECT_LE(chosen.latency_us(), greedy.latency_us() + 1e-6);
          if (step_us == 1.0 && is_possible) {
            EXPECT_TRUE(chosen.is_finished);  // loses nothing by switching early
            EXPECT_EQ(chosen.latency_us(), chosen.prompt_us);
          }
        }
      }
    }
  }
  EXPECT_GT(n_possible, 50);
  EXPECT_GT(n_impossible, 50);
}

TEST(LayoutSwitch, D1ALongPromptBeginsLate) {
  // Three of the twenty chunks hide all loads.
  const auto times = equal_blocks(8, 1.0, 1.3, 2.0);
  const SwitchPlan plan = plan_switch(times, all(8, kPrompt), 20);
  EXPECT_GT(plan.start, 16 * 8);
  const SwitchForecast late = forecast(times, all(8, kPrompt), 20, plan);
  const SwitchForecast paper = forecast(times, all(8, kPrompt), 20, {0, 0});
  EXPECT_LT(late.prompt_us, 0.9 * paper.prompt_us);
  EXPECT_LT(late.latency_us() - 20 * 8, 3.0);  // bounds the time that is lost in all
}

TEST(LayoutSwitch, D1ThePromptIsOverBeforeTheSwitch) {
  const auto times = equal_blocks(4, 1.0, 1.2, 3.0);
  const SwitchForecast result = forecast(times, all(4, kPrompt), 1, {0, 0});
  EXPECT_FALSE(result.is_finished);
  EXPECT_EQ(result.loads.size(), 4u);  // includes the loads behind the prompt
  EXPECT_EQ(result.prompt_us, 1.0 + 1.0 + 1.0 + 1.2);
  EXPECT_DOUBLE_EQ(result.switched_us, 12.0);  // has no pause between loads
  // Steps go on in mixed layouts: the first blocks are still in the prompt's layout.
  LayoutSwitch state(times);
  state.follow({0, 0});
  for (int block = 0; block < 4; ++block) {
    state.before_block(block);
    if (block == 2) state.loaded();
  }
  EXPECT_EQ(state.layout(3), kStep);
  EXPECT_EQ(state.layout(0), kPrompt);
  EXPECT_EQ(state.loading(), (BlockLoad{2, kStep}));
}

TEST(LayoutSwitch, D1TheWayBackForTheNextPrompt) {
  const auto times = equal_blocks(6, 1.0, 2.0, 1.5);
  const auto steps = all(6, kStep);
  const int n_chunks = 12;
  const SwitchPlan plan = plan_switch(times, steps, n_chunks);
  EXPECT_GT(plan.n_back, 0);
  const SwitchForecast result = forecast(times, steps, n_chunks, plan);
  EXPECT_LT(result.latency_us(), 0.7 * n_chunks * 6 * 2.0);  // bounds the time without the way back
  EXPECT_EQ(result.loads.front().load.into, kPrompt);
  EXPECT_EQ(result.loads.back().load.into, kStep);
  EXPECT_LE(result.latency_us(), result.prompt_us + 1.5);  // waits only for a part of the last load
  // The first load ends just before its block has its turn.
  EXPECT_EQ(result.loads.front().load.block, result.loads.front().k);
  // A short prompt is not worth the way back.
  const SwitchPlan stay = plan_switch(equal_blocks(6, 1.0, 1.1, 4.0), steps, 1);
  EXPECT_EQ(stay.n_back, 0);
  EXPECT_TRUE(forecast(equal_blocks(6, 1.0, 1.1, 4.0), steps, 1, stay).loads.empty());
}

TEST(LayoutSwitch, D1AnyPlanIsAtMostAsSlowAsStayingOrAsThePapers) {
  std::mt19937 random(5);
  for (int trial = 0; trial < 200; ++trial) {
    const int n = 1 + static_cast<int>(random() % 6);
    const int n_chunks = 1 + static_cast<int>(random() % 6);
    const auto times = random_blocks(random, n);
    auto layouts = all(n, kPrompt);
    for (Layout& layout : layouts) layout = random() % 2 == 0 ? kPrompt : kStep;
    const SwitchPlan plan = plan_switch(times, layouts, n_chunks);
    const double us = forecast(times, layouts, n_chunks, plan).latency_us();
    EXPECT_LE(us, forecast(times, layouts, n_chunks, {0, 0}).latency_us() + 1e-6);
    EXPECT_LE(us, forecast(times, layouts, n_chunks, {0, n * n_chunks}).latency_us() + 1e-6);
  }
}

// Chooses as plan_switch does, by a forecast of every plan that it compares.
SwitchPlan plan_by_forecasts(const std::vector<BlockTimes>& times,
                             const std::vector<Layout>& layouts, int n_chunks) {
  const auto n = static_cast<int>(times.size());
  const auto latency_us = [&](const SwitchPlan& plan) {
    return forecast(times, layouts, n_chunks, plan).latency_us();
  };
  SwitchPlan best;
  double best_us = latency_us(best);
  const auto take = [&](const SwitchPlan& plan) {
    const double us = latency_us(plan);
    const bool is_earlier =
        plan.n_back != best.n_back ? plan.n_back > best.n_back : plan.start <= best.start;
    if (us > best_us + kSameUs || (us >= best_us - kSameUs && is_earlier)) return;
    best = plan;
    best_us = us;
  };
  for (int n_back = 0; n_back <= n; ++n_back) {
    if (n_back > 0 && layouts[static_cast<size_t>(n_back) - 1] == kPrompt) continue;
    for (int chunk = 0; chunk <= n_chunks; ++chunk) take({n_back, chunk * n});
  }
  const int middle = best.start, last = std::min(n_chunks * n, middle + n);
  for (int start = std::max(0, middle - n); start <= last; ++start) take({best.n_back, start});
  return best;
}

// Loads last from a part of a block to several rounds; where all blocks are alike, many plans are
// equally good.
TEST(LayoutSwitch, D1PlansAreThoseThatForecastsOfAllOfThemChoose) {
  std::mt19937 random(13);
  int n_back = 0, n_late = 0;
  for (int trial = 0; trial < 3000; ++trial) {
    const int n = 1 + static_cast<int>(random() % 7);
    const int n_chunks = 1 + static_cast<int>(random() % 9);
    auto times = random_blocks(random, n);
    if (trial % 4 == 0) times = equal_blocks(n, 1.0, trial % 8 == 0 ? 1.0 : 1.25, 1.0);
    const double factor = 0.25 * static_cast<double>(1u << random() % 8);
    for (BlockTimes& block : times) {
      block.load_prompt_us *= factor * (random() % 2 == 0 ? 1.0 : 0.5);
      block.load_step_us *= factor;
    }
    auto layouts = all(n, trial % 3 == 0 ? kPrompt : kStep);
    if (trial % 3 == 1) {
      for (Layout& layout : layouts) layout = random() % 2 == 0 ? kPrompt : kStep;
    }
    const SwitchPlan plan = plan_switch(times, layouts, n_chunks);
    const SwitchPlan wanted = plan_by_forecasts(times, layouts, n_chunks);
    ASSERT_EQ(plan.n_back, wanted.n_back) << trial;
    ASSERT_EQ(plan.start, wanted.start) << trial;
    n_back += plan.n_back > 0;
    n_late += plan.start > 0 && plan.start < n * n_chunks;
  }
  EXPECT_GT(n_back, 300);
  EXPECT_GT(n_late, 300);
}

// The prompt waits for its plan, and other requests wait with it. Behind steps all blocks can go
// back, so that plans are most.
TEST(LayoutSwitch, D1StepsOfPlanningGrowWithTheChunksAndNotWithTheirSquare) {
  constexpr int kBlocks = 32;
  for (const double load_us : {0.5, 3.0, 70.0, 4000.0}) {
    const auto times = equal_blocks(kBlocks, 1.0, 1.25, load_us);
    const auto steps_for = [&](int n_chunks) {
      int64_t n_steps = 0;
      plan_switch(times, all(kBlocks, kStep), n_chunks, &n_steps);
      return n_steps;
    };
    const int64_t of_some = steps_for(256), of_many = steps_for(512);
    EXPECT_LT(of_many, 3 * of_some) << load_us;
    // Each plan has at most two loads of a block, and between two of them less than a round.
    const int64_t n_plans = int64_t{kBlocks + 1} * (512 + 1) + 2 * kBlocks + 2;
    EXPECT_LT(of_many, n_plans * 4 * kBlocks * kBlocks) << load_us;
    EXPECT_GT(of_many, n_plans) << load_us;
  }
}

// If steps cannot be computed in the prompt's layout, the next block that they meet is loaded next.
// A load that the prompt has begun ends first.
TEST(LayoutSwitch, D1StepsThatWaitTakeBlocksInTheirOwnOrder) {
  LayoutSwitch state(equal_blocks(4, 1.0, 1.0, 10.0));
  state.follow({0, 0});
  EXPECT_EQ(state.before_block(0), (BlockLoad{3, kStep}));
  EXPECT_EQ(state.before_step(0), std::nullopt);
  EXPECT_EQ(state.layout(0), kPrompt);
  state.loaded();
  std::vector<int> order;
  for (int block = 0; block < 4; ++block) {
    while (state.layout(block) == kPrompt) {
      const auto load = state.before_step(block);
      ASSERT_TRUE(load.has_value());
      EXPECT_EQ(load->into, kStep);
      order.push_back(load->block);
      state.loaded();
    }
  }
  EXPECT_EQ(order, (std::vector<int>{0, 1, 2}));
  EXPECT_TRUE(state.is_done());
  EXPECT_EQ(state.before_step(2), std::nullopt);
}

TEST(LayoutSwitch, D1AStepAsksForTheBlocksBehindItFirst) {
  LayoutSwitch state(equal_blocks(4, 1.0, 1.0, 1.0), {kPrompt, kStep, kStep, kPrompt});
  EXPECT_EQ(state.before_step(1), (BlockLoad{3, kStep}));
  state.loaded();
  EXPECT_EQ(state.before_step(1), (BlockLoad{0, kStep}));
}

TEST(LayoutSwitch, D1AFailedLoadLeavesTheBlockAsItWasAndIsTriedAgain) {
  LayoutSwitch state(equal_blocks(3, 1.0, 1.0, 1.0));
  state.follow({0, 0});
  EXPECT_EQ(state.before_block(0), (BlockLoad{2, kStep}));
  state.failed();
  EXPECT_EQ(state.layout(2), kPrompt);
  EXPECT_FALSE(state.loading().has_value());
  EXPECT_EQ(state.before_block(1), (BlockLoad{2, kStep}));
}

}  // namespace
}  // namespace troika::schedule
