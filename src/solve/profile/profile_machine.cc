#include "solve/profile/profile_machine.h"

#include <algorithm>
#include <initializer_list>
#include <map>
#include <set>
#include <span>
#include <tuple>
#include <utility>

#include "base/system.h"
#include "solve/profile/one_op.h"
#include "text/utf8.h"

namespace troika::solve {
namespace {

using plan::OpShape;
using plan::OpTime;
using plan::Profile;

constexpr size_t kLeastArenaBytes = 96u << 20;
constexpr size_t kMostArenaBytes = size_t{1} << 30;
// The fastest way to read differs between lanes: floats need least arithmetic, 8-bit blocks suit
// units that have no floats.
constexpr tensor::Type kStreamTypes[] = {tensor::Type::kF32, tensor::Type::kQ8_0};

size_t choose_arena_bytes(size_t wanted) {
  if (wanted > 0) return wanted;
  return std::clamp(std::min(4 * last_cache_bytes(), available_memory_bytes() / 8),
                    kLeastArenaBytes, kMostArenaBytes);
}

double sum(const std::vector<double>& values) {
  double total = 0.0;
  for (const double value : values) total += value;
  return total;
}

// Returns the best rate at which the lanes of each set read together, without the sets of which a
// lane cannot build the products that read.
std::vector<plan::ReadRate> best_rates(lanes::Machine& machine,
                                       const std::vector<std::vector<int>>& sets, Arena& arena) {
  std::vector<plan::ReadRate> best(sets.size());
  std::vector<bool> is_refused(sets.size(), false);
  // All sets read one type before any reads the next: another type fills the whole arena anew.
  for (const tensor::Type type : kStreamTypes) {
    for (size_t i = 0; i < sets.size(); ++i) {
      if (is_refused[i]) continue;
      try {
        plan::ReadRate rate = measure_bandwidth(machine, sets[i], type, arena);
        if (best[i].gb_s.empty() || sum(rate.gb_s) > sum(best[i].gb_s)) best[i] = std::move(rate);
      } catch (const NotBuilt&) {
        is_refused[i] = true;
      }
    }
  }
  std::vector<plan::ReadRate> rates;
  for (size_t i = 0; i < sets.size(); ++i) {
    if (!is_refused[i]) rates.push_back(std::move(best[i]));
  }
  return rates;
}

// Returns the sets of lanes whose rates are measured: each lane, twos, and threes.
std::vector<std::vector<int>> sets_that_read(int n_lanes) {
  std::vector<std::vector<int>> sets;
  for (int lane = 0; lane < n_lanes; ++lane) sets.push_back({lane});
  for (int a = 0; a < n_lanes; ++a) {
    for (int b = a + 1; b < n_lanes; ++b) {
      sets.push_back({a, b});
      // Many lanes have so many threes that measuring them would take minutes.
      constexpr int kFewLanes = 4;
      for (int c = b + 1; c < n_lanes && n_lanes <= kFewLanes; ++c) sets.push_back({a, b, c});
    }
  }
  return sets;
}

// Measures starts, handovers and bandwidth, which is done anew each time, whatever the budget: the
// arena is filled once for each type that is read, and the rest is quick.
void measure_rates(lanes::Machine& machine, Arena& arena, Profile* profile) {
  const int n_lanes = static_cast<int>(machine.lanes().size());
  for (int lane = 0; lane < n_lanes; ++lane) {
    profile->starts.push_back({lane, measure_start_us(machine, lane, arena)});
  }
  for (int from = 0; from < n_lanes; ++from) {
    for (int to = 0; to < n_lanes; ++to) {
      if (from == to) continue;
      profile->handovers.push_back({from, to, measure_handover_us(machine, from, to)});
    }
  }
  profile->bandwidth = best_rates(machine, sets_that_read(n_lanes), arena);
}

bool lists_the_same_rates(const Profile& a, const Profile& b) {
  return a.starts.size() == b.starts.size() && a.handovers.size() == b.handovers.size() &&
         std::equal(a.bandwidth.begin(), a.bandwidth.end(), b.bandwidth.begin(), b.bandwidth.end(),
                    [](const auto& one, const auto& other) { return one.lanes == other.lanes; });
}

// Keeps the better of two rates: whatever disturbs a measurement makes the machine look slower.
// Both profiles list the same rates.
void keep_better_rates(const Profile& other, Profile* profile) {
  for (size_t i = 0; i < profile->starts.size(); ++i) {
    profile->starts[i].us = std::min(profile->starts[i].us, other.starts[i].us);
  }
  for (size_t i = 0; i < profile->handovers.size(); ++i) {
    profile->handovers[i].us = std::min(profile->handovers[i].us, other.handovers[i].us);
  }
  for (size_t i = 0; i < profile->bandwidth.size(); ++i) {
    if (sum(other.bandwidth[i].gb_s) > sum(profile->bandwidth[i].gb_s)) {
      profile->bandwidth[i] = other.bandwidth[i];
    }
  }
}

// Lane, op, element type and phase: ops that differ in one of them are predicted separately.
using PredictedApart = std::tuple<int, model::OpKind, tensor::Type, plan::Phase>;
PredictedApart kind_of(int lane, const OpShape& shape) {
  return {lane, shape.op, shape.type, shape.phase};
}

struct Wanted {
  int lane;
  OpShape shape;
};

// Returns what is still to be measured, in the order of the shapes, each on every lane, without
// what is known.
std::vector<Wanted> still_wanted(const std::vector<OpShape>& shapes, int n_lanes,
                                 const Arena& arena, const Profile& known) {
  std::set<std::pair<int, OpShape>> seen;
  for (const OpTime& time : known.ops) seen.insert({time.lane, time.shape});
  std::vector<Wanted> wanted;
  for (const OpShape& shape : shapes) {
    if (!arena.fits(shape)) continue;
    for (int lane = 0; lane < n_lanes; ++lane) {
      if (plan::depends_on_phase(shape.op) && known.refuses(lane, shape.op, shape.phase)) continue;
      if (seen.insert({lane, shape}).second) wanted.push_back({lane, shape});
    }
  }
  return wanted;
}

// Takes those kept times out of the profile that are worth another measurement: what disturbs an op
// makes its runs differ. Those of wanted shapes stand first among the times that are returned.
std::vector<OpTime> take_disturbed(const ProfileOptions& options, const Arena& arena,
                                   Profile* profile) {
  constexpr double kMostSpread = 0.5;
  const std::set<OpShape> shapes(options.shapes.begin(), options.shapes.end());
  std::vector<OpTime> good, disturbed, others;
  for (const OpTime& time : profile->ops) {
    const bool is_doubtful = time.busy_load > options.doubted_load || time.spread > kMostSpread;
    std::vector<OpTime>& again = shapes.count(time.shape) > 0 ? disturbed : others;
    (is_doubtful && arena.fits(time.shape) ? again : good).push_back(time);
  }
  disturbed.insert(disturbed.end(), others.begin(), others.end());
  profile->ops = std::move(good);
  return disturbed;
}

// Puts times back that were taken out. Of an op that was measured again, behind the first n_kept of
// the profile, the lesser time stays. What was not stands before it, so that it comes first when
// the next profile is taken.
void put_back(const std::vector<OpTime>& disturbed, size_t n_kept, Profile* profile) {
  std::map<std::pair<int, OpShape>, OpTime*> measured;
  for (size_t i = n_kept; i < profile->ops.size(); ++i) {
    measured[{profile->ops[i].lane, profile->ops[i].shape}] = &profile->ops[i];
  }
  std::vector<OpTime> left;
  for (const OpTime& time : disturbed) {
    const auto found = measured.find({time.lane, time.shape});
    if (found == measured.end()) {
      left.push_back(time);
    } else if (time.us < found->second->us) {
      // A lesser time was not disturbed more than the one that was taken now.
      OpTime* const stays = found->second;
      const double spread = std::min(time.spread, stays->spread), busy_load = stays->busy_load;
      *stays = time;
      stays->spread = spread;
      stays->busy_load = busy_load;
    }
  }
  const auto place = profile->ops.begin() + static_cast<std::ptrdiff_t>(n_kept);
  profile->ops.insert(place, left.begin(), left.end());
}

// Adds the time of what is wanted, or notes that the lane refuses it.
void measure_wanted(lanes::Machine& machine, const Wanted& wanted, Arena& arena,
                    const Patience& patience, Profile* profile) {
  const auto& [lane, shape] = wanted;
  const auto is_alike = [&, lane = lane, &shape = shape](const OpTime& time) {
    return time.lane == lane && time.shape.op == shape.op && time.shape.phase == shape.phase;
  };
  const auto refuse = [&, lane = lane, &shape = shape] {
    if (profile->refuses(lane, shape.op, shape.phase)) return;
    profile->refusals.push_back({lane, shape.op, shape.phase});
  };
  if (plan::depends_on_phase(shape.op) && profile->refuses(lane, shape.op, shape.phase)) return;
  try {
    profile->ops.push_back(measure_op(machine, lane, shape, arena, patience));
    if (profile->ops.back().is_of_prompts_alone) refuse();
  } catch (const NotBuilt&) {
    // Where the lane has built other shapes of the op, it refuses only this one.
    if (std::none_of(profile->ops.begin(), profile->ops.end(), is_alike)) refuse();
  }
}

// Returns the median; of an even number, the faster one of the two in the middle. Of builds
// it has the longest, since where graphs are kept only the first one compiles, and of rebuilds the
// shortest.
OpTime median_of(std::vector<OpTime> times, double busy_load) {
  plan::PreparationTime preparation = times.front().preparation;
  for (const OpTime& time : times) {
    preparation.build_us = std::max(preparation.build_us, time.preparation.build_us);
    preparation.rebuild_us = std::min(preparation.rebuild_us, time.preparation.rebuild_us);
  }
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>((times.size() - 1) / 2);
  std::nth_element(times.begin(), middle, times.end(),
                   [](const OpTime& a, const OpTime& b) { return a.us < b.us; });
  middle->preparation = preparation;
  middle->busy_load = busy_load;
  return *middle;
}

// Returns the kinds of which some time is known.
std::set<PredictedApart> kinds_of(std::initializer_list<std::span<const OpTime>> lists) {
  std::set<PredictedApart> kinds;
  for (const std::span<const OpTime> times : lists) {
    for (const OpTime& time : times) kinds.insert(kind_of(time.lane, time.shape));
  }
  return kinds;
}

}  // namespace

std::vector<plan::ProfileLane> profile_lanes(const lanes::Machine& machine) {
  std::vector<plan::ProfileLane> lanes;
  for (const lanes::Lane* lane : machine.lanes()) {
    const lanes::LaneInfo& info = lane->info();
    const bool is_matrix = (info.capabilities & (lanes::kInt8Matrix | lanes::kBf16Matrix)) != 0;
    // A driver may say anything, and a profile is a text.
    lanes.push_back({info.name, info.cores, info.n_threads, is_matrix,
                     text::replace_invalid_utf8(info.identity)});
  }
  return lanes;
}

Profile profile_machine(lanes::Machine& machine, const ProfileOptions& options, const Profile* kept,
                        const Clock& wall, const ProgressFunction& progress) {
  const OnCores on_cores(lanes::caller_cores(machine));  // as in a pass
  Profile profile;
  profile.lanes = profile_lanes(machine);
  if (kept != nullptr) {
    profile.ops = kept->ops;
    profile.refusals = kept->refusals;
  }
  const int n_lanes = static_cast<int>(profile.lanes.size());
  const auto report = [&](size_t done, size_t total) {
    if (progress) progress(done, total);
  };
  Arena arena(choose_arena_bytes(options.arena_bytes));
  std::vector<Wanted> wanted = still_wanted(options.shapes, n_lanes, arena, profile);
  const std::vector<OpTime> disturbed = take_disturbed(options, arena, &profile);
  for (const OpTime& time : disturbed) wanted.push_back({time.lane, time.shape});
  const size_t n_steps = wanted.size() * static_cast<size_t>(options.n_visits) + 1;
  report(0, n_steps);
  measure_rates(machine, arena, &profile);
  if (kept != nullptr && lists_the_same_rates(*kept, profile)) keep_better_rates(*kept, &profile);
  report(1, n_steps);
  const double end_us = wall.now_us() + options.budget_us;
  const size_t n_kept = profile.ops.size();
  std::set<PredictedApart> known = kinds_of({profile.ops, disturbed});
  for (size_t i = 0; i < wanted.size(); ++i) {
    // Without one shape of each kind, nothing of that kind could be predicted.
    const PredictedApart kind = kind_of(wanted[i].lane, wanted[i].shape);
    if (wall.now_us() >= end_us && (options.budget_us == 0.0 || known.count(kind) > 0)) {
      ++profile.n_left_out;
      continue;
    }
    measure_wanted(machine, wanted[i], arena, options.patience, &profile);
    known.insert(kind);
    report(i + 2, n_steps);
  }
  // Other programs slow the machine down for seconds, longer than all runs of an op last, and
  // memory has fast moments too. So each op is visited again at other times.
  std::vector<std::vector<OpTime>> visits;
  for (size_t i = n_kept; i < profile.ops.size(); ++i) visits.push_back({profile.ops[i]});
  for (int visit = 1; visit < options.n_visits; ++visit) {
    for (size_t i = n_kept; i < profile.ops.size() && wall.now_us() < end_us; ++i) {
      const OpTime& time = profile.ops[i];
      visits[i - n_kept].push_back(
          measure_op(machine, time.lane, time.shape, arena, options.patience));
      report(static_cast<size_t>(visit) * wanted.size() + i - n_kept + 2, n_steps);
    }
    Profile rates;
    measure_rates(machine, arena, &rates);
    keep_better_rates(rates, &profile);
  }
  for (size_t i = 0; i < visits.size(); ++i) {
    profile.ops[n_kept + i] = median_of(visits[i], options.busy_load);
  }
  profile.n_measured = static_cast<int>(visits.size());
  put_back(disturbed, n_kept, &profile);
  return profile;
}

plan::CoreRate measure_core(lanes::Machine& machine, int core, size_t arena_bytes) {
  Arena arena(choose_arena_bytes(arena_bytes));
  const OpShape product = {model::OpKind::kLinear, tensor::Type::kQ8_0, 512, 1024, 64, 0, 0};
  const OpTime time = measure_op(machine, 0, product, arena, Patience{});
  const std::vector<plan::ReadRate> rates = best_rates(machine, {{0}}, arena);
  return {core, 1e-3 * plan::op_flops(product) / time.us, rates.at(0).gb_s.front()};
}

}  // namespace troika::solve
