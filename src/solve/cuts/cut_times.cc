#include "solve/cuts/cut_times.h"

#include <algorithm>

#include "base/error.h"

namespace troika::solve {

double CutTimes::task_us(int lane, const lanes::Subgraph& subgraph, TaskShape shape,
                         int context) const {
  const std::pair key(place_of(subgraph.name, shape.built, lane, context),
                      key_of(subgraph, weights_));
  const auto known = us_.find(key);
  if (known != us_.end()) return known->second;
  const CutFound& found = find(subgraph.name, shape.built, lane, context);
  const lanes::Subgraph& searched = longest(subgraph.name, shape.built, lane, context);
  double us = found.best_us();
  if (key_of(searched, weights_) != key.second) {
    us = found.is_worthwhile ? cut_us(times_, subgraph, found.cuts, shape.built, lane, context)
                             : times_.task_us(lane, subgraph, shape.built, context);
  }
  return us_.emplace(key, us).first->second;
}

const CutFound& CutTimes::find(std::string_view name, plan::Shape shape, int home,
                               int context) const {
  const Place place = place_of(name, shape, home, context);
  const auto known = found_.find(place);
  if (known != found_.end()) return known->second;
  const lanes::Subgraph& subgraph = longest(name, shape, home, context);
  CutFound found = search_cuts(times_, rules_, subgraph, shape, home, context);
  if (found.is_worthwhile && n_kinds(name) > 1) {
    const double whole_us = all_us(name, {}, shape, home, context);
    found.is_worthwhile =
        all_us(name, found.cuts, shape, home, context) < (1.0 - rules_.least_gain) * whole_us;
  }
  return found_.emplace(place, std::move(found)).first->second;
}

const lanes::Subgraph& CutTimes::longest(std::string_view name, plan::Shape shape, int home,
                                         int context) const {
  const SubgraphKind* longest = nullptr;
  double most_us = -1.0;
  for (const SubgraphKind& kind : kinds_) {
    if (kind.first.name != name) continue;
    if (n_kinds(name) == 1) return kind.first;
    const double us = kind.n * times_.task_us(home, kind.first, shape, context);
    if (us <= most_us) continue;
    most_us = us;
    longest = &kind;
  }
  TROIKA_ASSERT(longest != nullptr);
  return longest->first;
}

bool CutTimes::is_bounded(plan::Shape shape) const {
  return std::any_of(found_.begin(), found_.end(), [&](const auto& one) {
    return std::get<plan::Shape>(one.first) == shape && one.second.is_bounded;
  });
}

void CutTimes::forget(std::string_view name) {
  std::erase_if(found_, [&](const auto& one) { return std::get<0>(one.first) == name; });
  std::erase_if(us_, [&](const auto& one) { return std::get<0>(one.first.first) == name; });
}

std::ptrdiff_t CutTimes::n_kinds(std::string_view name) const {
  return std::count_if(kinds_.begin(), kinds_.end(),
                       [&](const SubgraphKind& kind) { return kind.first.name == name; });
}

CutTimes::Place CutTimes::place_of(std::string_view name, plan::Shape shape, int home,
                                   int context) const {
  // Only attention looks at positions.
  const bool has_positions = std::any_of(kinds_.begin(), kinds_.end(), [&](const auto& kind) {
    return kind.first.name == name && kind.first.is_dynamic();
  });
  return {std::string(name), shape, home, has_positions ? context : 0};
}

double CutTimes::all_us(std::string_view name, const std::vector<plan::TensorCut>& cuts,
                        plan::Shape shape, int home, int context) const {
  double us = 0.0;
  for (const SubgraphKind& kind : kinds_) {
    if (kind.first.name != name) continue;
    us += kind.n * cut_us(times_, kind.first, cuts, shape, home, context);
  }
  return us;
}

}  // namespace troika::solve
