#include "solve/assignment_search.h"

#include <algorithm>
#include <limits>

#include "base/error.h"

namespace troika::solve {
namespace {

class AssignmentSearch {
 public:
  using Lanes = std::vector<int>;

  AssignmentSearch(const std::vector<Lanes>& allowed,
                   const std::function<std::optional<double>(const Lanes&)>& us_of)
      : allowed_(allowed), us_of_(us_of) {}

  FoundAssignment run() {
    size_t n_all = 1;
    for (const Lanes& lanes : allowed_) {
      TROIKA_ASSERT(!lanes.empty());
      n_all = std::min(n_all * lanes.size(), kMostOfAll + 1);
    }
    found_.is_bounded = n_all > kMostOfAll;
    found_.is_bounded ? descend() : try_all();
    return found_;
  }

 private:
  // Where a descent stands.
  struct Stand {
    Lanes lanes;
    double us = std::numeric_limits<double>::infinity();  // stays so while nothing is possible
  };

  bool is_over() const { return found_.is_bounded && found_.n_tried >= kMostTried; }

  // Tries an assignment. Returns whether it is better than where the descent stood.
  bool attempt(const Lanes& lanes, Stand* stand) {
    if (is_over()) return false;
    ++found_.n_tried;
    const std::optional<double> us = us_of_(lanes);
    if (!us) return false;
    if (found_.lanes.empty() || *us < best_us_) {
      found_.lanes = lanes;
      best_us_ = *us;
    }
    if (*us >= stand->us) return false;
    *stand = {lanes, *us};
    return true;
  }

  void try_all() {
    Stand stand;
    std::vector<size_t> at(allowed_.size(), 0);
    while (true) {
      Lanes lanes;
      for (size_t k = 0; k < at.size(); ++k) lanes.push_back(allowed_[k][at[k]]);
      attempt(lanes, &stand);
      size_t k = 0;
      while (k < at.size() && ++at[k] == allowed_[k].size()) at[k++] = 0;
      if (k == at.size()) return;
    }
  }

  // Begins with one lane for as many kinds as may run there, and goes on from each of these, the
  // best first: one kind changes its lane, then two change theirs at once, as where a handover
  // between them costs more than either gains.
  void descend() {
    int most_lane = 0;
    for (const Lanes& lanes : allowed_) {
      most_lane = std::max(most_lane, *std::max_element(lanes.begin(), lanes.end()));
    }
    std::vector<Stand> stands;
    for (int lane = 0; lane <= most_lane; ++lane) {
      Stand& stand = stands.emplace_back();
      for (const Lanes& lanes : allowed_) {
        const bool is_allowed = std::find(lanes.begin(), lanes.end(), lane) != lanes.end();
        stand.lanes.push_back(is_allowed ? lane : lanes.front());
      }
      attempt(Lanes(stand.lanes), &stand);
    }
    std::stable_sort(stands.begin(), stands.end(),
                     [](const Stand& a, const Stand& b) { return a.us < b.us; });
    for (Stand& stand : stands) {
      while (!is_over() && (improve_one(&stand) || improve_two(&stand))) continue;
    }
  }

  bool improve_one(Stand* stand) {
    bool is_better = false;
    for (size_t k = 0; k < allowed_.size(); ++k) is_better |= improve(k, stand->lanes, stand);
    return is_better;
  }
  // Changes the lane of one kind, with the others as given.
  bool improve(size_t k, Lanes lanes, Stand* stand) {
    bool is_better = false;
    for (const int lane : allowed_[k]) {
      lanes[k] = lane;
      // Where the descent stands was tried already.
      if (lanes != stand->lanes) is_better |= attempt(lanes, stand);
    }
    return is_better;
  }
  bool improve_two(Stand* stand) {
    bool is_better = false;
    for (size_t k = 0; k + 1 < allowed_.size(); ++k) {
      for (size_t other = k + 1; other < allowed_.size() && !is_over(); ++other) {
        Lanes lanes = stand->lanes;
        for (const int lane : allowed_[k]) {
          lanes[k] = lane;
          is_better |= improve(other, lanes, stand);
        }
      }
    }
    return is_better;
  }

  const std::vector<Lanes>& allowed_;
  const std::function<std::optional<double>(const Lanes&)>& us_of_;
  FoundAssignment found_;
  double best_us_ = 0.0;
};

}  // namespace

FoundAssignment find_assignment(
    const std::vector<std::vector<int>>& allowed,
    const std::function<std::optional<double>(const std::vector<int>& lanes)>& us_of) {
  return AssignmentSearch(allowed, us_of).run();
}

}  // namespace troika::solve
