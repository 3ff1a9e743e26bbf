// The profile as JSON, and the checks of what was read.
#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "plan/profile.h"

namespace troika::plan {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kFormat = "troika-profile";
constexpr uintmax_t kMostFileBytes = 64u << 20;
constexpr int kMostWidth = 1 << 26;   // rows, k: a product of two fits a double exactly
constexpr int kMostTokens = 1 << 24;  // tokens, context
constexpr double kMostUs = 1e12;      // eleven days
constexpr int kMostLanes = 1024;

constexpr model::OpKind kAllOps[] = {model::OpKind::kEmbed,     model::OpKind::kRmsNorm,
                                     model::OpKind::kLayerNorm, model::OpKind::kLinear,
                                     model::OpKind::kRope,      model::OpKind::kAttention,
                                     model::OpKind::kGate,      model::OpKind::kActivate,
                                     model::OpKind::kAdd,       model::OpKind::kSelect};

// A JSON object at a known place of a file; every access checks and names that place.
class Field {
 public:
  Field(const Json& json, const std::string& path, std::string name)
      : json_(json), path_(path), name_(std::move(name)) {}

  [[noreturn]] void fail(const std::string& problem) const {
    throw Error(fmt::format("{}: the field '{}' {}. Measure again with 'troika profile --again'.",
                            path_, name_.empty() ? "(whole file)" : name_, problem));
  }
  Field at(const char* key) const {
    if (!json_.is_object()) fail("should be an object");
    const auto found = json_.find(key);
    const std::string name = name_.empty() ? key : name_ + "." + key;
    if (found == json_.end()) Field(json_, path_, name).fail("is missing");
    return {*found, path_, name};
  }
  bool has(const char* key) const { return json_.is_object() && json_.contains(key); }
  std::vector<Field> list() const {
    if (!json_.is_array()) fail("should be a list");
    std::vector<Field> fields;
    for (const Json& item : json_) {
      fields.emplace_back(item, path_, fmt::format("{}[{}]", name_, fields.size()));
    }
    return fields;
  }
  std::string text() const {
    if (!json_.is_string()) fail("should be a text");
    return json_.get<std::string>();
  }
  bool flag() const {
    if (!json_.is_boolean()) fail("should be true or false");
    return json_.get<bool>();
  }
  double number(double lowest, double highest) const {
    if (!json_.is_number()) fail("should be a number");
    const double value = json_.get<double>();
    if (!(value >= lowest && value <= highest)) {
      fail(fmt::format("is {}, but must be {} to {}", value, lowest, highest));
    }
    return value;
  }
  double integer(double lowest, double highest) const {
    const double value = number(lowest, highest);
    if (value != std::floor(value)) fail(fmt::format("is {}, but must be a whole number", value));
    return value;
  }
  int small(int lowest, int highest) const { return static_cast<int>(integer(lowest, highest)); }
  // A time or a rate: zero or less would make everything free.
  double positive(double highest) const {
    if (number(0.0, highest) <= 0.0) fail("is 0, but must be more");
    return json_.get<double>();
  }

