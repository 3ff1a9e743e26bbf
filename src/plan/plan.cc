#include "plan/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "base/error.h"
#include "plan/device.h"

namespace troika::plan {

namespace {

constexpr std::string_view kShadow = "shadow";
constexpr std::string_view kSubgraphs[] = {"embed", "norm",       "qkv",  "attention", "out",
                                           "ffn",   "activation", "down", "head",      kShadow};

}  // namespace

const char* activations_name(Activations activations) {
  return activations == Activations::kF32 ? "f32" : "q8";
}

Activations activations_from_name(std::string_view name) {
  if (name == "f32") return Activations::kF32;
  if (name == "q8") return Activations::kQ8;
  throw UsageError(fmt::format("'{}' is no form of activations. Known are f32 and q8.", name));
}

const char* phase_name(Phase phase) { return kPhaseNames[static_cast<size_t>(phase)]; }

const char* prefill_name(Prefill prefill) {
  constexpr const char* kNames[] = {"same", "f32", "bf16", "int8", "q8", "f16"};
  return kNames[static_cast<size_t>(prefill)];
}

Prefill prefill_from_name(std::string_view name) {
  for (const Prefill prefill : {Prefill::kSame, Prefill::kF32, Prefill::kBf16, Prefill::kInt8,
                                Prefill::kQ8, Prefill::kF16}) {
    if (name == prefill_name(prefill)) return prefill;
  }
  throw UsageError(
      fmt::format("'{}' is no precision of prompts. Known are f32, bf16, f16, q8, int8, and same "
                  "(as decoding).",
                  name));
}

const char* order_name(Order order) {
  constexpr const char* kNames[] = {"in-order", "lock-step", "out-of-order"};
  return kNames[static_cast<size_t>(order)];
}

Order order_from_name(std::string_view name) {
  for (const Order order : {Order::kInOrder, Order::kLockStep, Order::kOutOfOrder}) {
    if (name == order_name(order)) return order;
  }
  throw UsageError(fmt::format(
      "'{}' is no order of chunks. Known are in-order, lock-step and out-of-order.", name));
}

const char* handover_name(HandoverKind handover) {
  return handover == HandoverKind::kFast ? "fast" : "ordinary";
}

HandoverKind handover_from_name(std::string_view name) {
  for (const HandoverKind handover : {HandoverKind::kOrdinary, HandoverKind::kFast}) {
    if (name == handover_name(handover)) return handover;
  }
  throw UsageError(fmt::format("'{}' is no kind of handover. Known are fast and ordinary.", name));
}

int Plan::n_buffer_sets() const {
  if (lanes.size() == 1 || order == Order::kInOrder) return 1;
  const int most = order == Order::kLockStep ? 2 : chunks_in_flight;
  // A full context has no more chunks than this.
  return std::max(1, std::min(most, (context + chunk() - 1) / chunk()));
}

int Plan::n_threads() const {
  int n = 0;
  for (const PlannedLane& lane : lanes) n += lane.n_threads;
  return std::max(1, n);
}

std::string Plan::workers_text() const {
  int n = 0;
  std::string devices;
  for (const PlannedLane& lane : lanes) {
    n += lane.n_threads;
    if (!lane.is_device()) continue;
    devices += fmt::format("{}{}", devices.empty() ? "" : " and ", lane_text(lane));
  }
  if (n == 0) return devices;
  const std::string threads = fmt::format("{} thread{}", n, n == 1 ? "" : "s");
  return devices.empty() ? threads : threads + " and " + devices;
}

bool Plan::has_one_class() const {
  // Where steps go by neuron, prompts go by output unless they are computed as steps.
  return prefill == Prefill::kSame ||
         (prefill == Prefill::kF32 && activations == Activations::kF32 && !ffn.is_by_neuron());
}

int Plan::n_prompt_phase(int n_prompt) const {
  if (has_one_class()) return n_prompt;
  const int rest = n_prompt % chunk();
  return rest <= short_rest ? n_prompt - rest : n_prompt;
}

Shape Plan::prompt_chunk(int position, int n_prompt) const {
  const int n_in_phase = n_prompt_phase(n_prompt);
  if (position >= n_in_phase) {
    return {Phase::kStep, std::min(most_step_rows(), n_prompt - position)};
  }
  const int n_left = n_in_phase - position;
  const int n_together = whole_granules(position, n_prompt, std::min(chunk(), n_left));
  const bool is_length = std::any_of(lengths.begin(), lengths.end(), [&](const LengthCut& l) {
    return n_left >= l.least_tokens() && n_left <= l.n_tokens;
  });
  return {Phase::kPrompt, is_length ? n_left : n_together};
}

int Plan::whole_granules(int position, int n_prompt, int most) const {
  const int end = std::min(position + most, n_prompt);
  if (reuse_granule == 1 || end >= n_prompt_phase(n_prompt)) return end - position;
  const int whole = end / reuse_granule * reuse_granule;
  const int next = (position / reuse_granule + 1) * reuse_granule;
  return std::min(std::max(whole, next), n_prompt) - position;
}

int Plan::class_at(int position, int n_prompt, int first) const {
  const int n_in_phase = n_prompt_phase(n_prompt);
  if (has_one_class() || position >= n_in_phase) return 0;
  // A tile is sparse only where all of its tokens are computed in this run; else it is dense.
  const int begin = position / kAttentionTile * kAttentionTile;
  const bool is_whole =
      !attention.goes_by_tile() || (begin >= first && begin + kAttentionTile <= n_in_phase);
  return attention.is_sparse() && position >= attention.from && is_whole ? 2 : 1;
}

int Plan::most_rows() const {
  const int most = std::max(step_shapes.back(), prompt_shapes.back());
  return lengths.empty() ? most : std::max(most, lengths.back().n_tokens);
}

std::vector<Shape> Plan::body_shapes() const {
  std::vector<Shape> shapes;
  for (const int n : step_shapes) shapes.push_back({Phase::kStep, n});
  for (const int n : prompt_shapes) {
    const bool is_there = std::find(step_shapes.begin(), step_shapes.end(), n) != step_shapes.end();
    if (!is_there || !has_one_class()) shapes.push_back({Phase::kPrompt, n});
  }
  for (const LengthCut& length : lengths) {
    const Shape shape = {Phase::kPrompt, length.n_tokens};
    if (length_alone(shape) != nullptr) shapes.push_back(shape);
  }
  return shapes;
}

const LengthCut* Plan::length_of(Shape shape) const {
  if (shape.phase != Phase::kPrompt && !has_one_class()) return nullptr;
  const auto at = std::find_if(lengths.begin(), lengths.end(), [&](const LengthCut& length) {
    return length.n_tokens == shape.n_rows;
  });
  return at == lengths.end() ? nullptr : &*at;
}

const LengthCut* Plan::length_alone(Shape shape) const {
  const auto has = [&](const std::vector<int>& shapes) {
    return std::find(shapes.begin(), shapes.end(), shape.n_rows) != shapes.end();
  };
  if (has(prompt_shapes) || (has_one_class() && has(step_shapes))) return nullptr;
  return shape.phase == Phase::kPrompt ? length_of(shape) : nullptr;
}

bool Plan::is_better(Shape a, Shape b, int n_rows) const {
  const auto rank = [&](Shape shape) {
    const LengthCut* const length = length_alone(shape);
    if (length == nullptr) return 1;
    return n_rows >= length->least_tokens() ? 0 : 2;
  };
  return std::pair(rank(a), a.n_rows) < std::pair(rank(b), b.n_rows);
}

Shape Plan::body_shape(Phase phase, int n_rows) const {
  Shape best = {phase, 0};
  for (const Shape& shape : body_shapes()) {
    const bool is_usable = shape.n_rows >= n_rows && (shape.phase == phase || has_one_class());
    if (is_usable && (best.n_rows == 0 || is_better(shape, best, n_rows))) best = shape;
  }
  TROIKA_ASSERT(best.n_rows > 0);
  return best;
}

const Placement* Plan::rule_of(std::string_view subgraph, Shape shape, int block) const {
  const auto at = std::find_if(placements.begin(), placements.end(), [&](const Placement& rule) {
    return rule.holds_for(shape, block) && (rule.subgraph.empty() || rule.subgraph == subgraph);
  });
  return at == placements.end() ? nullptr : &*at;
}

int Plan::lane_of(std::string_view subgraph, Shape shape, int block) const {
  const Placement* const rule = rule_of(subgraph, shape, block);
  return rule == nullptr ? 0 : rule->lane;
}

int Plan::shadow_lane(Shape shape, int block) const {
  for (const Placement& rule : placements) {
    if (rule.subgraph == kShadow && rule.holds_for(shape, block)) return rule.lane;
  }
  return -1;
}

bool Plan::places_shadow() const {
  return std::any_of(placements.begin(), placements.end(),
                     [](const Placement& rule) { return rule.subgraph == kShadow; });
}

bool is_subgraph_name(std::string_view name) {
  return name.empty() ||
         std::find(std::begin(kSubgraphs), std::end(kSubgraphs), name) != std::end(kSubgraphs);
}

std::string subgraph_names() { return fmt::format("{}", fmt::join(kSubgraphs, ", ")); }

Placement placement_from_text(std::string_view text) {
  const auto number = [&](std::string_view digits) {
    int value = -1;
    const auto result = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    const bool is_whole = result.ptr == digits.data() + digits.size() && !digits.empty();
    return result.ec == std::errc() && is_whole ? value : -1;
  };
  const size_t equals = text.rfind('=');
  const std::string_view left = text.substr(0, equals);
  const size_t at = left.find('@');
  Placement placement;
  placement.subgraph = std::string(left.substr(0, at));
  if (at != std::string_view::npos) {
    const std::string_view which = left.substr(at + 1);
    for (const Phase phase : {Phase::kStep, Phase::kPrompt}) {
      if (which == phase_name(phase)) placement.phase = phase;
    }
    if (!placement.phase) placement.least_tokens = number(which);
  }
  placement.lane = equals == std::string_view::npos ? -1 : number(text.substr(equals + 1));
  if (!is_subgraph_name(placement.subgraph) || placement.least_tokens < 0 || placement.lane < 0) {
    throw UsageError(
        fmt::format("‹place› '{}' is not understood. Write SUBGRAPH=LANE, "
                    "SUBGRAPH@TOKENS=LANE, SUBGRAPH@prompt=LANE or SUBGRAPH@step=LANE, where "
                    "SUBGRAPH is one of {}.",
                    text, subgraph_names()));
  }
  if (placement.least_tokens > kMostShapeRows) {
    throw UsageError(fmt::format("‹place› '{}': no pass has {} tokens; name at most {}.", text,
                                 placement.least_tokens, kMostShapeRows));
  }
  return placement;
}

void check_placements(const std::vector<Placement>& placements, size_t n_lanes) {
  for (const Placement& placement : placements) {
    if (placement.lane >= 0 && static_cast<size_t>(placement.lane) < n_lanes) continue;
    throw UsageError(fmt::format("‹place› {}={}: there is no lane {}; LANE is 0 to {}.",
                                 placement.subgraph, placement.lane, placement.lane, n_lanes - 1));
  }
}

void limit_lanes(const std::vector<LaneLimit>& limits, std::vector<PlannedLane>* lanes) {
  for (const LaneLimit& limit : limits) {
    if (limit.lane < 0 || static_cast<size_t>(limit.lane) >= lanes->size()) {
      throw UsageError(fmt::format("‹lane-memory› {}=...: there is no lane {}; LANE is 0 to {}.",
                                   limit.lane, limit.lane, lanes->size() - 1));
    }
    (*lanes)[static_cast<size_t>(limit.lane)].memory_limit = limit.bytes;
  }
}

void cap_lanes(const std::vector<LaneCap>& caps, std::vector<PlannedLane>* lanes) {
  for (const LaneCap& cap : caps) {
    if (cap.lane < 0 || static_cast<size_t>(cap.lane) >= lanes->size()) {
      throw UsageError(fmt::format("‹lane-busy› {}=...: there is no lane {}; LANE is 0 to {}.",
                                   cap.lane, cap.lane, lanes->size() - 1));
    }
    if (cap.busy_percent < 1 || cap.busy_percent > PlannedLane::kAllTime) {
      throw UsageError(
          fmt::format("‹lane-busy› {}={}: a lane may be busy for 1 to {} percent of the time.",
                      cap.lane, cap.busy_percent, PlannedLane::kAllTime));
    }
    (*lanes)[static_cast<size_t>(cap.lane)].busy_percent = cap.busy_percent;
  }
}

namespace {

// Reads a text of lanes part by part.
class LanesReader {
 public:
  LanesReader(std::string_view text, const std::vector<int>& usable_cores)
      : text_(text), usable_cores_(usable_cores) {}

