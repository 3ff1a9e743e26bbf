#include "plan/plan_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "base/json_marks.h"
#include "model/limits.h"
#include "plan/attention/words.h"
#include "plan/cuts/cuts_json.h"
#include "plan/device.h"
#include "plan/int8_json.h"
#include "plan/json_fields.h"
#include "plan/neurons/ffn_json.h"
#include "plan/neurons/streamed_neurons_json.h"
#include "plan/phones/neuron_plan_json.h"

namespace troika::plan {
namespace {

constexpr int kMostCores = 4096;
// Limits brackets, commas and colons. Those of a plan are thousands, and a value that is parsed
// takes many times the bytes of its text.
constexpr size_t kMostMarks = size_t{1} << 23;
constexpr double kMostMs = 1e9;

// Parses a plan. Refuses more values than any plan has before they are taken into memory.
JsonFields parse_plan(const std::string& text, const std::string& name) {
  size_t n_marks = 0;
  visit_json_marks(text, [&](const JsonMark&) { return ++n_marks <= kMostMarks; });
  if (n_marks <= kMostMarks) return JsonFields::parse(text, name);
  throw Error(
      fmt::format("{}: it holds millions of values, as no plan does. Make the plan again with "
                  "'troika plan MODEL -o FILE'.",
                  name));
}

void read_device(const JsonFields& fields, const std::vector<PlannedLane>& others,
                 PlannedLane* lane) {
  lane->n_threads = 0;
  lane->device = fields.text("device");
  check_device(*lane, [&](const std::string& problem) { fields.fail("device", "is: " + problem); });
  for (const PlannedLane& other : others) {
    if (other.kind != lane->kind || other.device != lane->device) continue;
    fields.fail("device",
                fmt::format("names {} again, but lanes never share a device", lane_text(other)));
  }
}

bool is_processor_of_phone(std::string_view kind) {
  return kind == "cpu" || kind == "gpu" || kind == "npu";
}

// Refuses fields that a lane of this kind would pass over.
void check_fields_of_kind(const JsonFields& lane, const std::string& kind) {
  if (is_processor_of_phone(kind)) {
    lane.only({"kind", "memory_limit", "busy_percent"});
  } else if (device_kind(kind) != nullptr) {
    lane.only({"kind", "device", "cores", "memory_limit", "busy_percent"});
  } else if (kind == "host") {
    lane.only({"kind", "threads", "cores", "memory_limit", "busy_percent"});
  } else {
    lane.fail("kind", fmt::format("is '{}', which is no lane; known are host, {}, and cpu, gpu and "
                                  "npu of a virtual phone",
                                  kind, device_kind_names()));
  }
}

std::vector<PlannedLane> read_lanes(const JsonFields& fields) {
  std::vector<PlannedLane> lanes;
  std::set<int> seen;
  int n_threads = 0;
  fields.each("lanes", kMostLanes, [&](const JsonFields& lane) {
    PlannedLane planned;
    planned.kind = lane.text("kind");
    check_fields_of_kind(lane, planned.kind);
    if (lane.has("memory_limit")) {
      planned.memory_limit = static_cast<uint64_t>(lane.integer("memory_limit", 0, INT64_MAX));
    }
    if (lane.has("busy_percent")) {
      planned.busy_percent =
          static_cast<int>(lane.integer("busy_percent", 1, PlannedLane::kAllTime));
    }
    if (is_processor_of_phone(planned.kind)) {
      const bool is_again = std::any_of(lanes.begin(), lanes.end(), [&](const PlannedLane& other) {
        return other.kind == planned.kind;
      });
      if (is_again) lane.fail("kind", fmt::format("is '{}' again; a phone has one", planned.kind));
      lanes.push_back(planned);
      return;
    }
    if (device_kind(planned.kind) != nullptr) {
      read_device(lane, lanes, &planned);
    } else {
      planned.n_threads = static_cast<int>(lane.integer("threads", 1, kMostCores));
    }
    planned.cores = lane.integers("cores", 0, kMostCores - 1);
    for (const int core : planned.cores) {
      if (!seen.insert(core).second) {
        lane.fail("cores", fmt::format("names core {} again, but lanes never share a core", core));
      }
    }
    n_threads += planned.n_threads;
    if (n_threads > kMostCores) {
      lane.fail("threads", fmt::format("leads to more than {} of all lanes", kMostCores));
    }
    lanes.push_back(planned);
  });
  if (lanes.empty()) fields.fail("lanes", "must name at least one lane");
  return lanes;
}

// Reads ascending row counts, so that the smallest that holds a batch can be found.
std::vector<int> read_shapes(const JsonFields& fields, const char* key) {
  std::vector<int> shapes = fields.integers(key, 1, kMostShapeRows);
  if (shapes.empty()) fields.fail(key, "must hold at least one number of tokens");
  if (shapes.size() > kMostShapes) {
    fields.fail(key, fmt::format("holds more than {} numbers of tokens", kMostShapes));
  }
  for (size_t i = 1; i < shapes.size(); ++i) {
    if (shapes[i] <= shapes[i - 1]) fields.fail(key, "must ascend");
  }
  return shapes;
}

std::vector<Placement> read_placements(const JsonFields& fields, int n_lanes) {
  std::vector<Placement> placements;
  fields.each("placements", kMostRules, [&](const JsonFields& rule) {
    rule.only({"subgraph", "least_tokens", "lane", "blocks", "phase", "mixes_classes"});
    Placement placement;
    placement.subgraph = rule.text("subgraph");
    if (!is_subgraph_name(placement.subgraph)) {
      rule.fail("subgraph", fmt::format("is '{}', which is no subgraph; known are {}",
                                        placement.subgraph, subgraph_names()));
    }
    placement.least_tokens = static_cast<int>(rule.integer("least_tokens", 0, kMostShapeRows));
    placement.lane = static_cast<int>(rule.integer("lane", 0, n_lanes - 1));
    if (rule.has("blocks")) {
      placement.n_blocks = static_cast<int>(rule.integer("blocks", 0, INT_MAX));
    }
    if (rule.has("phase")) placement.phase = static_cast<Phase>(rule.one_of("phase", kPhaseNames));
    if (rule.has("mixes_classes")) placement.mixes_classes = rule.flag("mixes_classes");
    placements.push_back(placement);
  });
  return placements;
}

std::vector<ProductArrangement> read_arrangements(const JsonFields& fields, int n_lanes) {
  std::vector<ProductArrangement> arrangements;
  const char* const key = fields.present("arrangements", "layouts");
  if (!fields.has(key)) return {};
  fields.each(key, kMostRules, [&](const JsonFields& item) {
    item.only({"lane", "n_rows", "k", "phase", "n_tokens", "arrangement", "layout"});
    ProductArrangement arrangement;
    arrangement.lane = static_cast<int>(item.integer("lane", 0, n_lanes - 1));
    arrangement.n_rows = static_cast<int>(item.integer("n_rows", 1, INT_MAX));
    arrangement.k = static_cast<int>(item.integer("k", 1, INT_MAX));
    arrangement.shape = {static_cast<Phase>(item.one_of("phase", kPhaseNames)),
                         static_cast<int>(item.integer("n_tokens", 1, kMostShapeRows))};
    arrangement.arrangement = item.text(item.present("arrangement", "layout"));
    arrangements.push_back(arrangement);
  });
  return arrangements;
}

std::vector<StepCost> read_step_costs(const JsonFields& fields) {
  std::vector<StepCost> costs;
  fields.each("step_costs", [&](const JsonFields& item) {
    item.only({"rows", "ms"});
    const StepCost cost = {static_cast<int>(item.integer("rows", 1, kMostShapeRows)),
                           item.positive("ms", kMostMs)};
    if (!costs.empty() && cost.n_rows <= costs.back().n_rows) item.fail("rows", "must ascend");
    costs.push_back(cost);
  });
  return costs;
}

nlohmann::ordered_json to_json(const PromptAttention& attention) {
  nlohmann::ordered_json json = {{"form", attention_form_name(attention.form)},
                                 {"above", attention.above},
                                 {"share", attention.share},
                                 {"from", attention.from}};
  if (!attention.reason.empty()) json["reason"] = attention.reason;
  if (attention.n_buckets > 0) json["buckets"] = attention.n_buckets;
  if (attention.has_head_lanes()) {
    json["head_lanes"] = attention.head_lanes;
    json["head_step"] = head_stage_name(attention.head_stage);
  }
  if (!attention.head_scales.empty()) json["head_scales"] = attention.head_scales;
  if (attention.head_shares.empty()) return json;
  json["head_shares"] = nlohmann::ordered_json::array();
  constexpr double kDigits = 1e4;  // whoever makes shares makes them no finer
  for (const float share : attention.head_shares) {
    json["head_shares"].push_back(std::round(kDigits * double{share}) / kDigits);
  }
  return json;
}

// Reads which lanes run the parts of sparse attention, and the scales of the estimate.
void read_heads(const JsonFields& attention, int n_lanes, PromptAttention* read) {
  constexpr double kMostScale = 1e30;
  if (attention.has("buckets"))
    read->n_buckets = static_cast<int>(attention.integer("buckets", 1, 9));
  if (attention.has("head_lanes")) {
    read->head_lanes = attention.integers("head_lanes", 0, n_lanes - 1);
    read->head_stage = head_stage_from_name(attention.text("head_step"));
  }
  if (!attention.has("head_scales")) return;
  for (const double scale : attention.positives("head_scales", kMostScale)) {
    read->head_scales.push_back(static_cast<float>(scale));
  }
}

// Reads the plan's attention, which the rest of the plan must fit.
void read_attention(const JsonFields& fields, Plan* plan) {
  const JsonFields attention = fields.object("attention");
  attention.only({"form", "above", "share", "from", "reason", "buckets", "head_lanes", "head_step",
                  "head_scales", "head_shares"});
  try {
    plan->attention.form = attention_form_from_name(attention.text("form"));
    plan->attention.above =
        attention.has("above") ? attention.number("above", 0.0, PromptAttention::kMostAbove) : 0.0;
    plan->attention.share = attention.positive("share", 1.0);
    plan->attention.from = static_cast<int>(attention.integer("from", 0, model::kMostContext));
    if (attention.has("reason")) plan->attention.reason = attention.text("reason");
    if (attention.has("head_shares")) {
      for (const double share : attention.positives("head_shares", 1.0)) {
        plan->attention.head_shares.push_back(static_cast<float>(share));
      }
    }
    read_heads(attention, static_cast<int>(plan->lanes.size()), &plan->attention);
    check_attention(*plan);
  } catch (const UsageError& error) {
    fields.fail("attention", "is not understood: " + in_words_of_plan(error.what()));
  }
  if (plan->attention.goes_by_tile() && plan->reuse_granule % kAttentionTile != 0) {
    fields.fail("reuse_granule",
                fmt::format("must be a multiple of {}, which 'attention' computes together",
                            kAttentionTile));
  }
}

NpuPlan read_npu(const JsonFields& fields) {
  fields.only({"stage", "prune"});
  return {static_cast<NpuStage>(fields.one_of("stage", kNpuStages)),
          static_cast<int>(fields.integer("prune", 0, 100))};
}

nlohmann::ordered_json to_json(const HeadPlan& heads) {
  return {{"estimate", heads.estimate_lane},
          {"select", heads.select_lane},
          {"step", head_stage_name(heads.stage)},
          {"buckets", heads.n_buckets},
          {"block", heads.block},
          {"share", heads.share},
          {"equal_shares", heads.has_equal_shares}};
}

HeadPlan read_heads_of_phone(const JsonFields& fields, int n_lanes) {
  fields.only({"estimate", "select", "step", "buckets", "block", "share", "equal_shares"});
  HeadPlan heads;
  heads.estimate_lane = static_cast<int>(fields.integer("estimate", 0, n_lanes - 1));
  heads.select_lane = static_cast<int>(fields.integer("select", 0, n_lanes - 1));
  try {
    heads.stage = head_stage_from_name(fields.text("step"));
  } catch (const UsageError& error) {
    fields.fail("step", fmt::format("is not understood: {}", error.what()));
  }
  heads.n_buckets = static_cast<int>(fields.integer("buckets", 1, 9));
  if (heads.n_buckets % 4 != 1) fields.fail("buckets", "must be 1, 5 or 9");
  heads.block = static_cast<int>(fields.integer("block", 1, HeadPlan::kMostBlock));
  heads.share = fields.positive("share", 1.0);
  heads.has_equal_shares = fields.flag("equal_shares");
  return heads;
}

// Reads how neurons are streamed, which the rest of the plan must fit.
void read_neurons_here(const JsonFields& fields, Plan* plan) {
  plan->streamed_neurons = read_streamed_neurons(fields.object("streamed_neurons"));
  try {
    check_streamed_neurons(*plan);
    check_bundle_reads(*plan);
  } catch (const UsageError& error) {
    fields.fail("streamed_neurons", fmt::format("contradicts itself: {}", error.what()));
  }
}

// Reads the order of chunks. A file may leave all of it out, and chunks then go as Plan's defaults
// say.
void read_order(const JsonFields& fields, Plan* plan) {
  if (fields.has("order")) {
    try {
      plan->order = order_from_name(fields.text("order"));
    } catch (const UsageError& error) {
      fields.fail("order", fmt::format("is not understood: {}", error.what()));
    }
  }
  if (fields.has("handover")) {
    try {
      plan->handover = handover_from_name(fields.text("handover"));
    } catch (const UsageError& error) {
      fields.fail("handover", fmt::format("is not understood: {}", error.what()));
    }
  }
  if (fields.has("chunks_in_flight")) {
    plan->chunks_in_flight =
        static_cast<int>(fields.integer("chunks_in_flight", 1, kMostChunksInFlight));
  }
  if (fields.has("cut_at_norms")) plan->splits.at_norms = fields.flag("cut_at_norms");
  if (fields.has("cut_at_activations")) {
    plan->splits.at_activations = fields.flag("cut_at_activations");
  }
}

nlohmann::ordered_json to_json(const PlannedLane& lane) {
  nlohmann::ordered_json json = {{"kind", lane.kind}};
  if (lane.kind == "host") {
    json["threads"] = lane.n_threads;
    json["cores"] = lane.cores;
  }
  if (lane.is_device()) {
    json["device"] = lane.device;
    json["cores"] = lane.cores;
  }
  if (lane.memory_limit != PlannedLane::kNoLimit) json["memory_limit"] = lane.memory_limit;
  if (lane.is_capped()) json["busy_percent"] = lane.busy_percent;
  return json;
}

nlohmann::ordered_json to_json(const Placement& rule) {
  nlohmann::ordered_json json = {
      {"subgraph", rule.subgraph}, {"least_tokens", rule.least_tokens}, {"lane", rule.lane}};
  if (rule.n_blocks != Placement::kAllBlocks) json["blocks"] = rule.n_blocks;
  if (rule.mixes_classes) json["mixes_classes"] = true;
  if (rule.phase) json["phase"] = phase_name(*rule.phase);
  return json;
}

nlohmann::ordered_json to_json(const ProductArrangement& arrangement) {
  return {{"lane", arrangement.lane},
          {"n_rows", arrangement.n_rows},
          {"k", arrangement.k},
          {"phase", phase_name(arrangement.shape.phase)},
          {"n_tokens", arrangement.shape.n_rows},
          {"arrangement", arrangement.arrangement}};
}

nlohmann::ordered_json to_json(const StepCost& cost) {
  return {{"rows", cost.n_rows}, {"ms", cost.ms}};
}

template <typename Item>
nlohmann::ordered_json list_of(const std::vector<Item>& items) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const Item& item : items) list.push_back(to_json(item));
  return list;
}

}  // namespace

