// The profile as JSON, and the checks of what was read.
#include <fmt/format.h>

#include <climits>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "base/atomic_file.h"
#include "base/error.h"
#include "plan/json_fields.h"
#include "plan/profile.h"

namespace troika::plan {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kFormat = "troika-profile";
constexpr int kMostWidth = 1 << 26;  // limits rows and k: a product of two fits a double exactly
constexpr int kMostProfileTokens = 1 << 24;  // limits tokens and context
constexpr double kMostUs = 1e12;             // eleven days
// Limits times and rates: with less, what is derived from them would be no finite numbers.
constexpr double kLeastMeasured = 1e-6;
constexpr double kLeastDiskMbS = 1e-3;
constexpr int64_t kMostBytes = 1'000'000'000'000'000'000;

constexpr model::OpKind kAllOps[] = {model::OpKind::kEmbed,     model::OpKind::kRmsNorm,
                                     model::OpKind::kLayerNorm, model::OpKind::kLinear,
                                     model::OpKind::kRope,      model::OpKind::kAttention,
                                     model::OpKind::kGate,      model::OpKind::kActivate,
                                     model::OpKind::kAdd,       model::OpKind::kSelect};

int small(const JsonFields& fields, const char* key, int lowest, int highest) {
  return static_cast<int>(fields.integer(key, lowest, highest));
}

void check_measured(const JsonFields& fields, const char* key, double value,
                    double least = kLeastMeasured) {
  if (value >= least) return;
  fields.fail(
      key, fmt::format("holds {:g}, but nothing that is measured is less than {:g}", value, least));
}

// Reads a time or a rate.
double measured(const JsonFields& fields, const char* key, double highest,
                double least = kLeastMeasured) {
  const double value = fields.positive(key, highest);
  check_measured(fields, key, value, least);
  return value;
}

model::OpKind read_op(const JsonFields& fields) {
  const std::string name = fields.text("op");
  for (const model::OpKind kind : kAllOps) {
    if (name == model::op_kind_name(kind)) return kind;
  }
  fields.fail("op", fmt::format("names the unknown op '{}'", name));
}

tensor::Type read_type(const JsonFields& fields) {
  const std::string name = fields.text("type");
  const std::optional<tensor::Type> type = tensor::type_from_name(name);
  if (!type) fields.fail("type", fmt::format("names the unknown element type '{}'", name));
  return *type;
}

MachineIdentity read_machine(const JsonFields& fields) {
  MachineIdentity machine;
  machine.cpu = fields.text("cpu");
  machine.n_cores = small(fields, "n_cores", 1, 1 << 20);
  machine.features = fields.text("features");
  machine.memory_bytes = static_cast<uint64_t>(fields.integer("memory_bytes", 0, kMostBytes));
  machine.kernel = fields.text("kernel");
  machine.arithmetic = fields.text("arithmetic");
  return machine;
}

ProfileLane read_lane(const JsonFields& fields) {
  ProfileLane lane;
  lane.name = fields.text("name");
  lane.cores = fields.integers("cores", 0, 1 << 20);
  lane.n_threads = small(fields, "n_threads", 1, 1 << 20);
  lane.is_matrix = fields.flag("is_matrix");
  if (fields.has("identity")) lane.identity = fields.text("identity");
  return lane;
}

OpTime read_op_time(const JsonFields& fields, int n_lanes) {
  OpTime time;
  OpShape& shape = time.shape;
  time.lane = small(fields, "lane", 0, n_lanes - 1);
  shape.op = read_op(fields);
  shape.type = read_type(fields);
  shape.n_rows = small(fields, "n_rows", 1, kMostWidth);
  shape.k = small(fields, "k", 1, kMostWidth);
  shape.n_tokens = small(fields, "n_tokens", 1, kMostProfileTokens);
  shape.phase = static_cast<Phase>(fields.one_of("phase", kPhaseNames));
  if (!depends_on_phase(shape.op) && shape.phase != Phase::kStep) {
    fields.fail("phase", "must be 'step' for an op that is the same in prompts");
  }
  const bool is_dynamic = shape.op == model::OpKind::kAttention;
  shape.context = small(fields, "context", is_dynamic ? shape.n_tokens : 0,
                        is_dynamic ? kMostProfileTokens : 0);
  const bool has_heads = is_dynamic || shape.op == model::OpKind::kRope;
  shape.head_dim = small(fields, "head_dim", has_heads ? 1 : 0, has_heads ? kMostWidth : 0);
  time.us = measured(fields, "us", kMostUs);
  time.spread = fields.number("spread", 0.0, 1e9);
  time.n_runs = small(fields, "n_runs", 1, 1 << 30);
  if (fields.has("busy_load")) time.busy_load = fields.number("busy_load", 0.0, 1e9);
  if (const char* key = fields.present("arrangement", "layout"); fields.has(key)) {
    time.arrangement = fields.text(key);
    time.arrangement_gain =
        fields.number(fields.present("arrangement_gain", "layout_gain"), 1.0, 1e9);
  }
  if (fields.has("build_us")) {
    time.preparation.build_us = measured(fields, "build_us", kMostUs);
    if (fields.has("rebuild_us")) {
      time.preparation.rebuild_us = measured(fields, "rebuild_us", kMostUs);
    }
    time.preparation.first_run_us = measured(fields, "first_run_us", kMostUs);
  }
  return time;
}

RefusedOp read_refusal(const JsonFields& fields, int n_lanes) {
  RefusedOp refusal;
  refusal.lane = small(fields, "lane", 0, n_lanes - 1);
  refusal.op = read_op(fields);
  refusal.phase = static_cast<Phase>(fields.one_of("phase", kPhaseNames));
  return refusal;
}

ReadRate read_rate(const JsonFields& fields, int n_lanes) {
  ReadRate rate;
  rate.lanes = fields.integers("lanes", 0, n_lanes - 1);
  rate.gb_s = fields.positives("gb_s", 1e9);
  for (const double gb_s : rate.gb_s) check_measured(fields, "gb_s", gb_s);
  if (rate.lanes.empty() || rate.gb_s.size() != rate.lanes.size()) {
    fields.fail("gb_s", "must have a rate for each lane");
  }
  return rate;
}

Storage read_storage(const JsonFields& fields) {
  Storage storage;
  storage.folder = fields.text("folder");
  storage.is_direct = fields.flag("is_direct");
  fields.each("reads", [&](const JsonFields& item) {
    DiskRead read;
    read.block_bytes = static_cast<uint64_t>(item.integer("block_bytes", 1, kMostBytes));
    read.range_bytes = static_cast<uint64_t>(item.integer("range_bytes", 1, kMostBytes));
    read.is_random = item.flag("is_random");
    read.depth = small(item, "depth", 1, 1 << 20);
    read.us = measured(item, "us", kMostUs);
    read.mb_s = measured(item, "mb_s", 1e12, kLeastDiskMbS);
    storage.reads.push_back(read);
  });
  return storage;
}

void read_rates(const JsonFields& whole, int n_lanes, Profile* profile) {
  whole.each("starts", [&](const JsonFields& item) {
    profile->starts.push_back(
        {small(item, "lane", 0, n_lanes - 1), item.number("us", 0.0, kMostUs)});
  });
  if (whole.has("refusals")) {
    whole.each("refusals", [&](const JsonFields& item) {
      profile->refusals.push_back(read_refusal(item, n_lanes));
    });
  }
  whole.each("bandwidth", [&](const JsonFields& item) {
    profile->bandwidth.push_back(read_rate(item, n_lanes));
  });
  whole.each("handovers", [&](const JsonFields& item) {
    profile->handovers.push_back({small(item, "from", 0, n_lanes - 1),
                                  small(item, "to", 0, n_lanes - 1),
                                  item.number("us", 0.0, kMostUs)});
  });
  whole.each("cores", [&](const JsonFields& item) {
    profile->cores.push_back({small(item, "core", 0, 1 << 20), measured(item, "gops", 1e12),
                              measured(item, "gb_s", 1e9)});
  });
}

// Rounds to four digits: more would pretend to a precision that measurements lack. Whole numbers
// stay whole.
double rounded(double value) {
  if (value == 0.0 || !std::isfinite(value)) return value;
  const double unit = std::pow(10.0, 3.0 - std::floor(std::log10(std::abs(value))));
  if (!std::isfinite(unit)) return value;
  return unit >= 1.0 ? std::round(value * unit) / unit : std::round(value);
}

Json op_json(const OpTime& time) {
  Json json = {{"lane", time.lane},
               {"op", model::op_kind_name(time.shape.op)},
               {"type", tensor::type_name(time.shape.type)},
               {"n_rows", time.shape.n_rows},
               {"k", time.shape.k},
               {"n_tokens", time.shape.n_tokens},
               {"phase", phase_name(time.shape.phase)},
               {"context", time.shape.context},
               {"head_dim", time.shape.head_dim},
               {"us", rounded(time.us)},
               {"spread", rounded(time.spread)},
               {"n_runs", time.n_runs}};
  if (time.busy_load > 0.0) json["busy_load"] = rounded(time.busy_load);
  if (!time.arrangement.empty()) {
    json["arrangement"] = time.arrangement;
    json["arrangement_gain"] = rounded(time.arrangement_gain);
  }
  if (time.preparation.build_us > 0.0) {
    json["build_us"] = rounded(time.preparation.build_us);
    if (time.preparation.rebuild_us > 0.0) {
      json["rebuild_us"] = rounded(time.preparation.rebuild_us);
    }
    json["first_run_us"] = rounded(time.preparation.first_run_us);
  }
  return json;
}

// Returns a value as text. The names of folders may be no UTF-8, which JSON must be.
std::string dumped(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// Returns "name": [ a line for each item ].
template <typename Items, typename ToJson>
std::string list_text(const char* name, const Items& items, ToJson to_json) {
  std::string text = fmt::format("  \"{}\": [", name);
  const char* separator = "\n    ";
  for (const auto& item : items) {
    text += separator + dumped(to_json(item));
    separator = ",\n    ";
  }
  return text + (items.empty() ? "]" : "\n  ]");
}

std::string storage_text(const Storage& storage) {
  return fmt::format("  \"storage\": {{\n  \"folder\": {}, \"is_direct\": {},\n{}\n  }}",
                     dumped(storage.folder), storage.is_direct,
                     list_text("reads", storage.reads, [](const DiskRead& read) -> Json {
                       return {{"block_bytes", read.block_bytes}, {"range_bytes", read.range_bytes},
                               {"is_random", read.is_random},     {"depth", read.depth},
                               {"us", rounded(read.us)},          {"mb_s", rounded(read.mb_s)}};
                     }));
}

}  // namespace

std::string profile_to_json(const Profile& profile) {
  const MachineIdentity& machine = profile.machine;
  const Json identity = {{"cpu", machine.cpu},           {"n_cores", machine.n_cores},
                         {"features", machine.features}, {"memory_bytes", machine.memory_bytes},
                         {"kernel", machine.kernel},     {"arithmetic", machine.arithmetic}};
  std::string text = fmt::format(
      "{{\n  \"format\": \"{}\", \"version\": {},\n  \"machine\": {},\n  \"taken\": {}, "
      "\"load_average\": {}, \"n_left_out\": {},\n",
      kFormat, kProfileVersion, dumped(identity), dumped(profile.taken),
      dumped(rounded(profile.load_average)), profile.n_left_out);
  text += list_text("lanes", profile.lanes, [](const ProfileLane& lane) -> Json {
    Json json = {{"name", lane.name},
                 {"cores", lane.cores},
                 {"n_threads", lane.n_threads},
                 {"is_matrix", lane.is_matrix}};
    if (!lane.identity.empty()) json["identity"] = lane.identity;
    return json;
  });
  text += ",\n" + list_text("starts", profile.starts, [](const StartTime& start) -> Json {
            return {{"lane", start.lane}, {"us", rounded(start.us)}};
          });
  if (!profile.refusals.empty()) {
    text += ",\n" + list_text("refusals", profile.refusals, [](const RefusedOp& refusal) -> Json {
              return {{"lane", refusal.lane},
                      {"op", model::op_kind_name(refusal.op)},
                      {"phase", phase_name(refusal.phase)}};
            });
  }
  text += ",\n" + list_text("handovers", profile.handovers, [](const Handover& handover) -> Json {
            return {{"from", handover.from}, {"to", handover.to}, {"us", rounded(handover.us)}};
          });
  text += ",\n" + list_text("bandwidth", profile.bandwidth, [](const ReadRate& rate) -> Json {
            Json rates = Json::array();
            for (const double gb_s : rate.gb_s) rates.push_back(rounded(gb_s));
            return {{"lanes", rate.lanes}, {"gb_s", rates}};
          });
  text +=
      ",\n" + list_text("cores", profile.cores, [](const CoreRate& core) -> Json {
        return {{"core", core.core}, {"gops", rounded(core.gops)}, {"gb_s", rounded(core.gb_s)}};
      });
  if (profile.storage) text += ",\n" + storage_text(*profile.storage);
  return text + ",\n" + list_text("ops", profile.ops, op_json) + "\n}\n";
}

Profile profile_from_json(const std::string& text, const std::string& path,
                          const std::string& advice) {
  const JsonFields whole = JsonFields::parse(text, path, advice);
  if (whole.text("format") != kFormat) {
    whole.fail("format", fmt::format("is not '{}', so this is no profile", kFormat));
  }
  if (const int64_t version = whole.integer("version", 0, INT_MAX); version != kProfileVersion) {
    whole.fail("version",
               fmt::format("is {}, but this program reads version {}", version, kProfileVersion));
  }
  Profile profile;
  profile.advice = advice;
  profile.machine = read_machine(whole.object("machine"));
  profile.taken = whole.text("taken");
  profile.load_average = whole.number("load_average", 0.0, 1e9);
  profile.n_left_out = small(whole, "n_left_out", 0, 1 << 30);
  whole.each("lanes", [&](const JsonFields& lane) { profile.lanes.push_back(read_lane(lane)); });
  const int n_lanes = static_cast<int>(profile.lanes.size());
  if (profile.lanes.empty() || profile.lanes.size() > kMostLanes) {
    whole.fail("lanes", fmt::format("must hold 1 to {} lanes", kMostLanes));
  }
  whole.each("ops",
             [&](const JsonFields& op) { profile.ops.push_back(read_op_time(op, n_lanes)); });
  read_rates(whole, n_lanes, &profile);
  if (whole.has("storage")) profile.storage = read_storage(whole.object("storage"));
  return profile;
}

Profile load_profile(const std::string& path) {
  const std::optional<std::string> text = read_whole_file(path, kMostProfileBytes);
  if (!text) {
    throw Error(
        fmt::format("{}: the profile cannot be read; check the path, or take one with "
                    "'troika profile MODEL -o {}'.",
                    path, path));
  }
  return profile_from_json(*text, path,
                           fmt::format("Measure again with 'troika profile MODEL -o {}'.", path));
}

}  // namespace troika::plan
