// Says what schemas of one value have to do with each other: which accept no value in common, and
// which follow from others. So most choices are made before they are written in all combinations.
#include <algorithm>

#include "base/error.h"
#include "grammar/schema/schema_reader.h"

namespace troika::grammar::schema {
namespace {

// Returns the values of "const" or "enum", or null if there are none.
const Json* named_values(const Json& schema) {
  const auto values = schema.find("enum");
  return values != schema.end() && values->is_array() ? &*values : nullptr;
}

bool names_values(const Json& schema) {
  return schema.contains("const") || named_values(schema) != nullptr;
}

template <typename Is>
bool every_named_value(const Json& schema, const Is& is) {
  if (schema.contains("const")) return is(schema["const"]);
  const Json& values = *named_values(schema);
  return std::all_of(values.begin(), values.end(), is);
}

const Json* member_of(const Json& schema, const char* keyword, const std::string& key) {
  const auto members = schema.find(keyword);
  if (members == schema.end() || !members->is_object()) return nullptr;
  const auto member = members->find(key);
  return member != members->end() ? &*member : nullptr;
}

bool is_closed(const Json& schema) {
  const auto other = schema.find("additionalProperties");
  return other != schema.end() && *other == false && !schema.contains("patternProperties");
}

// Returns what the schema asks of the value of a key, or null if that is nothing or hard to say.
const Json* value_of_key(const Json& schema, const std::string& key) {
  if (const Json* const declared = member_of(schema, "properties", key)) return declared;
  return is_closed(schema) ? &schema["additionalProperties"] : nullptr;
}

}  // namespace

const Json* SchemaReader::resolved(const Json& schema) const {
  const Json* at = &schema;
  for (int i = 0; i < kMostDepth && at->is_object() && at->size() == 1 && at->contains("$ref");
       ++i) {
    at = &document_.target(*at, "$ref");
  }
  return at;
}

uint8_t SchemaReader::possible_types(const Json& given, int depth) const {
  pool_.count_step();
  const Json& schema = *resolved(given);
  if (schema.is_boolean()) return schema.get<bool>() ? kEvery : 0;
  if (!schema.is_object() || depth > kMostDepth) return kEvery;
  // A schema that contains itself may have all types until its own are known.
  const auto [known, is_new] = types_.try_emplace(&schema, kEvery);
  return is_new ? types_[&schema] = types_of_keywords(schema, depth) : known->second;
}

uint8_t SchemaReader::types_of_keywords(const Json& schema, int depth) const {
  uint8_t types = kEvery;
  const auto add_ways = [&](const Choice& ways) {
    uint8_t of_ways = 0;
    for (const Json* way : ways) of_ways |= possible_types(*way, depth + 1);
    types &= of_ways;
  };
  if (const auto group = groups_.find(&schema); group != groups_.end()) {
    const auto& [is_any, of] = group->second;
    if (is_any) {
      add_ways(of);
    } else {
      for (const Json* part : of) types &= possible_types(*part, depth + 1);
    }
    return types;
  }
  if (schema.contains("type")) types &= types_of(schema, document_);
  if (names_values(schema)) {
    uint8_t of_values = 0;
    if (named_values(schema) != nullptr) count_compared(named_values(schema)->size());
    every_named_value(schema,
                      [&](const Json& value) { return (of_values |= type_of(value)) != 0; });
    types &= of_values;
  }
  for (const char* const keyword : {"anyOf", "oneOf"}) {
    if (schema.contains(keyword)) add_ways(list_of(schema, keyword));
  }
  return types;
}

// Returns true only where it is certain that no value fits both schemas.
bool SchemaReader::are_disjoint(const Json& a_given, const Json& b_given, int depth) {
  pool_.count_step();
  const Json &a = *resolved(a_given), &b = *resolved(b_given);
  if (depth > kMostDepth) return false;
  // A schema that contains itself asks for the same again; until it is known, nothing is certain.
  const std::pair<const Json*, const Json*> pair = std::minmax(&a, &b);
  const auto [known, is_new] = disjoint_.try_emplace(pair, false);
  if (!is_new) return known->second;
  const bool are = (possible_types(a, 0) & possible_types(b, 0)) == 0 ||
                   parts_are_disjoint(a, b, depth) || parts_are_disjoint(b, a, depth) ||
                   values_are_disjoint(a, b) || values_are_disjoint(b, a) ||
                   members_are_disjoint(a, b, depth) || members_are_disjoint(b, a, depth);
  return disjoint_[pair] = are;
}

// Looks for a part of the first schema that shares no value with the second, or for a choice of
// which no way does.
bool SchemaReader::parts_are_disjoint(const Json& a, const Json& b, int depth) {
  if (!a.is_object()) return false;
  const auto is_disjoint = [&](const Json* part) { return are_disjoint(*part, b, depth + 1); };
  if (const auto group = groups_.find(&a); group != groups_.end()) {
    const auto& [is_any, of] = group->second;
    return is_any ? std::all_of(of.begin(), of.end(), is_disjoint)
                  : std::any_of(of.begin(), of.end(), is_disjoint);
  }
  for (const char* const keyword : {"allOf", "anyOf", "oneOf"}) {
    if (!a.contains(keyword)) continue;
    const Choice of = list_of(a, keyword);
    const bool is_all = std::string_view(keyword) == "allOf";
    if (is_all ? std::any_of(of.begin(), of.end(), is_disjoint)
               : std::all_of(of.begin(), of.end(), is_disjoint)) {
      return true;
    }
  }
  return false;
}

// Looks for values that the first schema names, of which the second excludes each.
bool SchemaReader::values_are_disjoint(const Json& a, const Json& b) const {
  if (!a.is_object() || !b.is_object() || !names_values(a)) return false;
  const auto is_in = [&](const Json& list, const Json& value) {
    count_compared(list.size());
    return std::any_of(list.begin(), list.end(),
                       [&](const Json& other) { return is_same_counted(value, other); });
  };
  return every_named_value(a, [&](const Json& value) {
    if (b.contains("const") && !is_same_counted(value, b["const"])) return true;
    if (named_values(b) != nullptr && !is_in(*named_values(b), value)) return true;
    return b.contains(kNotValues) && is_in(b[kNotValues], value);
  });
}

bool SchemaReader::requires_key(const Json& schema, const std::string& key) const {
  const auto required = schema.find("required");
  if (required == schema.end() || !required->is_array()) return false;
  count_compared(required->size());
  return std::find(required->begin(), required->end(), key) != required->end();
}

// Says whether the schema forbids a key that it does not declare, because no pattern has it.
bool SchemaReader::has_no_place(const Json& schema, const std::string& key) {
  const auto other = schema.find("additionalProperties");
  const auto patterns = schema.find("patternProperties");
  if (other == schema.end() || *other != false || patterns == schema.end()) return false;
  try {
    for (const auto& [regex, value] : patterns->items()) {
      if (accepts(pattern(schema, "patternProperties", regex), key)) return false;
    }
  } catch (const TooMuchWork&) {
    throw;
  } catch (const Error&) {
    return false;  // a pattern that is not supported says nothing
  }
  return true;
}

// Looks for a member that the first schema wants in objects, and that the second does not allow.
bool SchemaReader::members_are_disjoint(const Json& a, const Json& b, int depth) {
  if (!a.is_object() || !b.is_object()) return false;
  if ((possible_types(a, 0) & possible_types(b, 0)) != kObject) return false;
  const auto required = a.find("required");
  if (required != a.end() && required->is_array()) {
    const size_t n_declared = b.contains("properties") ? b["properties"].size() : 0;
    count_compared(required->size() * (1 + n_declared));
    for (const Json& name : *required) {
      if (!name.is_string()) continue;
      const auto key = name.get<std::string>();
      const Json* const in_b = value_of_key(b, key);
      if (in_b == nullptr && has_no_place(b, key)) return true;
      if (in_b == nullptr) continue;
      if (possible_types(*in_b, 0) == 0) return true;
      const Json* const in_a = member_of(a, "properties", key);
      if (in_a != nullptr && are_disjoint(*in_a, *in_b, depth + 1)) return true;
    }
  }
  if (!a.contains(kWanted) || !a[kWanted].contains("names") || !is_closed(b)) return false;
  const Json& names = a[kWanted]["names"];
  if (!b.contains("properties")) return true;
  count_compared(names.size() * b["properties"].size());
  const auto items = b["properties"].items();
  return std::all_of(items.begin(), items.end(), [&](const auto& item) {
    return std::find(names.begin(), names.end(), item.key()) != names.end();
  });
}

// Returns the schemas that hold together, with those that they lead to without a choice.
SchemaReader::Choice SchemaReader::flattened(const Choice& facts) const {
  Choice all, open = facts;
  std::set<const Json*> seen;
  while (!open.empty()) {
    const Json& schema = *resolved(*open.back());
    open.pop_back();
    pool_.count_step();
    if (!seen.insert(&schema).second) continue;
    if (const auto group = groups_.find(&schema); group != groups_.end()) {
      const auto& [is_any, of] = group->second;
      if (!is_any) open.insert(open.end(), of.begin(), of.end());
      continue;
    }
    all.push_back(&schema);
    if (!schema.is_object() || !schema.contains("allOf")) continue;
    for (const Json* part : list_of(schema, "allOf")) open.push_back(part);
  }
  return all;
}

// Returns true only where it is certain that every value which fits all of the facts fits this
// schema too, a negation's.
bool SchemaReader::follows(const Json& given, const Choice& facts, int depth) const {
  pool_.count_step();
  const Json& schema = *resolved(given);
  if (schema.is_boolean()) return schema.get<bool>();
  constexpr int kMostDeep = 4;  // looking further would take more work than it saves
  if (depth > kMostDeep || !schema.is_object()) return false;
  const auto from_facts = [&](const Json* part) { return follows(*part, facts, depth + 1); };
  if (const auto group = groups_.find(&schema); group != groups_.end()) {
    const auto& [is_any, of] = group->second;
    return is_any ? std::any_of(of.begin(), of.end(), from_facts)
                  : std::all_of(of.begin(), of.end(), from_facts);
  }
  if (!document_.is_made(schema)) return false;
  if (std::find(facts.begin(), facts.end(), &schema) != facts.end()) return true;
  uint8_t types = kEvery;
  for (const Json* fact : facts) types &= possible_types(*fact, 0);
  const auto items = schema.items();
  return std::all_of(items.begin(), items.end(), [&](const auto& item) {
    return keyword_follows(item.key(), schema, types, facts, depth);
  });
}

// Says whether one of the facts names values, and not this one.
bool SchemaReader::excludes(const Choice& facts, const Json& value) const {
  return std::any_of(facts.begin(), facts.end(), [&](const Json* fact) {
    if (!fact->is_object() || !names_values(*fact)) return false;
    if (named_values(*fact) != nullptr) count_compared(named_values(*fact)->size());
    return every_named_value(*fact,
                             [&](const Json& other) { return !is_same_counted(value, other); });
  });
}

bool SchemaReader::keyword_follows(const std::string& keyword, const Json& schema, uint8_t types,
                                   const Choice& facts, int depth) const {
  const Json& value = schema[keyword];
  const auto values_of = [&](const std::string& key) {
    Choice values;
    for (const Json* fact : facts) {
      const Json* const of_key = fact->is_object() ? value_of_key(*fact, key) : nullptr;
      if (of_key != nullptr) values.push_back(of_key);
    }
    return flattened(values);
  };
  const auto is_required = [&](const Json& key) {
    return key.is_string() && std::any_of(facts.begin(), facts.end(), [&](const Json* fact) {
             return fact->is_object() && requires_key(*fact, key.get<std::string>());
           });
  };
  if (keyword == "type") return (types & ~types_of(schema, document_)) == 0;
  if (keyword == "required") {
    return types == kObject && std::all_of(value.begin(), value.end(), is_required);
  }
  if (keyword == kNotValues) {
    // No fact may allow one of these values.
    return std::all_of(value.begin(), value.end(), [&](const Json& no) {
      return (type_of(no) & types) == 0 || excludes(facts, no);
    });
  }
  if (keyword == kWanted && value.contains("names") && value["patterns"].empty()) {
    const Json& names = value["names"];
    const auto is_it = [&](const Json& key) {
      count_compared(names.size());
      return key.is_string() && std::find(names.begin(), names.end(), key) == names.end() &&
             follows(value["value"], values_of(key.get<std::string>()), depth + 1);
    };
    return std::any_of(facts.begin(), facts.end(), [&](const Json* fact) {
      const bool has_keys = fact->is_object() && fact->contains("required");
      return has_keys && std::any_of((*fact)["required"].begin(), (*fact)["required"].end(), is_it);
    });
  }
  if (keyword == "properties") {
    const auto members = value.items();
    return std::all_of(members.begin(), members.end(), [&](const auto& member) {
      const Choice values = values_of(member.key());
      const auto is_never = [&](const Json* v) { return possible_types(*v, 0) == 0; };
      return std::any_of(values.begin(), values.end(), is_never) ||
             follows(member.value(), values, depth + 1);
    });
  }
  return false;
}

// Drops ways that contradict what holds anyway, and choices of which a way does. Returns false if a
// choice has no way left.
bool SchemaReader::narrow(const Items& items, std::vector<Choice>* choices) {
  Choice facts;
  for (const Item& item : items) {
    if (item.is_bare) facts.push_back(item.schema);
  }
  std::vector<Choice> narrowed;
  for (const Choice& choice : *choices) {
    const auto holds = [&](const Json* way) { return follows(*way, facts, 0); };
    if (!document_.has_unevaluated() && std::any_of(choice.begin(), choice.end(), holds)) continue;
    Choice kept;
    for (const Json* way : choice) {
      const auto contradicts = [&](const Json* fact) { return are_disjoint(*way, *fact, 0); };
      if (std::none_of(facts.begin(), facts.end(), contradicts)) kept.push_back(way);
    }
    if (kept.empty()) return false;
    count_compared(narrowed.size() * kept.size());
    if (std::find(narrowed.begin(), narrowed.end(), kept) == narrowed.end()) {
      narrowed.push_back(std::move(kept));
    }
  }
  *choices = std::move(narrowed);
  return true;
}

}  // namespace troika::grammar::schema