std::string to_json(const PlanFile& file) {
  nlohmann::ordered_json json;
  json["version"] = kPlanVersion;
  json["made_for"] = {{"model", file.made_for.model},
                      {"model_bytes", file.made_for.model_bytes},
                      {"model_hash", file.made_for.model_hash},
                      {"machine", file.made_for.machine}};
  if (file.tuned) {
    json["tuned"] = {{"when", file.tuned->when},
                     {"program", file.tuned->program},
                     {"model_key", file.tuned->model_key}};
    if (!file.tuned->devices.empty()) json["tuned"]["devices"] = file.tuned->devices;
  }
  json["context"] = file.plan.context;
  json["activations"] = activations_name(file.plan.activations);
  json["prefill"] = prefill_name(file.plan.prefill);
  json["prefill_reason"] = file.plan.prefill_reason;
  json["packed_bytes"] = file.plan.packed_bytes;
  json["kv"] = tensor::type_name(file.plan.kv_type);
  json["lanes"] = list_of(file.plan.lanes);
  json["step_shapes"] = file.plan.step_shapes;
  json["prompt_shapes"] = file.plan.prompt_shapes;
  json["output_shapes"] = file.plan.output_shapes;
  json["short_rest"] = file.plan.short_rest;
  json["reuse_granule"] = file.plan.reuse_granule;
  json["order"] = order_name(file.plan.order);
  if (file.plan.handover != HandoverKind::kOrdinary) {
    json["handover"] = handover_name(file.plan.handover);
  }
  json["chunks_in_flight"] = file.plan.chunks_in_flight;
  json["cut_at_norms"] = file.plan.splits.at_norms;
  json["cut_at_activations"] = file.plan.splits.at_activations;
  json["placements"] = list_of(file.plan.placements);
  json["arrangements"] = list_of(file.plan.arrangements);
  write_cuts(file.plan, &json);
  if (!file.plan.step_costs.empty()) json["step_costs"] = list_of(file.plan.step_costs);
  if (file.plan.attention != PromptAttention()) json["attention"] = to_json(file.plan.attention);
  if (file.plan.ffn.is_by_neuron()) json["ffn"] = to_json(file.plan.ffn);
  if (file.plan.neurons) json["neurons"] = to_json(*file.plan.neurons);
  if (const std::optional<NpuPlan>& npu = file.plan.npu) {
    json["npu"] = {{"stage", kNpuStages[static_cast<size_t>(npu->stage)]}, {"prune", npu->prune}};
  }
  if (file.plan.heads) json["heads"] = to_json(*file.plan.heads);
  if (file.plan.changes_layouts) json["changes_layouts"] = true;
  if (file.plan.streamed_neurons) {
    json["streamed_neurons"] = to_json(*file.plan.streamed_neurons);
  }
  const Int8Plan& int8 = file.plan.int8;
  if (file.plan.prefill == Prefill::kInt8 || int8.is_calibrated()) json["int8"] = to_json(int8);
  return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

namespace {

// Refuses files of other versions, and fields that no plan has: whoever misspells one by hand would
// go on without it.
void check_version_and_fields(const JsonFields& fields) {
  if (const int64_t version = fields.integer("version", 0, INT32_MAX); version != kPlanVersion) {
    fields.fail("version", fmt::format("is {}, but this program reads version {}; make the plan "
                                       "again with 'troika plan'",
                                       version, kPlanVersion));
  }
  fields.only({"version",
               "made_for",
               "tuned",
               "context",
               "activations",
               "prefill",
               "prefill_reason",
               "packed_bytes",
               "kv",
               "lanes",
               "step_shapes",
               "prompt_shapes",
               "output_shapes",
               "short_rest",
               "reuse_granule",
               "order",
               "handover",
               "chunks_in_flight",
               "cut_at_norms",
               "cut_at_activations",
               "placements",
               "arrangements",
               "layouts",
               "cuts",
               "lengths",
               "step_costs",
               "attention",
               "ffn",
               "neurons",
               "npu",
               "heads",
               "changes_layouts",
               "streamed_neurons",
               "int8",
               "memory"});  // stands beside a plan that 'troika plan --explain --json' printed
}

}  // namespace

PlanFile plan_from_json(const std::string& text, const std::string& name) {
  const JsonFields fields = parse_plan(text, name);
  check_version_and_fields(fields);
  PlanFile file;
  const JsonFields made_for = fields.object("made_for");
  made_for.only({"model", "model_bytes", "model_hash", "machine"});
  file.made_for = {made_for.text("model"),
                   static_cast<uint64_t>(made_for.integer("model_bytes", 0, INT64_MAX)),
                   made_for.text("model_hash"), made_for.text("machine")};
  if (fields.has("tuned")) {
    const JsonFields tuned = fields.object("tuned");
    tuned.only({"when", "program", "model_key", "devices"});
    file.tuned = {tuned.text("when"), tuned.text("program"), tuned.text("model_key")};
    if (tuned.has("devices")) file.tuned->devices = tuned.text("devices");
  }
  Plan& plan = file.plan;
  plan.context = static_cast<int>(fields.integer("context", 1, model::kMostContext));
  try {
    plan.activations = activations_from_name(fields.text("activations"));
  } catch (const UsageError& error) {
    fields.fail("activations", fmt::format("is not understood: {}", error.what()));
  }
  try {
    plan.prefill = prefill_from_name(fields.text("prefill"));
  } catch (const UsageError& error) {
    fields.fail("prefill", fmt::format("is not understood: {}", error.what()));
  }
  if (fields.has("prefill_reason")) plan.prefill_reason = fields.text("prefill_reason");
  if (fields.has("packed_bytes")) {
    plan.packed_bytes = static_cast<uint64_t>(fields.integer("packed_bytes", 0, INT64_MAX));
  }
  const std::optional<tensor::Type> kv = tensor::type_from_name(fields.text("kv"));
  if (kv != tensor::Type::kF32 && kv != tensor::Type::kF16 && kv != tensor::Type::kQ8_0) {
    fields.fail("kv", "must be F32, F16 or Q8_0");
  }
  plan.kv_type = *kv;
  plan.lanes = read_lanes(fields);
  plan.step_shapes = read_shapes(fields, "step_shapes");
  plan.prompt_shapes = read_shapes(fields, "prompt_shapes");
  // A pass computes whole granules.
  plan.reuse_granule = static_cast<int>(fields.integer("reuse_granule", 1, plan.chunk()));
  if (fields.has("int8")) plan.int8 = read_int8(fields.object("int8"));
  plan.output_shapes = read_shapes(fields, "output_shapes");
  // One pass of a step computes a short rest.
  plan.short_rest = static_cast<int>(fields.integer("short_rest", 0, plan.most_step_rows()));
  read_order(fields, &plan);
  const int n_lanes = static_cast<int>(plan.lanes.size());
  plan.placements = read_placements(fields, n_lanes);
  plan.arrangements = read_arrangements(fields, n_lanes);
  read_cuts(fields, &plan);
  if (fields.has("step_costs")) plan.step_costs = read_step_costs(fields);
  if (fields.has("attention")) read_attention(fields, &plan);
  if (fields.has("ffn")) read_ffn(fields, &plan);
  if (fields.has("neurons")) plan.neurons = read_neurons(fields.object("neurons"));
  if (fields.has("npu")) plan.npu = read_npu(fields.object("npu"));
  if (fields.has("heads")) plan.heads = read_heads_of_phone(fields.object("heads"), n_lanes);
  if (fields.has("changes_layouts")) plan.changes_layouts = fields.flag("changes_layouts");
  if (fields.has("streamed_neurons")) read_neurons_here(fields, &plan);
  return file;
}

}  // namespace troika::plan