 private:
  const Json& json_;
  const std::string& path_;
  std::string name_;
};

model::OpKind read_op(const Field& field) {
  const std::string name = field.text();
  for (const model::OpKind kind : kAllOps) {
    if (name == model::op_kind_name(kind)) return kind;
  }
  field.fail(fmt::format("names the unknown op '{}'", name));
}

tensor::Type read_type(const Field& field) {
  const std::string name = field.text();
  const std::optional<tensor::Type> type = tensor::type_from_name(name);
  if (!type) field.fail(fmt::format("names the unknown element type '{}'", name));
  return *type;
}

MachineIdentity read_machine(const Field& field) {
  MachineIdentity machine;
  machine.cpu = field.at("cpu").text();
  machine.n_cores = field.at("n_cores").small(1, 1 << 20);
  machine.features = field.at("features").text();
  machine.memory_bytes = static_cast<uint64_t>(field.at("memory_bytes").integer(0, 1e18));
  machine.kernel = field.at("kernel").text();
  machine.arithmetic = field.at("arithmetic").text();
  return machine;
}

ProfileLane read_lane(const Field& field) {
  ProfileLane lane;
  lane.name = field.at("name").text();
  for (const Field& core : field.at("cores").list()) lane.cores.push_back(core.small(0, 1 << 20));
  lane.n_threads = field.at("n_threads").small(1, 1 << 20);
  lane.is_matrix = field.at("is_matrix").flag();
  return lane;
}

OpTime read_op_time(const Field& field, int n_lanes) {
  OpTime time;
  time.lane = field.at("lane").small(0, n_lanes - 1);
  time.shape.op = read_op(field.at("op"));
  time.shape.type = read_type(field.at("type"));
  time.shape.n_rows = field.at("n_rows").small(1, kMostWidth);
  time.shape.k = field.at("k").small(1, kMostWidth);
  time.shape.n_tokens = field.at("n_tokens").small(1, kMostTokens);
  const bool is_dynamic = time.shape.op == model::OpKind::kAttention;
  time.shape.context =
      field.at("context").small(is_dynamic ? time.shape.n_tokens : 0, is_dynamic ? kMostTokens : 0);
  const bool has_heads = is_dynamic || time.shape.op == model::OpKind::kRope;
  time.shape.head_dim = field.at("head_dim").small(has_heads ? 1 : 0, has_heads ? kMostWidth : 0);
  time.us = field.at("us").positive(kMostUs);
  time.spread = field.at("spread").number(0.0, 1e9);
  time.n_runs = field.at("n_runs").small(1, 1 << 30);
  return time;
}

ReadRate read_rate(const Field& field, int n_lanes) {
  ReadRate rate;
  for (const Field& lane : field.at("lanes").list())
    rate.lanes.push_back(lane.small(0, n_lanes - 1));
  for (const Field& gb_s : field.at("gb_s").list()) rate.gb_s.push_back(gb_s.positive(1e9));
  if (rate.lanes.empty() || rate.gb_s.size() != rate.lanes.size()) {
    field.at("gb_s").fail("should have a rate for each lane");
  }
  return rate;
}

Storage read_storage(const Field& field) {
  Storage storage;
  storage.folder = field.at("folder").text();
  storage.is_direct = field.at("is_direct").flag();
  for (const Field& item : field.at("reads").list()) {
    DiskRead read;
    read.block_bytes = static_cast<uint64_t>(item.at("block_bytes").integer(1, 1e15));
    read.range_bytes = static_cast<uint64_t>(item.at("range_bytes").integer(1, 1e18));
    read.is_random = item.at("is_random").flag();
    read.depth = item.at("depth").small(1, 1 << 20);
    read.us = item.at("us").positive(kMostUs);
    read.mb_s = item.at("mb_s").positive(1e12);
    storage.reads.push_back(read);
  }
  return storage;
}

void read_rates(const Field& whole, int n_lanes, Profile* profile) {
  for (const Field& item : whole.at("starts").list()) {
    profile->starts.push_back(
        {item.at("lane").small(0, n_lanes - 1), item.at("us").number(0.0, kMostUs)});
  }
  for (const Field& item : whole.at("bandwidth").list()) {
    profile->bandwidth.push_back(read_rate(item, n_lanes));
  }
  for (const Field& item : whole.at("handovers").list()) {
    profile->handovers.push_back({item.at("from").small(0, n_lanes - 1),
                                  item.at("to").small(0, n_lanes - 1),
                                  item.at("us").number(0.0, kMostUs)});
  }
  for (const Field& item : whole.at("cores").list()) {
    profile->cores.push_back({item.at("core").small(0, 1 << 20), item.at("gops").positive(1e12),
                              item.at("gb_s").positive(1e9)});
  }
}

// To four digits: more would only pretend. Whole numbers stay whole.
double rounded(double value) {
  if (value == 0.0 || !std::isfinite(value)) return value;
  const double unit = std::pow(10.0, 3.0 - std::floor(std::log10(std::abs(value))));
  return unit >= 1.0 ? std::round(value * unit) / unit : std::round(value);
}

Json op_json(const OpTime& time) {
  return {{"lane", time.lane},
          {"op", model::op_kind_name(time.shape.op)},
          {"type", tensor::type_name(time.shape.type)},
          {"n_rows", time.shape.n_rows},
          {"k", time.shape.k},
          {"n_tokens", time.shape.n_tokens},
          {"context", time.shape.context},
          {"head_dim", time.shape.head_dim},
          {"us", rounded(time.us)},
          {"spread", rounded(time.spread)},
          {"n_runs", time.n_runs}};
}

// "name": [ a line for each item ]
template <typename Items, typename ToJson>
std::string list_text(const char* name, const Items& items, ToJson to_json) {
  std::string text = fmt::format("  \"{}\": [", name);
  const char* separator = "\n    ";
  for (const auto& item : items) {
    text += separator + Json(to_json(item)).dump();
    separator = ",\n    ";
  }
  return text + (items.empty() ? "]" : "\n  ]");
}

std::string storage_text(const Storage& storage) {
  return fmt::format("  \"storage\": {{\n  \"folder\": {}, \"is_direct\": {},\n{}\n  }}",
                     Json(storage.folder).dump(), storage.is_direct,
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
      kFormat, kProfileVersion, identity.dump(), Json(profile.taken).dump(),
      Json(rounded(profile.load_average)).dump(), profile.n_left_out);
  text += list_text("lanes", profile.lanes, [](const ProfileLane& lane) -> Json {
    return {{"name", lane.name},
            {"cores", lane.cores},
            {"n_threads", lane.n_threads},
            {"is_matrix", lane.is_matrix}};
  });
  text += ",\n" + list_text("starts", profile.starts, [](const StartTime& start) -> Json {
            return {{"lane", start.lane}, {"us", rounded(start.us)}};
          });
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

Profile profile_from_json(const std::string& text, const std::string& path) {
  Json json;
  try {
    json = Json::parse(text);
  } catch (const Json::exception& error) {
    throw Error(
        fmt::format("{}: this is no JSON ({}). Measure again with 'troika profile --again'.", path,
                    error.what()));
  }
  const Field whole(json, path, "");
  if (whole.at("format").text() != kFormat) {
    whole.at("format").fail(fmt::format("is not '{}', so this is no profile", kFormat));
  }
  const Field version = whole.at("version");
  if (version.integer(0, 1e9) != kProfileVersion) {
    version.fail(fmt::format("is {:.0f}, but this program reads version {}",
                             version.integer(0, 1e9), kProfileVersion));
  }
  Profile profile;
  profile.machine = read_machine(whole.at("machine"));
  profile.taken = whole.at("taken").text();
  profile.load_average = whole.at("load_average").number(0.0, 1e9);
  profile.n_left_out = whole.at("n_left_out").small(0, 1 << 30);
  for (const Field& lane : whole.at("lanes").list()) profile.lanes.push_back(read_lane(lane));
  const int n_lanes = static_cast<int>(profile.lanes.size());
  if (n_lanes < 1 || n_lanes > kMostLanes) {
    whole.at("lanes").fail(fmt::format("should have 1 to {} lanes", kMostLanes));
  }
  for (const Field& op : whole.at("ops").list()) profile.ops.push_back(read_op_time(op, n_lanes));
  read_rates(whole, n_lanes, &profile);
  if (whole.has("storage")) profile.storage = read_storage(whole.at("storage"));
  return profile;
}

Profile load_profile(const std::string& path) {
  std::error_code failure;
  const uintmax_t bytes = std::filesystem::file_size(path, failure);
  if (failure) {
    throw Error(fmt::format("{}: cannot be read: {}.", path, failure.message()));
  }
  if (bytes > kMostFileBytes) {
    throw Error(
        fmt::format("{}: {} bytes are too many for a profile; name another file.", path, bytes));
  }
  std::ifstream file(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  if (!file.good() && !file.eof()) throw Error(fmt::format("{}: cannot be read.", path));
  return profile_from_json(text, path);
}

}  // namespace troika::plan
