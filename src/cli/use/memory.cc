#include "cli/use/memory.h"

#include <fmt/format.h>

#include <climits>
#include <nlohmann/json.hpp>

#include "base/bytes_text.h"
#include "base/system.h"
#include "cli/tune/layouts.h"
#include "cli/use/by_neuron.h"
#include "cli/use/streaming.h"
#include "solve/lane_memory.h"

namespace troika::cli {
namespace {

// Returns the slots that the ledger leaves, however many answers there are.
int64_t slots_of(const engine::Engine& engine) {
  return prepare::most_slots(engine.ledger(), prepare::kv_shape(engine.plan(), engine.blueprint()),
                             INT_MAX, available_memory_bytes());
}

}  // namespace

std::string memory_text(const engine::Engine& engine) {
  const plan::Ledger& ledger = engine.ledger();
  std::string text = "\nin memory\n";
  const auto add = [&](const char* name, size_t bytes) {
    text += fmt::format("  {:<26} {:>10}\n", name, bytes_text(bytes));
  };
  for (int i = 0; i < plan::kOwners; ++i) {
    const auto owner = static_cast<plan::Owner>(i);
    if (ledger.bytes(owner) > 0) add(plan::owner_name(owner), ledger.bytes(owner));
  }
  add("together", ledger.total_bytes());
  if (ledger.is_limited()) {
    add("limit", ledger.limit_bytes());
  } else {
    text += "  no limit: half of what is free bounds what is copied and cached\n";
  }
  return text + fmt::format(
                    "  keys and values are those of one context of {} tokens; there is "
                    "room for {} in all\n",
                    engine.plan().context, slots_of(engine));
}

nlohmann::ordered_json memory_json(const engine::Engine& engine) {
  if (engine.phone().machine != nullptr) return nullptr;
  const plan::Ledger& ledger = engine.ledger();
  nlohmann::ordered_json json;
  json["limit_bytes"] = ledger.is_limited() ? nlohmann::ordered_json(ledger.limit_bytes())
                                            : nlohmann::ordered_json(nullptr);
  for (int i = 0; i < plan::kOwners; ++i) {
    const auto owner = static_cast<plan::Owner>(i);
    json["owners"][plan::owner_key(owner)] = ledger.bytes(owner);
  }
  json["total_bytes"] = ledger.total_bytes();
  json["resident_bytes"] = resident_bytes();
  json["slots"] = slots_of(engine);
  return json;
}

void add_memory(const engine::Engine& engine, nlohmann::ordered_json* json) {
  (*json)["peak_bytes"] = peak_resident_bytes();
  (*json)["memory"] = memory_json(engine);
  (*json)["layouts"] = layouts_json(engine);
  (*json)["by_neuron"] = by_neuron_json(engine);
  (*json)["stream"] = streaming_json(engine);
}

std::string held_text(const engine::Engine& engine) {
  const plan::Plan& plan = engine.plan();
  const std::vector<size_t> held = solve::held_by_lanes(engine.blueprint(), engine.weights(), plan);
  std::string text;
  for (size_t i = 0; i < held.size(); ++i) {
    const uint64_t limit = plan.lanes[i].memory_limit;
    text += fmt::format(
        "{} holds {} of weights{}\n", engine.machine().lanes()[i]->info().name, bytes_text(held[i]),
        limit == plan::PlannedLane::kNoLimit ? ""
                                             : fmt::format(", and may hold {}", bytes_text(limit)));
  }
  return text;
}

}  // namespace troika::cli
