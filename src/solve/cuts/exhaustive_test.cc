// Compares what the searches find with the best of all that they may try (H10).
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "schedule/cut/plan_cuts.h"
#include "schedule/graphs.h"
#include "solve/cuts/cuts_test_support.h"

namespace troika::solve {
namespace {

using plan::Phase;
using plan::Shape;
using plan::Shares;
using plan::TensorCut;

// The products of one input, which are cut alike.
struct AlikeOps {
  std::vector<std::pair<const char*, int>> ops;  // with their rows
  int n_rows = 0;                                // the rows of the largest
};

std::vector<AlikeOps> alike_ops(const lanes::Subgraph& subgraph) {
  std::vector<AlikeOps> groups;
  const model::Op* before = nullptr;
  for (const model::Op& op : subgraph.ops) {
    if (!schedule::is_product(op)) continue;
    if (before == nullptr || before->inputs[0] != op.inputs[0]) groups.emplace_back();
    before = &op;
    const int n_rows = subgraph.blueprint->weights[static_cast<size_t>(op.weight)].n_rows;
    groups.back().ops.emplace_back(schedule::op_name(*subgraph.blueprint, op), n_rows);
    groups.back().n_rows = std::max(groups.back().n_rows, n_rows);
  }
  return groups;
}

int sixteenth(int n_rows) { return std::max(16, n_rows / 16 / 16 * 16); }

// Returns every way to divide rows between lane 0 and one of the others, or two.
std::vector<Shares> row_ways(int n, int n_lanes) {
  const int step = sixteenth(n);
  std::vector<Shares> ways = {{}};
  for (int a = 1; a < n_lanes; ++a) {
    ways.push_back({{a, n}});
    for (int rows = step; rows < n; rows += step) ways.push_back({{0, rows}, {a, n - rows}});
    for (int b = a + 1; b < n_lanes; ++b) {
      for (int first = step; first < n; first += step) {
        ways.push_back({{a, first}, {b, n - first}});
        for (int second = step; first + second < n; second += step) {
          ways.push_back({{0, first}, {a, second}, {b, n - first - second}});
        }
      }
    }
  }
  return ways;
}

TensorCut cut_in(const lanes::Subgraph& subgraph, const char* op = "") {
  TensorCut cut;
  cut.subgraph = subgraph.name;
  cut.op = op;
  return cut;
}

// Calls `take` with the cuts of all products by rows, each group divided in every way, alike or
// not. A group may also have the shares that are round for the first one.
template <typename Take>
void each_row_cut(const lanes::Subgraph& subgraph, int n_lanes, const Take& take) {
  const std::vector<AlikeOps> groups = alike_ops(subgraph);
  std::vector<std::vector<std::vector<TensorCut>>> choices;
  for (const AlikeOps& group : groups) {
    std::vector<Shares> ways = row_ways(group.n_rows, n_lanes);
    if (group.n_rows != groups.front().n_rows) {
      const std::vector<Shares> more = row_ways(groups.front().n_rows, n_lanes);
      ways.insert(ways.end(), more.begin(), more.end());
    }
    choices.emplace_back();
    for (const Shares& rows : ways) {
      std::vector<TensorCut>& cuts = choices.back().emplace_back();
      for (const auto& [op, n_rows] : group.ops) {
        if (rows.empty() || !schedule::divides_rows(n_rows, rows)) continue;
        cuts.push_back(cut_in(subgraph, op));
        cuts.back().rows = rows;
      }
    }
  }
  std::vector<size_t> at(choices.size(), 0);
  while (true) {
    std::vector<TensorCut> cuts;
    for (size_t g = 0; g < at.size(); ++g) {
      cuts.insert(cuts.end(), choices[g][at[g]].begin(), choices[g][at[g]].end());
    }
    take(cuts);
    size_t g = 0;
    while (g < at.size() && ++at[g] == choices[g].size()) at[g++] = 0;
    if (g == at.size()) return;
  }
}

// Calls `take` with cuts by tokens, and by tokens and rows at once.
template <typename Take>
void each_token_cut(const lanes::Subgraph& subgraph, int n_tokens, int n_lanes, const Take& take) {
  constexpr int kGranule = 32;
  const int n = alike_ops(subgraph).front().n_rows;
  const int step = std::max(sixteenth(n), n / 8 / 16 * 16);
  const int token_step = std::max(kGranule, n_tokens / 8 / kGranule * kGranule);
  for (int a = 1; a < n_lanes; ++a) {
    for (int tokens = kGranule; tokens < n_tokens; tokens += kGranule) {
      TensorCut cut = cut_in(subgraph);
      cut.tokens = {{0, tokens}, {a, n_tokens - tokens}};
      take({cut});
      if (tokens % token_step != 0) continue;
      for (int rows = step; rows < n; rows += step) {
        cut.rows = {{0, rows}, {a, n - rows}};
        take({cut});
      }
    }
  }
}

// Returns the least time of a subgraph on lane 0 with any of the cuts that the search may try, or
// with none.
double least_us(const TimeModel& times, const lanes::Subgraph& subgraph, Shape shape, int n_lanes) {
  double best = cut_us(times, subgraph, {}, shape, 0, shape.n_rows);
  const auto take = [&](const std::vector<TensorCut>& cuts) {
    best = std::min(best, cut_us(times, subgraph, cuts, shape, 0, shape.n_rows));
  };
  if (!subgraph.is_dynamic()) {
    each_row_cut(subgraph, n_lanes, take);
    each_token_cut(subgraph, shape.n_rows, n_lanes, take);
    return best;
  }
  for (int a = 1; a < n_lanes; ++a) {
    for (int heads = 1; heads < subgraph.blueprint->n_kv_heads; ++heads) {
      TensorCut cut = cut_in(subgraph);
      cut.heads = {{0, heads}, {a, subgraph.blueprint->n_kv_heads - heads}};
      take({cut});
    }
  }
  return best;
}

// Counts the kinds of cuts that were taken.
struct TakenCuts {
  int n_whole = 0, n_rows = 0, n_tokens = 0, n_both = 0, n_heads = 0, n_threes = 0;

