#include "plan/cuts/cuts_json.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace troika::plan {
namespace {

nlohmann::ordered_json to_json(const Shares& shares) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const LaneShare& share : shares) list.push_back({{"lane", share.lane}, {"n", share.n}});
  return list;
}

nlohmann::ordered_json to_json(const TensorCut& cut) {
  nlohmann::ordered_json json = {{"subgraph", cut.subgraph}, {"op", cut.op}};
  json["least_tokens"] = cut.least_tokens;
  if (cut.most_tokens != TensorCut::kAnyTokens) json["most_tokens"] = cut.most_tokens;
  if (cut.phase) json["phase"] = phase_name(*cut.phase);
  if (!cut.rows.empty()) json["rows"] = to_json(cut.rows);
  if (!cut.tokens.empty()) json["tokens"] = to_json(cut.tokens);
  if (!cut.heads.empty()) json["heads"] = to_json(cut.heads);
  if (cut.mixes_classes) json["mixes_classes"] = true;
  return json;
}

// Does not check whether the numbers make sense: all shares are checked together later.
Shares read_shares(const JsonFields& fields, const char* key) {
  Shares shares;
  if (!fields.has(key)) return shares;
  fields.each(key, [&](const JsonFields& item) {
    item.only({"lane", "n"});
    shares.push_back({static_cast<int>(item.integer("lane", 0, INT_MAX)),
                      static_cast<int>(item.integer("n", 1, kMostSharedRows))});
  });
  return shares;
}

void check(const JsonFields& fields, const std::optional<CutProblem>& problem) {
  if (problem) fields.fail(problem->field, problem->what);
}

TensorCut read_cut(const JsonFields& fields, size_t n_lanes) {
  fields.only({"subgraph", "op", "least_tokens", "most_tokens", "phase", "rows", "tokens", "heads",
               "mixes_classes"});
  TensorCut cut;
  cut.subgraph = fields.text("subgraph");
  if (fields.has("op")) cut.op = fields.text("op");
  if (fields.has("least_tokens")) {
    cut.least_tokens = static_cast<int>(fields.integer("least_tokens", 0, kMostSharedTokens));
  }
  if (fields.has("most_tokens")) {
    cut.most_tokens = static_cast<int>(fields.integer("most_tokens", 0, kMostSharedTokens));
  }
  if (fields.has("phase")) cut.phase = static_cast<Phase>(fields.one_of("phase", kPhaseNames));
  cut.rows = read_shares(fields, "rows");
  cut.tokens = read_shares(fields, "tokens");
  cut.heads = read_shares(fields, "heads");
  if (fields.has("mixes_classes")) cut.mixes_classes = fields.flag("mixes_classes");
  check(fields, problem_of(cut, n_lanes));
  return cut;
}

}  // namespace

void write_cuts(const Plan& plan, nlohmann::ordered_json* json) {
  for (const TensorCut& cut : plan.cuts) (*json)["cuts"].push_back(to_json(cut));
  for (const LengthCut& length : plan.lengths) {
    (*json)["lengths"].push_back(
        {{"n_tokens", length.n_tokens}, {"parts", to_json(length.tokens)}});
  }
}

void read_cuts(const JsonFields& fields, Plan* plan) {
  const size_t n_lanes = plan->lanes.size();
  if (fields.has("cuts")) {
    fields.each("cuts", kMostRules,
                [&](const JsonFields& item) { plan->cuts.push_back(read_cut(item, n_lanes)); });
  }
  if (!fields.has("lengths")) return;
  fields.each("lengths", [&](const JsonFields& item) {
    item.only({"n_tokens", "parts"});
    const LengthCut length = {static_cast<int>(item.integer("n_tokens", 1, kMostSharedTokens)),
                              read_shares(item, "parts")};
    check(item, problem_of(length, n_lanes));
    if (!plan->lengths.empty() && length.n_tokens <= plan->lengths.back().n_tokens) {
      item.fail("n_tokens", "must ascend");
    }
    if (plan->lengths.size() == kMostShapes) {
      fields.fail("lengths", fmt::format("holds more than {} lengths", kMostShapes));
    }
    plan->lengths.push_back(length);
  });
}

}  // namespace troika::plan
