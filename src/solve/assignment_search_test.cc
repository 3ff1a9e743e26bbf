#include "solve/assignment_search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "base/random.h"

namespace troika::solve {
namespace {

using Assigned = std::vector<int>;

std::vector<Assigned> all_allowed(size_t n_kinds, int n_lanes) {
  Assigned lanes;
  for (int lane = 0; lane < n_lanes; ++lane) lanes.push_back(lane);
  return std::vector<Assigned>(n_kinds, lanes);
}

// Times of tasks that differ by kind and lane, and handovers between kinds that follow each other.
double made_up_us(const Assigned& lanes, double handover_us, uint64_t seed = 0) {
  double us = 0.0;
  for (size_t k = 0; k < lanes.size(); ++k) {
    const uint64_t key = 100 * seed + k;
    us += 1.0 + static_cast<double>(random_bits(key, static_cast<uint64_t>(lanes[k])) % 1000);
    if (k > 0 && lanes[k - 1] != lanes[k]) us += handover_us;
  }
  return us;
}

TEST(AssignmentSearch, TriesAllWhereTheyAreFew) {
  double least = std::numeric_limits<double>::infinity();
  size_t n_asked = 0;
  const FoundAssignment found = find_assignment(all_allowed(8, 3), [&](const Assigned& lanes) {
    ++n_asked;
    const double us = made_up_us(lanes, 300.0);
    least = std::min(least, us);
    return std::optional(us);
  });
  EXPECT_EQ(n_asked, 6561u);
  EXPECT_EQ(found.n_tried, n_asked);
  EXPECT_FALSE(found.is_bounded);
  EXPECT_EQ(made_up_us(found.lanes, 300.0), least);
}

// Eight kinds on eight lanes have 16.8 million assignments.
TEST(AssignmentSearch, IsBoundedWhereTheyAreMany) {
  for (const int n_lanes : {8, 64, 1024}) {
    const FoundAssignment found = find_assignment(
        all_allowed(8, n_lanes),
        [&](const Assigned& lanes) { return std::optional(made_up_us(lanes, 0.0)); });
    EXPECT_TRUE(found.is_bounded);
    EXPECT_LE(found.n_tried, kMostTried);
    ASSERT_EQ(found.lanes.size(), 8u);
    double best_single = std::numeric_limits<double>::infinity();
    for (int lane = 0; lane < n_lanes; ++lane) {
      best_single = std::min(best_single, made_up_us(Assigned(8, lane), 0.0));
    }
    EXPECT_LT(made_up_us(found.lanes, 0.0), best_single) << n_lanes;
  }
}

// Without handovers each kind has its best lane, whatever the others have, and with handovers that
// cost more than anything gains there is one lane for all.
TEST(AssignmentSearch, FindsTheBestOfManyWhereItIsKnown) {
  const auto found = [](double handover_us) {
    return find_assignment(
               all_allowed(8, 8),
               [&](const Assigned& lanes) { return std::optional(made_up_us(lanes, handover_us)); })
        .lanes;
  };
  const Assigned free = found(0.0);
  for (size_t k = 0; k < free.size(); ++k) {
    for (int lane = 0; lane < 8; ++lane) {
      Assigned other = free;
      other[k] = lane;
      EXPECT_GE(made_up_us(other, 0.0), made_up_us(free, 0.0));
    }
  }
  const Assigned dear = found(1e6);
  EXPECT_EQ(dear, Assigned(8, dear.front()));
}

// Seven kinds on four lanes are a few too many, and yet few enough to try them all here.
TEST(AssignmentSearch, IsNearlyAsGoodAsTryingAll) {
  const auto allowed = all_allowed(7, 4);
  for (uint64_t seed = 0; seed < 20; ++seed) {
    for (const double handover_us : {30.0, 100.0, 300.0}) {
      const auto us_of = [&](const Assigned& lanes) {
        return made_up_us(lanes, handover_us, seed);
      };
      double least = std::numeric_limits<double>::infinity();
      for (unsigned code = 0; code < 1u << 14; ++code) {
        Assigned lanes;
        for (size_t k = 0; k < 7; ++k) lanes.push_back(static_cast<int>(code >> 2 * k & 3));
        least = std::min(least, us_of(lanes));
      }
      const FoundAssignment found = find_assignment(
          allowed, [&](const Assigned& lanes) { return std::optional(us_of(lanes)); });
      EXPECT_TRUE(found.is_bounded);
      EXPECT_LE(us_of(found.lanes), 1.02 * least) << seed << ", " << handover_us;
    }
  }
}

// No start is possible where the first kind may not be with the second: only a change of two
// kinds at once leads from one possible assignment to a better one.
TEST(AssignmentSearch, PassesBetweenPossibleOnes) {
  const FoundAssignment found =
      find_assignment(all_allowed(8, 8), [](const Assigned& lanes) -> std::optional<double> {
        if (lanes[0] == lanes[1] || lanes[0] + lanes[1] != 7) return std::nullopt;
        return made_up_us(lanes, 0.0);
      });
  ASSERT_FALSE(found.lanes.empty());
  EXPECT_EQ(found.lanes[0] + found.lanes[1], 7);
  EXPECT_TRUE(find_assignment(all_allowed(8, 8), [](const Assigned&) {
                return std::optional<double>();
              }).lanes.empty());
}

TEST(AssignmentSearch, KeepsToTheAllowedLanes) {
  std::vector<Assigned> allowed = all_allowed(8, 8);
  allowed[2] = {5};
  allowed[3] = {1, 7};
  const FoundAssignment found =
      find_assignment(allowed, [&](const Assigned& lanes) -> std::optional<double> {
        EXPECT_EQ(lanes[2], 5);
        EXPECT_TRUE(lanes[3] == 1 || lanes[3] == 7);
        return made_up_us(lanes, 10.0);
      });
  EXPECT_TRUE(found.is_bounded);
}

}  // namespace
}  // namespace troika::solve