  void note(const CutFound& found) {
    if (!found.is_worthwhile) {
      ++n_whole;
      return;
    }
    const TensorCut& cut = found.cuts.front();
    ++(!cut.heads.empty()   ? n_heads
       : cut.tokens.empty() ? n_rows
       : cut.rows.empty()   ? n_tokens
                            : n_both);
    const auto is_of_three = [](const TensorCut& some) { return some.rows.size() == 3; };
    n_threes += std::any_of(found.cuts.begin(), found.cuts.end(), is_of_three) ? 1 : 0;
  }
};

TakenCuts expect_the_best(int n_lanes, int n_seeds, const std::vector<const char*>& names,
                          const CutModel& m = CutModel()) {
  TakenCuts taken;
  for (int seed = 0; seed < n_seeds / kOfSeeds; ++seed) {
    const RandomTimes times(static_cast<uint64_t>(seed), n_lanes, m.weights);
    CutRules rules;
    rules.n_lanes = n_lanes;
    const Shape shape = seed % 2 == 0 ? Shape{Phase::kStep, 1} : Shape{Phase::kPrompt, 128};
    const lanes::Subgraph& subgraph = m.named(names[static_cast<size_t>(seed) % names.size()]);
    const CutFound found = search_cuts(times, rules, subgraph, shape, 0, shape.n_rows);
    const double best = least_us(times, subgraph, shape, n_lanes);
    EXPECT_NEAR(found.best_us(), best, best * 1e-12) << subgraph.name << ", seed " << seed;
    EXPECT_FALSE(found.is_bounded);
    taken.note(found);
  }
  return taken;
}

TEST(Exhaustive, H10_TheSearchFindsWhatTryingEverythingFinds) {
  const TakenCuts taken = expect_the_best(2, 1000, {"ffn", "qkv", "attention"});
  EXPECT_GT(taken.n_whole, 0);
  EXPECT_GT(taken.n_rows, 0);
  EXPECT_GT(taken.n_tokens + taken.n_both, 0);
  EXPECT_GT(taken.n_heads, 0);
}

TEST(Exhaustive, H10_TheSearchFindsTheBestOfThreeLanes) {
  const TakenCuts taken = expect_the_best(3, 300, {"qkv", "attention"});
  EXPECT_GT(taken.n_whole, 0);
  EXPECT_GT(taken.n_threes, 0);
  EXPECT_GT(taken.n_heads, 0);
}

// The products of several inputs together have millions of ways on three lanes, but few rows have
// some thousands.
TEST(Exhaustive, H10_TheSearchFindsTheBestOfThreeLanesForProductsOfSeveralInputs) {
  model::KnownModel narrow = model::get_known("tiny-llama");
  narrow.width = 64;
  narrow.n_heads = 2;
  narrow.n_kv_heads = 1;
  narrow.head_dim = 32;
  narrow.ffn_width = 96;
  const TakenCuts taken = expect_the_best(3, 48, {"ffn"}, CutModel(narrow));
  EXPECT_GT(taken.n_whole, 0);
  EXPECT_GT(taken.n_threes, 0);
}

// Says whether homes, one for each name, are possible.
using HomesTest = std::function<bool(const std::vector<const char*>&, const std::vector<size_t>&)>;

// Returns the time of the best pass: each kind of subgraph has each lane as its home, as far as
// that is possible, and there the best cut.
double least_pass_us(
    const CutModel& m, const TimeModel& times, const CutRequest& request, Shape shape,
    const HomesTest& is_possible = [](const auto&, const auto&) { return true; }) {
  std::vector<const char*> names;
  for (const lanes::Subgraph& subgraph : m.subgraphs) {
    const auto same = [&](const char* name) { return std::string_view(name) == subgraph.name; };
    if (std::none_of(names.begin(), names.end(), same)) names.push_back(subgraph.name);
  }
  const int n_lanes = request.cuts.n_lanes;
  std::vector<std::vector<double>> us(names.size());
  for (size_t k = 0; k < names.size(); ++k) {
    const lanes::Subgraph& subgraph = m.named(names[k]);
    const int context = std::max(shape.n_rows, shape.n_rows == 1 ? 512 : 0);
    for (int home = 0; home < n_lanes; ++home) {
      const Shape built = subgraph.is_head() ? Shape() : shape;
      us[k].push_back(search_cuts(times, request.cuts, subgraph, built, home, context).best_us());
    }
  }
  double best = 0.0;
  std::vector<size_t> homes(names.size(), 0);
  while (true) {
    double sum = 0.0;
    int before = -1;
    for (const lanes::Subgraph& subgraph : m.subgraphs) {
      size_t k = 0;
      while (std::string_view(names[k]) != subgraph.name) ++k;
      const int home = static_cast<int>(homes[k]);
      sum += us[k][homes[k]] + (before < 0 ? 0.0 : times.handover_us(before, home));
      before = home;
    }
    if ((best == 0.0 || sum < best) && is_possible(names, homes)) best = sum;
    size_t k = 0;
    while (k < homes.size() && ++homes[k] == static_cast<size_t>(n_lanes)) homes[k++] = 0;
    if (k == homes.size()) return best;
  }
}

TEST(Exhaustive, H10_NoOtherHomesAreBetter) {
  const CutModel m;
  std::set<int> n_homes;
  for (int seed = 0; seed < 12 / kOfSeeds; ++seed) {
    const int n_lanes = 2 + seed % 2;
    const RandomTimes times(static_cast<uint64_t>(seed), n_lanes, m.weights);
    const plan::Plan plan = plan_with(n_lanes);
    const CutRequest request = cut_request_of(plan);
    const CutChoice choice = solve_cuts(m.blueprint, m.weights, plan, times, request);
    for (const ShapeChoice& shape : choice.places.shapes) {
      const double best = least_pass_us(m, times, request, shape.shape);
      EXPECT_NEAR(shape.us, best, best * 1e-12) << "seed " << seed << ", " << shape.shape.n_rows;
      std::set<int> homes;
      for (const auto& [kind, lane] : shape.lanes) homes.insert(lane);
      n_homes.insert(static_cast<int>(homes.size()));
    }
  }
  EXPECT_GT(n_homes.size(), 1u);
}

// Expects that a pass is no slower than the best of those in which each kind has one home, while
// the last of three lanes, which is home to whole subgraphs alone, may hold so much.
void expect_no_better_home(const CutModel& m, const TimeModel& times, uint64_t limit_bytes) {
  plan::Plan plan = plan_with(3);
  plan.step_shapes = {8};
  plan.prompt_shapes = {};
  plan.lanes[2].memory_limit = limit_bytes;
  CutRequest request = cut_request_of(plan);
  request.cuts.may_take = [](std::string_view, Shape, int lane) { return lane != 2; };
  const CutChoice choice = solve_cuts(m.blueprint, m.weights, plan, times, request);
  const auto has_room = [&](const auto& names, const auto& homes) {
    plan::Plan placed = plan;
    for (size_t k = 0; k < names.size(); ++k) {
      placed.placements.push_back({names[k], 0, static_cast<int>(homes[k])});
    }
    return held_by_lanes(m.blueprint, m.weights, placed)[2] <= limit_bytes;
  };
  const ShapeChoice& found = choice.places.shapes.front();
  EXPECT_LE(found.us, least_pass_us(m, times, request, found.shape, has_room) * (1.0 + 1e-12));
}

// A lane that has room for some blocks of a kind splits it, so that no cut holds for it. It must
// not hide that all blocks on another lane, in pieces, take less time.
TEST(Exhaustive, N9_ALaneWithSomeRoomHidesNoBetterHomes) {
  const CutModel m;
  uint64_t body_bytes = 0;
  for (const lanes::Subgraph& subgraph : m.subgraphs) {
    body_bytes += weight_bytes(subgraph, m.weights);
  }
  for (uint64_t seed = 0; seed < 16 / kOfSeeds; ++seed) {
    SCOPED_TRACE(seed);
    const RandomTimes times(seed, 3, m.weights);
    for (const uint64_t tenths : {0, 3, 6}) {
      expect_no_better_home(m, times, body_bytes * tenths / 10);
    }
  }
}

// Calls `take` with every way to make up n tokens of these counts, the largest first.
void each_sum(int n, const std::vector<int>& counts, Shares* parts,
              const std::function<void(const Shares&)>& take) {
  if (n == 0) take(*parts);
  for (const int count : counts) {
    const bool is_next = parts->empty() || count <= parts->back().n;
    if (count > n || !is_next) continue;
    parts->push_back({1, count});
    each_sum(n - count, counts, parts, take);
    parts->pop_back();
  }
}

// Returns the least time of a length where lane 1 takes prebuilt counts and lane 0 any number.
double least_length_us(const CutModel& m, const TimeModel& times, const plan::Plan& plan,
                       const LengthRules& rules, int n_tokens) {
  double best = 0.0;
  const auto take = [&](const Shares& parts) {
    if (parts.size() < 2) return;
    const Shape shape = {Phase::kPrompt, n_tokens};
    double us = 0.0;
    for (const lanes::Subgraph& subgraph : m.subgraphs) {
      if (!schedule::is_divided_by_lengths(subgraph)) continue;
      const int home = plan.lane_of(subgraph.name, shape, subgraph.block());
      us += times.pieces_us(schedule::lower(subgraph, {home, schedule::range_cut_of_tokens(parts)}),
                            home, shape, n_tokens);
    }
    if (best == 0.0 || us < best) best = us;
  };
  for (int n = rules.token_granule; n <= n_tokens; n += rules.token_granule) {
    Shares parts;
    each_sum(n, rules.prebuilt, &parts, [&](const Shares& sum) {
      Shares all = sum;
      if (n < n_tokens) all.push_back({0, n_tokens - n});
      take(all);
    });
  }
  return best;
}

TEST(Exhaustive, H10_NoOtherSumOfCountsIsBetter) {
  const CutModel m;
  int n_taken = 0, n_of_several = 0;
  for (int seed = 0; seed < 200 / kOfSeeds; ++seed) {
    const RandomTimes times(static_cast<uint64_t>(seed), 2, m.weights);
    plan::Plan plan = plan_with(2);
    plan.placements = {{"", 0, seed % 2}};
    LengthRules rules;
    rules.lengths = {96, 160, 224};
    rules.fixed_lanes = {1};
    rules.prebuilt = plan.prompt_shapes;
    for (const LengthFound& found :
         find_lengths(times, kinds_of(m.subgraphs, m.weights), plan, rules)) {
      const double best = least_length_us(m, times, plan, rules, found.n_tokens);
      EXPECT_NEAR(found.us, best, best * 1e-12) << "seed " << seed << ", " << found.n_tokens;
      n_taken += found.is_worthwhile ? 1 : 0;
      n_of_several += found.tokens.size() > 2 ? 1 : 0;
    }
  }
  EXPECT_GT(n_taken, 0);
  EXPECT_GT(n_of_several, 0);
}

}  // namespace
}  // namespace troika::solve
