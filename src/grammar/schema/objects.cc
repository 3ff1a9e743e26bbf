// Makes expressions of objects: declared keys come in their order, and other keys behind them.
#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "grammar/schema/schema_reader.h"

namespace troika::grammar::schema {
namespace {

constexpr size_t kMostPatterns = 4;
constexpr uint64_t kMostStates = 50'000;

}  // namespace

// Returns the schema for the values of keys that no other keyword of this schema speaks about.
const Json* SchemaReader::additional(const Json& schema) {
  for (const char* const keyword : {"additionalProperties", "unevaluatedProperties"}) {
    if (schema.contains(keyword)) return &schema[keyword];
  }
  return nullptr;
}

Schemas SchemaReader::value_for(const Constraints& c, const std::string& key) {
  Schemas schemas;
  for (const Json* schema : c.objects) {
    bool is_known = false;
    if (schema->contains("properties")) {
      const Json& properties = (*schema)["properties"];
      count_compared(properties.size());
      const auto found = properties.find(key);
      is_known = found != properties.end();
      if (is_known) schemas.insert(&checked(*found));
    }
    if (schema->contains("patternProperties")) {
      for (const auto& [regex, value] : (*schema)["patternProperties"].items()) {
        if (!accepts(pattern(*schema, "patternProperties", regex), key)) continue;
        schemas.insert(&checked(value));
        is_known = true;
      }
    }
    const Json* const other = additional(*schema);
    if (!is_known && other != nullptr) schemas.insert(&checked(*other));
  }
  return schemas;
}

std::vector<SchemaReader::Member> SchemaReader::members(const Constraints& c) {
  std::vector<Member> members;
  std::set<std::string> known;
  const auto add = [&](const std::string& key) {
    if (!known.insert(key).second) return;
    members.push_back({key, value_for(c, key), c.required_set.count(key) > 0});
  };
  for (const Json* schema : c.objects) {
    for (const char* const keyword : {"properties", "patternProperties"}) {
      const bool is_object = !schema->contains(keyword) || (*schema)[keyword].is_object();
      if (!is_object) document_.refuse(*schema, keyword, "an object is expected");
    }
    if (!schema->contains("properties")) continue;
    for (const auto& [key, value] : (*schema)["properties"].items()) add(key);
  }
  for (const std::string& key : c.required) add(key);
  return members;
}

Expr SchemaReader::member(const Member& member) {
  const Expr value = value_of(member.value);
  return pool_.literal(text_.key(member.key) + ":", value);
}

// Returns a key that is not declared, with its value. The value depends on which patterns the key
// fits, so there is an alternative for each set of patterns.
Expr SchemaReader::other_member(const Constraints& c, const std::vector<Member>& members) {
  std::vector<std::pair<std::string, Expr>> patterns;
  for (const Json* schema : c.objects) {
    if (!schema->contains("patternProperties")) continue;
    for (const auto& [regex, value] : (*schema)["patternProperties"].items()) {
      const auto is_same = [&, r = regex](const auto& p) { return p.first == r; };
      if (std::any_of(patterns.begin(), patterns.end(), is_same)) continue;
      patterns.emplace_back(regex, pattern(*schema, "patternProperties", regex));
    }
  }
  if (patterns.size() > kMostPatterns) {
    document_.refuse(
        *c.origin, "patternProperties",
        fmt::format("more than {} patterns for the same keys are not supported", kMostPatterns));
  }
  std::vector<Expr> keys = {text_.any_string()};
  if (!c.names.empty()) keys.push_back(names_inside(c.names));
  std::vector<Expr> declared;
  declared.reserve(members.size());
  for (const Member& m : members) declared.push_back(text_.spellings(m.key));
  if (!declared.empty()) keys.push_back(pool_.no(pool_.any(declared)));
  std::vector<Expr> ways;
  for (uint32_t fitting = 0; fitting < 1u << patterns.size(); ++fitting) {
    std::vector<Expr> all = keys;
    all.reserve(keys.size() + patterns.size());
    for (size_t i = 0; i < patterns.size(); ++i) {
      const bool fits = (fitting >> i & 1) != 0;
      all.push_back(fits ? patterns[i].second : pool_.no(patterns[i].second));
    }
    const Expr key = pool_.all(all);
    if (key == Pool::kNone) continue;
    Schemas value;
    for (const Json* schema : c.objects) {
      bool is_known = false;
      for (size_t i = 0; i < patterns.size() && schema->contains("patternProperties"); ++i) {
        const Json& of = (*schema)["patternProperties"];
        if ((fitting >> i & 1) == 0 || !of.contains(patterns[i].first)) continue;
        value.insert(&checked(of[patterns[i].first]));
        is_known = true;
      }
      const Json* const other = additional(*schema);
      if (!is_known && other != nullptr) value.insert(&checked(*other));
    }
    const Expr written = value_of(value);
    ways.push_back(pool_.concat(text_.key(key), pool_.literal(":", written)));
  }
  return pool_.any(ways);
}

// Returns what may follow the declared members if `n_before` of them are there.
Expr SchemaReader::other_members(Expr member, const Constraints& c, uint64_t n_before) {
  const uint64_t least = c.min_properties > n_before ? c.min_properties - n_before : 0;
  if (c.max_properties && *c.max_properties < n_before + least) return Pool::kNone;
  const uint64_t most = c.max_properties ? *c.max_properties - n_before : 0;
  const Expr more = pool_.literal(",", member);
  const auto n_least = static_cast<int>(least), n_most = static_cast<int>(most);
  if (n_before > 0) return pool_.repeat(more, n_least, c.max_properties ? n_most : Pool::kMany);
  if (c.max_properties && most == 0) return Pool::kEmpty;
  const Expr behind =
      pool_.repeat(more, std::max(n_least - 1, 0), c.max_properties ? n_most - 1 : Pool::kMany);
  const Expr some = pool_.concat(member, behind);
  return least == 0 ? pool_.optional(some) : some;
}

Expr SchemaReader::object(const Constraints& c) {
  std::vector<Member> known = members(c);
  if (!c.names.empty()) {
    const Expr names = names_inside(c.names);
    for (Member& m : known) {
      static const Json kNever = false;
      if (!accepts(names, m.key)) m.value = {&document_.made(kNever, *c.origin)};
    }
  }
  // Members are counted only up to the number from which on more make no difference.
  const uint64_t counted = std::max<uint64_t>(
      1, std::max(c.min_properties, c.max_properties.value_or(0) + (c.max_properties ? 1 : 0)));
  if (counted * (known.size() + 1) > kMostStates) {
    document_.refuse(*c.origin, "", "so many counted properties are not supported");
  }
  const Expr other = other_member(c, known);
  std::vector<Expr> then;  // what may follow, by the number of members before
  for (uint64_t n = 0; n <= counted; ++n) then.push_back(other_members(other, c, n));
  for (size_t i = known.size(); i > 0; --i) {
    const Expr with_key = member(known[i - 1]);
    std::vector<Expr> next;
    for (uint64_t n = 0; n <= counted; ++n) {
      const Expr behind = pool_.concat(with_key, then[std::min(n + 1, counted)]);
      const Expr taken = n > 0 ? pool_.literal(",", behind) : behind;
      if (known[i - 1].is_required) {
        next.push_back(taken);
        continue;
      }
      // Two ways lead here, so a rule is made, which is written once.
      const Rule rule = pool_.add_rule("members");
      pool_.set_rule(rule, pool_.any({taken, then[n]}));
      next.push_back(pool_.call(rule));
    }
    then = next;
  }
  return pool_.literal("{", pool_.concat(then[0], pool_.literal("}")));
}

}  // namespace troika::grammar::schema
