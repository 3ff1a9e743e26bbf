#include "solve/cuts/cut_search.h"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>

#include "schedule/cut/plan_cuts.h"
#include "schedule/graphs.h"

namespace troika::solve {
namespace {

using plan::Shares;
using plan::TensorCut;

constexpr int kGranule = lanes::Slice::kRowGranularity;
// Counts the places at which even the smallest products may be divided.
constexpr int kLeastPlaces = 16;
// These say how many places are tried where three lanes divide, and where rows and tokens are cut
// together.
constexpr int kPlacesOfThree = 16;
constexpr int kPlacesOfBoth = 8;

// The products of one input, which are cut alike.
struct AlikeProducts {
  struct Product {
    const char* op;
    int n_rows;  // the fewest of those that have this name: parts of one tensor
  };
  std::vector<Product> products;
  int n_rows = 0;  // the rows of the largest product
};

class Search {
 public:
  Search(const TimeModel& times, const CutRules& rules, const lanes::Subgraph& subgraph,
         plan::Shape shape, int home, int context)
      : times_(times),
        rules_(rules),
        subgraph_(subgraph),
        shape_(shape),
        home_(home),
        context_(context),
        most_tried_(kMostCutsTried / rules.n_lanes) {}

  CutFound run() {
    CutFound found;
    found.whole_us = us_of({});
    if (subgraph_.is_dynamic()) {
      try_heads(&found);
    } else {
      find_groups();
      if (!groups_.empty()) {
        try_all_rows(&found);
        // Cuts of tokens come behind those of rows, and must be tried too.
        const int most = std::exchange(most_tried_, most_tried_ / 4 * 3);
        improve_groups(&found);
        most_tried_ = most;
        try_tokens(&found);
        try_both(&found);
      }
    }
    // On a lane that refuses the op it would take for ever.
    if (!std::isfinite(found.us)) found.cuts.clear();
    found.is_bounded = is_bounded_;
    found.is_worthwhile =
        !found.cuts.empty() && found.us < (1.0 - rules_.least_gain) * found.whole_us;
    return found;
  }

 private:
  double us_of(const std::vector<TensorCut>& cuts) {
    ++n_tried_;
    return cut_us(times_, subgraph_, cuts, shape_, home_, context_);
  }

  // Says whether as much was tried as may be.
  bool is_over() {
    const bool is_over = n_tried_ >= most_tried_;
    is_bounded_ = is_bounded_ || is_over;
    return is_over;
  }

  void take_if_better(std::vector<TensorCut> cuts, CutFound* found) {
    const double us = us_of(cuts);
    if (!found->cuts.empty() && us >= found->us) return;
    found->cuts = std::move(cuts);
    found->us = us;
  }

  TensorCut empty_cut(const char* op = "") const {
    TensorCut cut;
    cut.subgraph = subgraph_.name;
    cut.op = op;
    cut.least_tokens = cut.most_tokens = shape_.n_rows;
    cut.phase = shape_.phase;
    return cut;
  }

  void find_groups() {
    const model::Op* before = nullptr;
    for (const model::Op& op : subgraph_.ops) {
      if (!schedule::is_product(op)) continue;
      if (before == nullptr || before->inputs[0] != op.inputs[0]) groups_.emplace_back();
      before = &op;
      AlikeProducts& group = groups_.back();
      const auto weight = static_cast<size_t>(op.weight);
      const int n_rows = subgraph_.blueprint->weights[weight].n_rows;
      const char* const name = schedule::op_name(*subgraph_.blueprint, op);
      const auto same =
          std::find_if(group.products.begin(), group.products.end(),
                       [&](const auto& product) { return std::string_view(product.op) == name; });
      if (same == group.products.end()) {
        group.products.push_back({name, n_rows});
      } else {
        same->n_rows = std::min(same->n_rows, n_rows);
      }
      group.n_rows = std::max(group.n_rows, n_rows);
    }
  }

  bool may_have(int lane) const {
    return lane != home_ && rules_.may_share(home_, lane, shape_.phase) &&
           rules_.may_take(subgraph_.name, shape_, lane);
  }

