#include "solve/cuts/length_search.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "schedule/cut/plan_cuts.h"
#include "schedule/graphs.h"

namespace troika::solve {
namespace {

using plan::Phase;
using plan::Shape;
using plan::Shares;

// A margin and a prebuilt count are balanced where their ratio is that of the lanes' speeds, or up
// to so many times more or less.
constexpr double kBalanced = 2.0;

class LengthSearch {
 public:
  LengthSearch(const TimeModel& times, const std::vector<SubgraphKind>& kinds,
               const plan::Plan& plan, const LengthRules& rules)
      : times_(times), plan_(plan), rules_(rules) {
    for (const SubgraphKind& kind : kinds) {
      if (schedule::is_divided_by_lengths(kind.first)) kinds_.push_back(kind);
    }
    for (const int lane : rules.fixed_lanes) {
      std::vector<double>& costs = part_us_.emplace_back();
      for (const int n : rules.prebuilt) costs.push_back(lane_us(lane, n));
    }
  }

  LengthFound find(int n_tokens) const {
    LengthFound found;
    found.n_tokens = n_tokens;
    found.padded_us = padded_us(n_tokens);
    if (!may_leave_homes({Phase::kPrompt, n_tokens})) return found;
    if (rules_.choice == LengthChoice::kMargin) {
      found.tokens = parts_by_margin(n_tokens);
      if (!found.tokens.empty()) found.us = parts_us(found.tokens, n_tokens);
      found.is_worthwhile = std::isfinite(found.us) && !found.tokens.empty();
      return found;
    }
    const auto take_if_better = [&](const Shares& parts) {
      const double us = parts_us(parts, n_tokens);
      if (!found.tokens.empty() && us >= found.us) return;
      found.tokens = parts;
      found.us = us;
    };
    const int n_lanes = static_cast<int>(plan_.lanes.size());
    for (int first = 0; first < n_lanes; ++first) {
      if (is_left_out(first)) continue;
      for (int n = rules_.token_granule; n <= n_tokens; n += rules_.token_granule) {
        const Shares head = parts_on(first, n);
        if (head.empty()) continue;
        if (n == n_tokens && head.size() > 1) take_if_better(head);
        for (int rest = 0; rest < n_lanes; ++rest) {
          if (rest == first || is_fixed(rest) >= 0 || n == n_tokens || is_left_out(rest)) continue;
          Shares parts = head;
          parts.push_back({rest, n_tokens - n});
          take_if_better(parts);
        }
      }
    }
    if (!std::isfinite(found.us)) found.tokens.clear();
    found.is_worthwhile =
        !found.tokens.empty() && found.us < (1.0 - rules_.least_gain) * found.padded_us;
    return found;
  }

 private:
  // Returns the prebuilt counts that the lane with fixed shapes takes and the margin that another
  // lane takes meanwhile; only the counts where nothing is left; nothing where the margin keeps one
  // of the lanes waiting for long, so that padding and a division by rows serve better.
  Shares parts_by_margin(int n_tokens) const {
    if (rules_.fixed_lanes.empty()) return {};
    const int fixed = rules_.fixed_lanes.front();
    const std::optional<int> other = lane_for_margins(n_tokens);
    if (!other || is_left_out(fixed)) return {};
    Shares parts;
    int n_built = 0;
    const auto balance = [&] {  // how much of what is built the other lane computes meanwhile
      double fixed_us = 0.0;
      for (const plan::LaneShare& part : parts) fixed_us += lane_us(fixed, part.n);
      return fixed_us / lane_us(*other, n_built) * n_built;
    };
    const auto margin = [&] { return n_tokens - n_built; };
    while (margin() > 0 && (parts.empty() || margin() > kBalanced * balance())) {
      const auto above = std::upper_bound(rules_.prebuilt.begin(), rules_.prebuilt.end(), margin());
      if (above == rules_.prebuilt.begin()) break;
      parts.push_back({fixed, *(above - 1)});
      n_built += *(above - 1);
    }
    if (margin() == 0) return parts.size() > 1 ? parts : Shares();
    // A margin may also be too large with no graph that is short enough for it.
    const bool is_balanced =
        !parts.empty() && margin() * kBalanced >= balance() && margin() <= kBalanced * balance();
    if (!is_balanced) return {};
    parts.push_back({*other, margin()});
    return parts;
  }

  // Returns the fastest lane of those that take any number of tokens.
  std::optional<int> lane_for_margins(int n_tokens) const {
    std::optional<int> best;
    double best_us = 0.0;
    for (int lane = 0; lane < static_cast<int>(plan_.lanes.size()); ++lane) {
      if (is_fixed(lane) >= 0 || is_left_out(lane)) continue;
      const double us = lane_us(lane, n_tokens);
      if (best && us >= best_us) continue;
      best = lane;
      best_us = us;
    }
    return best;
  }

  // Returns the lane's place among the lanes with fixed shapes; -1: it has none.
  int is_fixed(int lane) const {
    const auto at = std::find(rules_.fixed_lanes.begin(), rules_.fixed_lanes.end(), lane);
    return at == rules_.fixed_lanes.end() ? -1 : static_cast<int>(at - rules_.fixed_lanes.begin());
  }

  bool is_left_out(int lane) const {
    if (!schedule::may_divide_tokens(plan_, lane, Phase::kPrompt)) return true;
    return std::find(rules_.left_out.begin(), rules_.left_out.end(), lane) != rules_.left_out.end();
  }