  std::vector<PlannedLane> read() {
    for (size_t begin = 0; begin <= text_.size();) {
      const size_t end = std::min(text_.find(';', begin), text_.size());
      add(text_.substr(begin, end - begin));
      begin = end + 1;
    }
    return lanes_;
  }

 private:
  [[noreturn]] void fail(const std::string& problem) const {
    throw UsageError(
        fmt::format("‹lanes› '{}': {}. Write \"0,1\" for one lane on the cores 0 and "
                    "1, or \"0;1\" for two lanes; this process may use the cores {}.",
                    text_, problem, fmt::join(usable_cores_, ", ")));
  }

  void add(std::string_view part) {
    if (part.find(':') != part.npos) {
      add_device(part);
      return;
    }
    lanes_.push_back({read_cores(part), 0});
    lanes_.back().n_threads = static_cast<int>(lanes_.back().cores.size());
  }

  void add_device(std::string_view part) {
    DeviceText parsed = device_from_text(part);
    check_device(parsed.lane, [&](const std::string& problem) { fail(problem); });
    for (const PlannedLane& other : lanes_) {
      if (other.kind != parsed.lane.kind || other.device != parsed.lane.device) continue;
      fail(fmt::format("{}:{} stands twice, but lanes never share a device", other.kind,
                       other.device));
    }
    if (part.find('@') != part.npos) parsed.lane.cores = read_cores(parsed.cores);
    lanes_.push_back(std::move(parsed.lane));
  }