  bool may_divide_tokens() const {
    return !subgraph_.is_head() && rules_.may_divide_tokens(subgraph_.name, shape_);
  }

  // Says whether two lanes beside home may have parts at once.
  bool may_have_threes() const {
    for (int a = 0; a < rules_.n_lanes; ++a) {
      if (!may_have(a)) continue;
      for (int b = a + 1; b < rules_.n_lanes; ++b) {
        if (may_have(b) && rules_.may_share(a, b, shape_.phase)) return true;
      }
    }
    return false;
  }

  // Calls `take` with every way to divide n between home and one or two of the other lanes, and
  // with each other lane alone, as long as more may be tried.
  void each_division(int n, int granule, int most_lanes,
                     const std::function<void(const Shares&)>& take) {
    const bool has_threes = most_lanes > 2 && rules_.n_lanes <= kMostLanesForThrees;
    is_bounded_ = is_bounded_ || (most_lanes > 2 && !has_threes && may_have_threes());
    for (int a = 0; a < rules_.n_lanes; ++a) {
      if (!may_have(a)) continue;
      if (is_over()) return;
      take({{a, n}});
      for (int rows = granule; rows < n && !is_over(); rows += granule) {
        take({{home_, rows}, {a, n - rows}});
      }
      if (has_threes) each_of_three(n, a, take);
    }
  }

  void each_of_three(int n, int a, const std::function<void(const Shares&)>& take) {
    const int step = std::max(kGranule, n / kPlacesOfThree / kGranule * kGranule);
    for (int b = a + 1; b < rules_.n_lanes; ++b) {
      if (!may_have(b) || !rules_.may_share(a, b, shape_.phase)) continue;
      for (int first = step; first < n; first += step) {
        for (int second = step; first + second < n && !is_over(); second += step) {
          take({{home_, first}, {a, second}, {b, n - first - second}});
        }
      }
      // Two lanes divide the rows, and the home lane gets none.
      for (int first = step; first < n && !is_over(); first += step) {
        take({{a, first}, {b, n - first}});
      }
    }
  }

  int row_granule(int n_rows) const {
    return std::clamp(n_rows / kLeastPlaces / kGranule * kGranule, kGranule, rules_.row_granule);
  }

  // Leaves out products that are too small for the shares of their group: they stay whole, and a
  // plan may not name them in a cut.
  std::vector<TensorCut> cuts_of_all(const std::vector<Shares>& by_group) const {
    std::vector<TensorCut> cuts;
    for (size_t g = 0; g < groups_.size(); ++g) {
      if (by_group[g].empty()) continue;
      for (const AlikeProducts::Product& product : groups_[g].products) {
        if (!schedule::divides_rows(product.n_rows, by_group[g])) continue;
        cuts.push_back(empty_cut(product.op));
        cuts.back().rows = by_group[g];
      }
    }
    return cuts;
  }

  // Tries cuts of rows in which all products are divided alike.
  void try_all_rows(CutFound* found) {
    const int n = groups_.front().n_rows;
    each_division(n, row_granule(n), 3, [&](const Shares& rows) {
      TensorCut cut = empty_cut();
      cut.rows = rows;
      take_if_better({cut}, found);
    });
  }

  // Improves the cut of each group by itself, with the others as they are, until nothing gets
  // better. Whether a group is worth cutting depends on its neighbours: between two cut groups
  // nothing need be brought together. So the search begins with no group cut, with all groups cut
  // alike, and with all on one lane.
  void improve_groups(CutFound* found) {
    std::vector<Shares> starts = {{}};
    if (!found->cuts.empty()) starts.push_back(found->cuts.front().rows);
    for (int lane = 0; lane < rules_.n_lanes; ++lane) {
      if (may_have(lane)) starts.push_back({{lane, 1}});
    }
    for (const Shares& rows : starts) {
      if (is_over()) return;
      std::vector<Shares> by_group(groups_.size(), rows);
      double us = us_of(cuts_of_all(by_group));
      while (improve_once(&by_group, &us) && !is_over()) {
      }
      if (std::vector<TensorCut> cuts = cuts_of_all(by_group); !cuts.empty()) {
        take_if_better(cuts, found);
      }
    }
  }

