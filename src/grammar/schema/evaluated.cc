// Finds what "unevaluatedProperties" and "unevaluatedItems" leave alone: members and elements that
// other schemas of the same value speak of, as far as these hold.
#include <algorithm>

#include "grammar/schema/schema_reader.h"

namespace troika::grammar::schema {

// Returns the schemas that this schema leads to and that hold, where all of these items do. A
// schema that holds only by chance is left out; it makes another way of the choice that leads to
// it.
SchemaReader::Choice SchemaReader::evaluated(const Json& schema, const Items& items) const {
  const auto holds = [&](const Json& part) {
    return items.count({document_.order(part), &part, true}) > 0;
  };
  const auto is_required = [&](const std::string& key) {
    return std::any_of(items.begin(), items.end(),
                       [&](const Item& item) { return requires_key(*item.schema, key); });
  };
  Choice all, open = {&schema};
  std::set<const Json*> seen;
  const auto follow_if_held = [&](const Json& part) {
    if (holds(part)) open.push_back(&part);
  };
  while (!open.empty()) {
    const Json& from = *open.back();
    open.pop_back();
    if (!from.is_object() || !seen.insert(&from).second) continue;
    pool_.count_step();
    if (&from != &schema) all.push_back(&from);
    for (const Json* target : document_.targets(from)) open.push_back(target);
    for (const char* const keyword : {"allOf", "anyOf", "oneOf"}) {
      if (!from.contains(keyword)) continue;
      for (const Json* part : list_of(from, keyword)) follow_if_held(*part);
    }
    if (from.contains("if")) {
      const Json& condition = from["if"];
      const bool is_true = condition.is_boolean() ? condition.get<bool>() : holds(condition);
      if (is_true) open.push_back(&condition);
      const char* const then = is_true ? "then" : "else";
      if (from.contains(then)) follow_if_held(from[then]);
    }
    for (const char* const keyword : {"dependentSchemas", "dependencies"}) {
      if (!from.contains(keyword)) continue;
      for (const auto& [key, value] : from[keyword].items()) {
        if (is_required(key)) follow_if_held(value);
      }
    }
  }
  return all;
}

// Returns the ways of "anyOf". Where it matters which of them hold, those that may hold together
// are ways too.
SchemaReader::Choice SchemaReader::any_of(const Json& schema) {
  const Choice list = list_of(schema, "anyOf");
  if (!document_.has_unevaluated()) return list;
  constexpr size_t kMostSets = 64;
  std::vector<Choice> sets = {{}};
  for (const Json* way : list) {
    for (size_t i = sets.size(); i > 0; --i) {
      Choice more = sets[i - 1];
      const auto is_disjoint = [&](const Json* other) { return are_disjoint(*way, *other, 0); };
      if (std::any_of(more.begin(), more.end(), is_disjoint)) continue;
      more.push_back(way);
      sets.push_back(std::move(more));
    }
    if (sets.size() > kMostSets) {
      document_.refuse(schema, "anyOf",
                       "so many ways that hold together are not supported where "
                       "unevaluatedProperties or unevaluatedItems are used");
    }
  }
  Choice ways;
  for (const Choice& set : sets) {
    if (set.empty()) continue;
    ways.push_back(set.size() == 1 ? set.front() : &group(false, set, schema));
  }
  return ways;
}

}  // namespace troika::grammar::schema