  // Says what is no number of a core: perhaps a device without its number.
  [[noreturn]] void fail_at(std::string_view text) const {
    const std::string_view word = text.substr(0, text.find_first_of(",@"));
    if (word.empty()) fail("a number of a core is missing");
    if (const DeviceKind* const kind = device_kind(word)) {
      fail(fmt::format("a device of {0} is named {0}:{1}", word,
                       kind->is_numbered ? "NUMBER, as in opencl:0" : "NAME"));
    }
    fail(fmt::format("'{}' is no number of a core", word));
  }

  std::vector<int> read_cores(std::string_view part) {
    std::vector<int> cores;
    const char* at = part.data();
    const char* const end = part.data() + part.size();
    while (true) {
      int core = 0;
      const std::from_chars_result result = std::from_chars(at, end, core);
      if (result.ec != std::errc()) {
        fail_at(std::string_view(at, static_cast<size_t>(end - at)));
      }
      add_core(core, &cores);
      at = result.ptr;
      if (at == end) return cores;
      if (*at != ',') fail(fmt::format("'{}' is not understood", *at));
      ++at;
    }
  }

  void add_core(int core, std::vector<int>* cores) {
    if (std::find(usable_cores_.begin(), usable_cores_.end(), core) == usable_cores_.end()) {
      fail(fmt::format("core {} cannot be used", core));
    }
    if (std::find(seen_.begin(), seen_.end(), core) != seen_.end()) {
      fail(fmt::format("core {} stands twice, but lanes never share a core", core));
    }
    seen_.push_back(core);
    cores->push_back(core);
  }

  std::string_view text_;
  const std::vector<int>& usable_cores_;
  std::vector<PlannedLane> lanes_;
  std::vector<int> seen_;
};

}  // namespace

std::vector<PlannedLane> lanes_from_text(std::string_view text,
                                         const std::vector<int>& usable_cores) {
  return LanesReader(text, usable_cores).read();
}

std::string lane_text(const PlannedLane& lane) {
  const std::string cores = fmt::format("{}", fmt::join(lane.cores, ","));
  if (!lane.is_device()) return cores;
  return fmt::format("{}:{}{}{}", lane.kind, lane.device, cores.empty() ? "" : "@", cores);
}

std::string lanes_text(const std::vector<PlannedLane>& lanes) {
  std::string text;
  for (const PlannedLane& lane : lanes) {
    text += fmt::format("{}{}", text.empty() ? "" : ";", lane_text(lane));
  }
  return text;
}

}  // namespace troika::plan
