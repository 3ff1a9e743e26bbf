#include "solve/chart/profile_plots.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "solve/chart/chart.h"
#include "solve/profile/op_shapes.h"

namespace troika::solve {
namespace {

using model::OpKind;
using plan::OpShape;
using plan::OpTime;
using plan::Profile;

constexpr size_t kMostSeries = 8;
constexpr int kStageTokens = 72;  // the last token count that stages show on a linear axis

std::string remark_of(const Profile& profile) {
  return fmt::format("{}, {}; measured {} under a load of {:.1f}", profile.machine.cpu,
                     profile.machine.arithmetic, profile.taken, profile.load_average);
}

double gops(const OpTime& time) { return 1e-3 * plan::op_flops(time.shape) / time.us; }
double weight_gb_s(const OpTime& time) { return 1e-3 * plan::op_bytes(time.shape) / time.us; }

// Names lanes only where there are several.
std::string lane_prefix(const Profile& profile, int lane) {
  if (profile.lanes.size() < 2) return "";
  return profile.lanes[static_cast<size_t>(lane)].name + ": ";
}

using Phased = std::pair<Series*, plan::Phase>;

// Appends the phase to names that series of both phases have.
void name_phases(const std::vector<Phased>& all) {
  std::map<std::string, std::set<plan::Phase>> phases;
  for (const auto& [series, phase] : all) phases[series->name].insert(phase);
  for (const auto& [series, phase] : all) {
    if (phases.at(series->name).size() < 2) continue;
    series->name += fmt::format(", {}", plan::phase_name(phase));
  }
}

struct Product {
  int lane;
  tensor::Type type;
  int n_rows;
  int k;
  plan::Phase phase;
  auto operator<=>(const Product&) const = default;
};

// Returns the times of each product, by tokens.
std::map<Product, std::map<int, OpTime>> products(const Profile& profile) {
  std::map<Product, std::map<int, OpTime>> all;
  for (const OpTime& time : profile.ops) {
    const OpShape& s = time.shape;
    if (s.op != OpKind::kLinear) continue;
    all[{time.lane, s.type, s.n_rows, s.k, s.phase}].emplace(s.n_tokens, time);
  }
  return all;
}

// Returns the stage shape of every lane, then the products with the most token counts and
// operations.
std::vector<Product> products_to_show(const std::map<Product, std::map<int, OpTime>>& all) {
  std::vector<Product> shown;
  shown.reserve(all.size());
  for (const auto& [product, times] : all) shown.push_back(product);
  const auto weight = [&](const Product& p) {
    const bool is_stage = p.n_rows == kStageRows && p.k == kStageRows;
    return std::pair(is_stage ? size_t{1000} : all.at(p).size(),
                     static_cast<int64_t>(p.n_rows) * p.k);
  };
  std::stable_sort(shown.begin(), shown.end(),
                   [&](const Product& a, const Product& b) { return weight(a) > weight(b); });
  shown.resize(std::min(shown.size(), kMostSeries));
  return shown;
}

Plot tokens_plot(const Profile& profile) {
  const auto all = products(profile);
  LineChart stages = {
      fmt::format("Stages: time, up to {} tokens", kStageTokens), {"tokens"}, {"time, us"}, {}};
  LineChart time = {"Time", {"tokens", Scale::kLog2}, {"time, us", Scale::kLog10}, {}};
  LineChart rate = {"Throughput", {"tokens", Scale::kLog2}, {"10^9 operations per second"}, {}};
  const std::vector<Product> shown = products_to_show(all);
  std::vector<Series> named(shown.size());
  std::vector<Phased> phased;
  for (size_t i = 0; i < shown.size(); ++i) {
    const Product& product = shown[i];
    named[i].name = fmt::format("{}{} x {} {}", lane_prefix(profile, product.lane), product.n_rows,
                                product.k, tensor::type_name(product.type));
    phased.emplace_back(&named[i], product.phase);
  }
  name_phases(phased);
  for (size_t i = 0; i < shown.size(); ++i) {
    const Product& product = shown[i];
    Series us = named[i], per_s = named[i], near = named[i];
    for (const auto& [n_tokens, measured] : all.at(product)) {
      us.points.emplace_back(n_tokens, measured.us);
      per_s.points.emplace_back(n_tokens, gops(measured));
      if (n_tokens <= kStageTokens) near.points.emplace_back(n_tokens, measured.us);
    }
    const bool is_stage = product.n_rows == kStageRows && product.k == kStageRows;
    if (is_stage) stages.series.push_back(near);
    time.series.push_back(us);
    rate.series.push_back(per_s);
  }
  return {"tokens.svg", chart_svg("Products over tokens (rows x k of the weight)",
                                  remark_of(profile), {stages, time, rate})};
}

// Shows weights of equally many elements, from low and wide to tall and narrow.
Plot shapes_plot(const Profile& profile) {
  const std::string x = fmt::format("rows of the weight (k = {} / rows)", kOrderElements);
  LineChart reading = {"1 token: how fast the weight is read", {x, Scale::kLog2}, {"GB/s"}, {}};
  LineChart computing = {"Many tokens", {x, Scale::kLog2}, {"10^9 operations per second"}, {}};
  std::map<std::tuple<int, int, tensor::Type, plan::Phase>, Series> series;
  for (const OpTime& time : profile.ops) {
    const OpShape& s = time.shape;
    if (s.op != OpKind::kLinear || static_cast<int64_t>(s.n_rows) * s.k != kOrderElements) continue;
    if (s.n_tokens != 1 && s.n_tokens != 32 && s.n_tokens != 128) continue;
    Series& line = series[{s.n_tokens, time.lane, s.type, s.phase}];
    line.name = fmt::format("{}{} tokens, {}", lane_prefix(profile, time.lane), s.n_tokens,
                            tensor::type_name(s.type));
    if (s.n_tokens == 1) {
      line.name = fmt::format("{}{}", lane_prefix(profile, time.lane), tensor::type_name(s.type));
    }
    line.points.emplace_back(s.n_rows, s.n_tokens == 1 ? weight_gb_s(time) : gops(time));
  }
  std::vector<Phased> phased;
  for (auto& [key, line] : series) phased.emplace_back(&line, std::get<plan::Phase>(key));
  name_phases(phased);
  for (auto& [key, line] : series) {
    std::sort(line.points.begin(), line.points.end());
    std::vector<Series>& plot = std::get<0>(key) == 1 ? reading.series : computing.series;
    if (plot.size() < kMostSeries) plot.push_back(line);
  }
  return {"shapes.svg", chart_svg("Products of equal size, from few long rows to many short ones",
                                  remark_of(profile), {reading, computing})};
}

Plot bandwidth_plot(const Profile& profile) {
  BarChart bars = {"Each lane alone, and lanes together", "lanes that read at once", "GB/s", {}};
  for (const plan::ReadRate& rate : profile.bandwidth) {
    BarChart::Bar bar;
    for (size_t i = 0; i < rate.lanes.size(); ++i) {
      const int lane = rate.lanes[i];
      bar.name += fmt::format("{}{}", i > 0 ? " + " : "", lane);
      bar.parts.emplace_back(
          fmt::format("{}: {}", lane, profile.lanes[static_cast<size_t>(lane)].name), rate.gb_s[i]);
    }
    bars.bars.push_back(bar);
  }
  return {"bandwidth.svg", chart_svg("Reading weights from memory", remark_of(profile), bars)};
}

Plot storage_plot(const Profile& profile) {
  LineChart rate = {"Rate", {"bytes of a read", Scale::kBytes}, {"MB/s", Scale::kLog10}, {}};
  LineChart latency = {
      "Time of one read (median)", {"bytes of a read", Scale::kBytes}, {"us", Scale::kLog10}, {}};
  struct Key {
    bool is_random;
    uint64_t range_bytes;
    int depth;
    auto operator<=>(const Key&) const = default;
  };
  std::map<Key, std::pair<Series, Series>> lines;
  for (const plan::DiskRead& read : profile.storage->reads) {
    auto& [mb_s, us] = lines[{read.is_random, read.range_bytes, read.depth}];
    mb_s.name = fmt::format("{} in {} MiB, depth {}", read.is_random ? "random" : "sequential",
                            read.range_bytes >> 20, read.depth);
    mb_s.dashed = read.is_random;
    us.name = mb_s.name;
    us.dashed = mb_s.dashed;
    const auto block = static_cast<double>(read.block_bytes);
    mb_s.points.emplace_back(block, read.mb_s);
    us.points.emplace_back(block, read.us);
  }
  for (const auto& [key, line] : lines) {
    rate.series.push_back(line.first);
    latency.series.push_back(line.second);
  }
  const char* how = profile.storage->is_direct ? "direct reads, past the page cache of this system"
                                               : "through the page cache: direct reads are refused";
  return {"storage.svg",
          chart_svg(fmt::format("Storage ({})", how), remark_of(profile), {rate, latency})};
}

// Shows attention over the context, and how close the small ops come to the memory's rate.
Plot other_ops_plot(const Profile& profile) {
  LineChart attention = {"Attention: time of a token",
                         {"positions the last token sees", Scale::kLog2},
                         {"us per token", Scale::kLog10},
                         {}};
  LineChart rows = {
      "Other ops: bytes read and written", {"tokens", Scale::kLog2}, {"GB/s", Scale::kLog10}, {}};
  std::map<std::pair<OpShape, int>, Series> over_context;
  std::map<std::pair<OpShape, int>, Series> over_tokens;
  for (const OpTime& time : profile.ops) {
    OpShape key = time.shape;
    if (key.op == OpKind::kAttention) {
      if (key.n_tokens != 1 && key.n_tokens != 32) continue;
      key.context = 0;
      Series& line = over_context[{key, time.lane}];
      line.name = fmt::format("{}q {}, k {}, {} token{}", lane_prefix(profile, time.lane),
                              key.n_rows, key.k, key.n_tokens, key.n_tokens > 1 ? "s" : "");
      line.points.emplace_back(time.shape.context, time.us / time.shape.n_tokens);
    } else if (key.op != OpKind::kLinear && key.op != OpKind::kEmbed && key.n_rows == 2048) {
      key.n_tokens = 0;
      Series& line = over_tokens[{key, time.lane}];
      line.name = fmt::format("{}{}, width {}", lane_prefix(profile, time.lane),
                              model::op_kind_name(key.op), key.n_rows);
      line.points.emplace_back(time.shape.n_tokens, weight_gb_s(time));
    }
  }
  std::vector<Phased> phased;
  for (auto& [key, line] : over_context) phased.emplace_back(&line, key.first.phase);
  name_phases(phased);
  for (auto& [key, line] : over_context) {
    std::sort(line.points.begin(), line.points.end());
    if (attention.series.size() < kMostSeries) attention.series.push_back(line);
  }
  for (auto& [key, line] : over_tokens) {
    std::sort(line.points.begin(), line.points.end());
    if (rows.series.size() < kMostSeries) rows.series.push_back(line);
  }
  return {"ops.svg", chart_svg("Ops without weights", remark_of(profile), {attention, rows})};
}

}  // namespace

std::vector<Plot> profile_plots(const Profile& profile) {
  std::vector<Plot> plots;
  if (!profile.ops.empty()) {
    plots.push_back(tokens_plot(profile));
    plots.push_back(shapes_plot(profile));
    plots.push_back(other_ops_plot(profile));
  }
  if (!profile.bandwidth.empty()) plots.push_back(bandwidth_plot(profile));
  if (profile.storage) plots.push_back(storage_plot(profile));
  return plots;
}

}  // namespace troika::solve