  // Says whether other lanes may compute what the home lanes compute in other shapes. A home lane
  // with floats of its own may not be left, because results would depend on the prompt's length.
  bool may_leave_homes(Shape shape) const {
    return std::all_of(kinds_.begin(), kinds_.end(), [&](const SubgraphKind& kind) {
      for (const plan::Placement& rule : plan_.placements) {
        const bool is_named = rule.subgraph.empty() || rule.subgraph == kind.first.name;
        if (!is_named || !rule.holds_for(shape, model::kNone)) continue;
        if (!schedule::may_divide_tokens(plan_, rule.lane, shape.phase)) return false;
        if (rule.n_blocks == plan::Placement::kAllBlocks) return true;
      }
      return schedule::may_divide_tokens(plan_, 0, shape.phase);
    });
  }

  Shares parts_on(int lane, int n) const {
    const int fixed = is_fixed(lane);
    if (fixed < 0) return {{lane, n}};
    Shares parts;
    for (const int part : cheapest_sum(n, rules_.prebuilt, part_us_[static_cast<size_t>(fixed)])) {
      parts.push_back({lane, part});
    }
    return parts;
  }

  // Returns the time of all tokens on one lane.
  double lane_us(int lane, int n_tokens) const {
    double us = 0.0;
    for (const SubgraphKind& kind : kinds_) {
      us += kind.n * times_.task_us(lane, kind.first, Shape{Phase::kPrompt, n_tokens}, n_tokens);
    }
    return us;
  }

  // Returns the time in the plan's executables, some of whose rows are absent.
  double padded_us(int n_tokens) const {
    double us = 0.0;
    for (int done = 0; done < n_tokens;) {
      const Shape part = plan_.prompt_chunk(done, n_tokens);
      done += part.n_rows;
      const Shape built = plan_.body_shape(part.phase, part.n_rows);
      for (const SubgraphKind& kind : kinds_) {
        const int home = plan_.lane_of(kind.first.name, built, kind.first.block());
        us += kind.n * cut_us(times_, kind.first, plan_.cuts, {built, part.n_rows}, home, done);
      }
    }
    return us;
  }

  double parts_us(const Shares& parts, int n_tokens) const {
    const Shape shape = {Phase::kPrompt, n_tokens};
    double us = 0.0;
    for (const SubgraphKind& kind : kinds_) {
      const int home = plan_.lane_of(kind.first.name, shape, kind.first.block());
      const std::vector<schedule::Piece> pieces =
          schedule::lower(kind.first, {home, schedule::range_cut_of_tokens(parts)});
      us += kind.n * times_.pieces_us(pieces, home, shape, n_tokens);
    }
    return us;
  }

  const TimeModel& times_;
  const plan::Plan& plan_;
  const LengthRules& rules_;
  std::vector<SubgraphKind> kinds_;           // the kinds that a length divides
  std::vector<std::vector<double>> part_us_;  // [fixed lane][prebuilt]
};

}  // namespace

std::vector<int> cheapest_sum(int n, const std::vector<int>& counts,
                              const std::vector<double>& cost_us) {
  constexpr double kNone = -1.0;
  std::vector<double> best(static_cast<size_t>(n) + 1, kNone);
  std::vector<size_t> last(static_cast<size_t>(n) + 1, 0);
  best[0] = 0.0;
  for (int sum = 1; sum <= n; ++sum) {
    const auto at = static_cast<size_t>(sum);
    for (size_t i = 0; i < counts.size(); ++i) {
      if (counts[i] > sum) continue;
      const double before = best[at - static_cast<size_t>(counts[i])];
      if (before < 0.0 || (best[at] >= 0.0 && before + cost_us[i] >= best[at])) continue;
      best[at] = before + cost_us[i];
      last[at] = i;
    }
  }
  std::vector<int> parts;
  if (best.back() < 0.0) return parts;
  for (int sum = n; sum > 0; sum -= parts.back()) {
    parts.push_back(counts[last[static_cast<size_t>(sum)]]);
  }
  std::sort(parts.rbegin(), parts.rend());
  return parts;
}

LengthRules length_rules(const plan::Plan& plan, const CutRules& cuts,
                         const std::vector<int>& wanted) {
  LengthRules rules;
  rules.token_granule = cuts.token_granule;
  rules.least_gain = cuts.least_gain;
  rules.prebuilt = plan.prompt_shapes;
  for (size_t lane = 0; lane < plan.lanes.size(); ++lane) {
    if (has_fixed_shapes(plan.lanes[lane])) rules.fixed_lanes.push_back(static_cast<int>(lane));
  }
  const bool is_dear = !rules.fixed_lanes.empty() && !wanted.empty();
  for (int n = cuts.token_granule; n < plan.chunk(); n += cuts.token_granule) {
    if (rules.lengths.size() == plan::kMostShapes) break;  // a plan holds no more
    const auto& shapes = plan.prompt_shapes;
    if (std::find(shapes.begin(), shapes.end(), n) != shapes.end()) continue;
    const bool is_wanted = std::any_of(wanted.begin(), wanted.end(), [&](int n_prompt) {
      const int rest = n_prompt % plan.chunk();
      return rest <= n && rest > n - cuts.token_granule;
    });
    if (!is_dear || is_wanted) rules.lengths.push_back(n);
  }
  return rules;
}

std::vector<LengthFound> find_lengths(const TimeModel& times,
                                      const std::vector<SubgraphKind>& kinds,
                                      const plan::Plan& plan, const LengthRules& rules) {
  const LengthSearch search(times, kinds, plan, rules);
  std::vector<LengthFound> found;
  for (const int n : rules.lengths) found.push_back(search.find(n));
  return found;
}

}  // namespace troika::solve
