// Runs sparse attention of prompts as tasks of heads, and tests the order in which they run.
#include "schedule/head_pipeline.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "attention/head_order.h"
#include "base/error.h"
#include "base/random.h"
#include "forge/hollow.h"
#include "model/architecture.h"
#include "model/known.h"
#include "schedule/cut/lower.h"
#include "schedule/graphs.h"
#include "schedule/ordered_heads.h"

namespace troika::schedule {
namespace {

using lanes::Role;

constexpr int kCores = 0, kMatrix = 1, kOther = 2;  // are lanes

struct PipelineModel {
  explicit PipelineModel(const char* name) : hollow(model::get_known(name), "q8_0") {}
  lanes::Subgraph attention() const {
    for (const lanes::Subgraph& subgraph : cut_into_subgraphs(blueprint)) {
      if (subgraph.is_dynamic()) return subgraph;
    }
    return {};
  }
  forge::HollowModel hollow;
  gguf::File file = hollow.open();
  model::Blueprint blueprint = model::read(file);
};

// Returns a pipeline in which heads 0, 2 and 5 have bucket 7, heads 1 and 4 have bucket 3, and head
// 3 has bucket 0.
HeadPipeline six_heads(HeadStage stage) {
  HeadPipeline pipeline;
  pipeline.estimate_lane = kMatrix;
  pipeline.select_lane = kCores;
  pipeline.stage = stage;
  pipeline.heads = {{{0.1, 0.2, 0.3, 0.4, 0.05, 0.15}, {7, 3, 7, 0, 3, 7}}};
  return pipeline;
}

std::vector<Piece> pieces_of(const PipelineModel& m, const HeadPipeline& pipeline) {
  return lower(m.attention(), {kCores, HeadCut{&pipeline}});
}

TEST(HeadPipeline, S5HeadsOfOneBucketAreLaunchedTogether) {
  const PipelineModel m("tiny-llama");
  std::vector<std::vector<int>> launches;
  std::vector<int> built;
  for (const Piece& piece : pieces_of(m, six_heads(HeadStage::kFused))) {
    if (piece.subgraph.role != Role::kEstimate) continue;
    EXPECT_EQ(piece.lane, kMatrix);
    EXPECT_TRUE(piece.waits_for.empty());
    launches.push_back(piece.subgraph.sparse.heads);
    built.push_back(piece.subgraph.sparse.n_built);
  }
  EXPECT_EQ(launches, (std::vector<std::vector<int>>{{3}, {1, 4}, {0, 2, 5}}));
  // The launch of three heads takes the graph of four.
  EXPECT_EQ(built, (std::vector<int>{1, 2, 4}));
}

// On lanes that compute, estimates wait until keys and values are stored.
TEST(HeadPipeline, S6EstimatesWaitForKeysWhereTheyAreStoredApart) {
  const PipelineModel m("tiny-llama");
  for (const HeadStage stage : {HeadStage::kInTurn, HeadStage::kOverlap, HeadStage::kOrdered}) {
    HeadPipeline pipeline = six_heads(stage);
    pipeline.stores_apart = true;
    const std::vector<Piece> pieces = pieces_of(m, pipeline);
    ASSERT_EQ(pieces[0].subgraph.role, Role::kStore);
    EXPECT_TRUE(pieces[0].waits_for.empty());
    for (size_t i = 1; i < pieces.size(); ++i) {
      EXPECT_FALSE(pieces[i].waits_for.empty());
      if (pieces[i].subgraph.role != Role::kEstimate) continue;
      const bool is_first = i == 1 || stage != HeadStage::kInTurn;
      EXPECT_EQ(pieces[i].waits_for == std::vector<int>{0}, is_first);
    }
    EXPECT_EQ(last_of(pieces).size(), stage == HeadStage::kInTurn ? 1u : 6u);
  }
}

TEST(HeadPipeline, S5MoreHeadsThanTheLargestGraphHasAreLaunchedInParts) {
  const PipelineModel m("tiny-llama");
  HeadPipeline pipeline = six_heads(HeadStage::kFused);
  pipeline.heads[0].shares.assign(20, 0.2);
  pipeline.heads[0].buckets.assign(20, 4);
  std::vector<size_t> sizes;
  for (const Piece& piece : pieces_of(m, pipeline)) {
    if (piece.subgraph.role == Role::kEstimate) sizes.push_back(piece.subgraph.sparse.heads.size());
  }
  EXPECT_EQ(sizes, (std::vector<size_t>(5, 4)));
}

TEST(HeadPipeline, S6EachHeadIsEstimatedSelectedAndComputedOnceInThatOrder) {
  const PipelineModel m("tiny-llama");
  for (const HeadStage stage :
       {HeadStage::kInTurn, HeadStage::kOverlap, HeadStage::kFused, HeadStage::kOrdered}) {
    const HeadPipeline pipeline = six_heads(stage);
    const std::vector<Piece> pieces = pieces_of(m, pipeline);
    std::map<Role, std::multiset<int>> seen;
    int last_exact = -1;
    for (size_t i = 0; i < pieces.size(); ++i) {
      const lanes::SparseHeads& sparse = pieces[i].subgraph.sparse;
      seen[pieces[i].subgraph.role].insert(sparse.heads.begin(), sparse.heads.end());
      const std::vector<int>& waits_for = pieces[i].waits_for;
      switch (pieces[i].subgraph.role) {
        case Role::kEstimate:
          // In turn, a head begins when the one before has ended.
          EXPECT_EQ(waits_for, stage == HeadStage::kInTurn && last_exact >= 0
                                   ? std::vector<int>{last_exact}
                                   : std::vector<int>());
          break;
        case Role::kSelect: {
          ASSERT_EQ(waits_for.size(), 1u);
          const lanes::Subgraph& before = pieces[static_cast<size_t>(waits_for[0])].subgraph;
          EXPECT_EQ(before.role, Role::kEstimate);
          EXPECT_EQ(
              std::count(before.sparse.heads.begin(), before.sparse.heads.end(), sparse.heads[0]),
              1);
          break;
        }
        case Role::kExact:
          EXPECT_EQ(waits_for, std::vector<int>{static_cast<int>(i) - 1});
          EXPECT_EQ(pieces[i - 1].subgraph.sparse.heads, sparse.heads);
          EXPECT_EQ(sparse.share, pipeline.heads[0].shares[static_cast<size_t>(sparse.heads[0])]);
          last_exact = static_cast<int>(i);
          break;
        default:
          ADD_FAILURE();
      }
    }
    const std::multiset<int> all = {0, 1, 2, 3, 4, 5};
    EXPECT_EQ(seen[Role::kEstimate], all);
    EXPECT_EQ(seen[Role::kSelect], all);
    EXPECT_EQ(seen[Role::kExact], all);
    // Whatever follows attention waits for every head.
    const auto n_last = stage == HeadStage::kInTurn ? 1u : 6u;
    EXPECT_EQ(last_of(pieces).size(), n_last);
  }
}

TEST(HeadPipeline, S8StagesHaveNames) {
  for (const HeadStage stage :
       {HeadStage::kInTurn, HeadStage::kOverlap, HeadStage::kFused, HeadStage::kOrdered}) {
    EXPECT_EQ(head_stage_from_name(head_stage_name(stage)), stage);
  }
  EXPECT_THROW(head_stage_from_name("sideways"), UsageError);
}

// Returns a pass of two chunks of one block, with the pipeline's pieces as nodes. Estimates of the
// second chunk wait for the attention of the first.
Pass two_chunks(const std::vector<Piece>& pieces) {
  std::vector<Node> nodes;
  const auto n = static_cast<int>(pieces.size());
  for (int run = 0; run < 2; ++run) {
    for (const Piece& piece : pieces) {
      Node node;
      node.lane = piece.lane;
      node.block = 0;
      node.run = run;
      node.role = piece.subgraph.role;
      node.waits_for = piece.waits_for;
      for (int& other : node.waits_for) other += run * n;
      if (run == 1 && node.role == Role::kEstimate) {
        for (int i = 0; i < n; ++i) node.waits_for.push_back(i);
        std::sort(node.waits_for.begin(), node.waits_for.end());
      }
      nodes.push_back(std::move(node));
    }
  }
  return Pass(std::move(nodes));
}

// Lets the lanes choose nodes until all are done; a node that is done may make others ready.
// Returns in which order a chunk's nodes of a role were chosen. `us` has the expected times.
std::vector<int> order_of(const Pass& pass, const std::vector<double>& us, Role role, int run) {
  OrderedHeads policy(std::make_unique<InOrder>());
  policy.begin(pass, us);
  std::vector<int> missing(pass.n_waits().begin(), pass.n_waits().end());
  std::vector<bool> is_done(pass.n_nodes(), false);
  std::vector<int> order;
  for (size_t n_done = 0; n_done < pass.n_nodes(); ++n_done) {
    int chosen = -1;
    for (int lane = 0; lane < pass.n_lanes() && chosen < 0; ++lane) {
      std::vector<int> ready;
      int next = -1;
      for (const int node : pass.order(lane)) {
        if (is_done[static_cast<size_t>(node)]) continue;
        if (next < 0) next = node;
        if (missing[static_cast<size_t>(node)] == 0) ready.push_back(node);
      }
      if (!ready.empty()) chosen = policy.choose({pass, lane, ready, next, missing, us});
    }
    EXPECT_GE(chosen, 0);
    if (chosen < 0) return order;
    is_done[static_cast<size_t>(chosen)] = true;
    for (const int dependent : pass.dependents(chosen)) --missing[static_cast<size_t>(dependent)];
    if (pass.node(chosen).role == role && pass.node(chosen).run == run) order.push_back(chosen);
  }
  EXPECT_EQ(policy.planning()->n_plans, 2u);
  return order;
}

// The lanes follow the order of Algorithm 1 for the same times, or no plan where that is better.
TEST(OrderedHeads, S7LanesTakeHeadsInThePlannedOrder) {
  const PipelineModel m("tiny-llama");
  for (const int select_lane : {kCores, kOther}) {
    HeadPipeline pipeline = six_heads(HeadStage::kOrdered);
    pipeline.select_lane = select_lane;
    const std::vector<Piece> pieces = pieces_of(m, pipeline);
    const Pass pass = two_chunks(pieces);
    std::vector<double> us(pass.n_nodes());
    for (uint64_t seed = 0; seed < 20; ++seed) {
      for (size_t i = 0; i < us.size(); ++i) us[i] = 1.0 + 9.0 * random_unit(seed, i);
      for (int run = 0; run < 2; ++run) {
        std::vector<attention::FusedHeads> groups;
        std::vector<attention::HeadTimes> times;
        std::vector<int> estimates, exacts;
        const auto n = static_cast<int>(pieces.size());
        for (int i = run * n; i < (run + 1) * n; ++i) {
          if (pass.node(i).role == Role::kEstimate) {
            groups.push_back({us[static_cast<size_t>(i)], {}});
            estimates.push_back(i);
          } else if (pass.node(i).role == Role::kExact) {
            const double select_us = us[static_cast<size_t>(i) - 1];
            const double exact_us = us[static_cast<size_t>(i)];
            groups.back().heads.push_back(static_cast<int>(times.size()));
            // Where one lane selects and attends, there are two stages (K27).
            times.push_back(select_lane == kCores ? attention::HeadTimes{0.0, select_us + exact_us}
                                                  : attention::HeadTimes{select_us, exact_us});
            exacts.push_back(i);
          }
        }
        const attention::HeadOrder planned = attention::planned_order(groups, times);
        std::vector<int> wanted_estimates, wanted_exacts;
        for (const int group : planned.groups) {
          wanted_estimates.push_back(estimates[static_cast<size_t>(group)]);
        }
        for (const int head : planned.heads) {
          wanted_exacts.push_back(exacts[static_cast<size_t>(head)]);
        }
        EXPECT_EQ(order_of(pass, us, Role::kEstimate, run), wanted_estimates) << seed;
        EXPECT_EQ(order_of(pass, us, Role::kExact, run), wanted_exacts) << seed;
      }
    }
  }
}

}  // namespace
}  // namespace troika::schedule