  bool improve_once(std::vector<Shares>* by_group, double* us) {
    const double before_us = *us;
    for (size_t g = 0; g < groups_.size(); ++g) {
      Shares best = (*by_group)[g];
      const auto try_rows = [&](const Shares& rows) {
        (*by_group)[g] = rows;
        const double with_us = us_of(cuts_of_all(*by_group));
        if (with_us >= *us) return;
        *us = with_us;
        best = rows;
      };
      try_rows({});
      const int n = groups_[g].n_rows;
      each_division(n, row_granule(n), 3, try_rows);
      (*by_group)[g] = best;
    }
    constexpr double kNoGain = 1e-9;
    return *us < before_us * (1.0 - kNoGain);
  }

  // Tries to divide the whole subgraph by tokens.
  void try_tokens(CutFound* found) {
    if (!may_divide_tokens()) return;
    each_division(shape_.n_rows, rules_.token_granule, 2, [&](const Shares& tokens) {
      if (tokens.size() < 2) return;
      TensorCut cut = empty_cut();
      cut.tokens = tokens;
      take_if_better({cut}, found);
    });
  }

  // Tries to divide the first tokens by rows, and to give the other tokens to one lane for all
  // rows.
  void try_both(CutFound* found) {
    if (!may_divide_tokens()) return;
    const int n = groups_.front().n_rows;
    const int step = std::max(row_granule(n), n / kPlacesOfBoth / kGranule * kGranule);
    const int n_tokens = shape_.n_rows;
    const int granule = rules_.token_granule;
    const int token_step = std::max(granule, n_tokens / kPlacesOfBoth / granule * granule);
    each_division(n_tokens, token_step, 2, [&](const Shares& tokens) {
      if (tokens.size() < 2) return;
      for (int rows = step; rows < n && !is_over(); rows += step) {
        TensorCut cut = empty_cut();
        cut.tokens = tokens;
        cut.rows = {{tokens[0].lane, rows}, {tokens[1].lane, n - rows}};
        take_if_better({cut}, found);
      }
    });
  }

  void try_heads(CutFound* found) {
    each_division(subgraph_.blueprint->n_kv_heads, 1, 2, [&](const Shares& heads) {
      if (heads.size() < 2) return;
      TensorCut cut = empty_cut();
      cut.heads = heads;
      take_if_better({cut}, found);
    });
  }

  const TimeModel& times_;
  const CutRules& rules_;
  const lanes::Subgraph& subgraph_;
  plan::Shape shape_;
  int home_;
  int context_;
  std::vector<AlikeProducts> groups_;
  int most_tried_;
  int n_tried_ = 0;
  bool is_bounded_ = false;
};

}  // namespace

double cut_us(const TimeModel& times, const lanes::Subgraph& subgraph,
              std::span<const TensorCut> cuts, TaskShape shape, int home, int context) {
  schedule::RangeCut parts = schedule::range_cut_of(cuts, subgraph, shape.built, home);
  if (parts.empty()) return times.task_us(home, subgraph, shape, context);
  return times.pieces_us(schedule::lower(subgraph, {home, std::move(parts)}), home, shape, context);
}

CutRules cut_rules(const plan::Plan& plan) {
  CutRules rules;
  rules.n_lanes = static_cast<int>(plan.lanes.size());
  rules.may_share = [&plan](int a, int b, plan::Phase phase) {
    return schedule::share_class(plan, a, b, phase);
  };
  return rules;
}

bool keeps_prompt_attention(std::string_view subgraph, plan::Shape shape, int /*lane*/) {
  return subgraph != "attention" || shape.phase != plan::Phase::kPrompt;
}

CutFound search_cuts(const TimeModel& times, const CutRules& rules, const lanes::Subgraph& subgraph,
                     plan::Shape shape, int home, int context) {
  return Search(times, rules, subgraph, shape, home, context).run();
}

}  // namespace troika::solve
