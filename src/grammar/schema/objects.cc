// Makes expressions of objects: declared keys come in their order, and other keys behind them.
#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "grammar/schema/schema_reader.h"

namespace troika::grammar::schema {
namespace {

constexpr size_t kMostKinds = 32;  // of keys, by the patterns that they fit
constexpr size_t kMostWanted = 3;
constexpr uint64_t kMostStates = 50'000;

}  // namespace

// Returns the schema for the values of keys that no other keyword of this schema speaks about.
const Json* SchemaReader::additional(const Json& schema) {
  for (const char* const keyword : {"additionalProperties", "unevaluatedProperties"}) {
    if (schema.contains(keyword)) return &schema[keyword];
  }
  return nullptr;
}

// Returns the same, or null where another schema that was looked at before speaks of the key too.
template <typename SpeaksOf>
const Json* SchemaReader::additional(const Constraints& c, const Json& schema,
                                     const SpeaksOf& speaks_of) const {
  const Json* const other = additional(schema);
  const auto before = c.evaluated.find(&schema);
  if (schema.contains("additionalProperties") || before == c.evaluated.end()) return other;
  const auto is_evaluated = [&](const Json* one) {
    return additional(*one) != nullptr || speaks_of(*one);
  };
  const std::vector<const Json*>& all = before->second;
  count_compared(all.size());
  return std::any_of(all.begin(), all.end(), is_evaluated) ? nullptr : other;
}

// Returns what all schemas of an object say of the value of a key: what they declare for it, or ask
// of keys that they do not declare.
template <typename Declared>
Schemas SchemaReader::said_of(const Constraints& c, const Declared& declared) {
  Schemas schemas;
  for (const Json* schema : c.objects) {
    pool_.count_step();
    const Schemas known = declared(*schema);
    schemas.insert(known.begin(), known.end());
    if (!known.empty()) continue;
    const Json* const other =
        additional(c, *schema, [&](const Json& before) { return !declared(before).empty(); });
    if (other != nullptr) schemas.insert(&checked(*other));
  }
  return schemas;
}

Schemas SchemaReader::value_for(const Constraints& c, const std::string& key) {
  // Returns what the schema itself says about the key's values.
  const auto declared = [&](const Json& schema) {
    Schemas values;
    if (schema.contains("properties")) {
      const Json& properties = schema["properties"];
      count_compared(properties.size());
      const auto found = properties.find(key);
      if (found != properties.end()) values.insert(&checked(*found));
    }
    if (schema.contains("patternProperties")) {
      for (const auto& [regex, value] : schema["patternProperties"].items()) {
        if (!accepts(pattern(schema, "patternProperties", regex), key)) continue;
        values.insert(&checked(value));
      }
    }
    return values;
  };
  return said_of(c, declared);
}

// Returns the keys that are declared or required, each once and in their order.
std::vector<std::string> SchemaReader::declared_keys(const Constraints& c) const {
  std::vector<std::string> keys;
  std::set<std::string> known;
  const auto add = [&](const std::string& key) {
    pool_.count_step();
    if (known.insert(key).second) keys.push_back(key);
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
  return keys;
}

std::vector<SchemaReader::Wanted> SchemaReader::wanted(const Constraints& c) {
  if (c.wanted.size() > kMostWanted || (!c.wanted.empty() && c.max_properties) ||
      (!c.wanted.empty() && c.min_properties > 1)) {
    document_.refuse(*c.origin, "", "so many conditions for members are not supported");
  }
  std::vector<Wanted> wanted;
  for (const Json* of : c.wanted) {
    const auto pattern_of = [&](const Json& regex) {
      return pattern(*of, "patternProperties", regex.get<std::string>());
    };
    const Json* const value = &(*of)["value"];
    if (of->contains("pattern")) {
      wanted.push_back({pattern_of((*of)["pattern"]), value});
    } else if (of->contains("unlike")) {
      wanted.push_back({pool_.no(names_inside({&(*of)["unlike"]})), value});
    } else {
      std::vector<Expr> known;
      for (const Json& name : (*of)["names"]) {
        known.push_back(text_.spellings(name.get<std::string>()));
      }
      for (const Json& regex : (*of)["patterns"]) known.push_back(pattern_of(regex));
      wanted.push_back({pool_.no(pool_.any(known)), value});
    }
  }
  return wanted;
}

// Returns a declared member that is all of these wanted ones.
Expr SchemaReader::member(const Member& member, const std::vector<Wanted>& wanted,
                          WantedSet fitting) {
  Schemas value = member.value;
  for (size_t i = 0; i < wanted.size(); ++i) {
    if ((fitting >> i & 1) == 0) continue;
    if (!accepts(wanted[i].keys, member.key)) return Pool::kNone;
    value.insert(wanted[i].value);
  }
  return pool_.literal(text_.key(member.key) + ":", value_of(value));
}

// Divides keys by the patterns that they fit. Most patterns exclude each other, so there are few
// kinds of keys.
std::vector<SchemaReader::KeyKind> SchemaReader::kinds_of_keys(
    const Constraints& c, Expr keys, const std::vector<std::pair<std::string, Expr>>& patterns) {
  std::vector<KeyKind> kinds;
  if (keys != Pool::kNone) kinds.push_back({keys, {}});
  for (const auto& [regex, pattern] : patterns) {
    std::vector<KeyKind> divided;
    for (const KeyKind& kind : kinds) {
      for (const bool fits : {false, true}) {
        const Expr key = pool_.all({kind.key, fits ? pattern : pool_.no(pattern)});
        if (key == Pool::kNone) continue;
        divided.push_back({key, kind.fits});
        divided.back().fits.push_back(fits);
      }
    }
    kinds = std::move(divided);
    if (kinds.size() <= kMostKinds) continue;
    document_.refuse(*c.origin, "patternProperties",
                     "keys that fit so many combinations of patterns are not supported");
  }
  return kinds;
}

// Returns a key that is not declared, with its value, which is all of these wanted members. The
// value depends on which patterns the key fits, so there is an alternative for each set of
// patterns.
Expr SchemaReader::other_member(const Constraints& c, const std::vector<Member>& members,
                                const std::vector<Wanted>& wanted, WantedSet fitting) {
  std::vector<std::pair<std::string, Expr>> patterns;
  for (const Json* schema : c.objects) {
    if (!schema->contains("patternProperties")) continue;
    for (const auto& [regex, value] : (*schema)["patternProperties"].items()) {
      const auto is_same = [&, r = regex](const auto& p) { return p.first == r; };
      if (std::any_of(patterns.begin(), patterns.end(), is_same)) continue;
      patterns.emplace_back(regex, pattern(*schema, "patternProperties", regex));
    }
  }
  std::vector<Expr> keys = {text_.any_string()};
  Schemas of_wanted;
  for (size_t i = 0; i < wanted.size(); ++i) {
    if ((fitting >> i & 1) == 0) continue;
    keys.push_back(wanted[i].keys);
    of_wanted.insert(wanted[i].value);
  }
  if (!c.names.empty()) keys.push_back(names_inside(c.names));
  std::vector<Expr> declared;
  declared.reserve(members.size());
  for (const Member& m : members) declared.push_back(text_.spellings(m.key));
  if (!declared.empty()) keys.push_back(pool_.no(pool_.any(declared)));
  std::vector<Expr> ways;
  for (const auto& [key, kind] : kinds_of_keys(c, pool_.all(keys), patterns)) {
    Schemas value = of_wanted;
    const auto declared = [&, &kind = kind](const Json& schema) {
      Schemas values;
      for (size_t i = 0; i < patterns.size() && schema.contains("patternProperties"); ++i) {
        const Json& of = schema["patternProperties"];
        if (!kind[i] || !of.contains(patterns[i].first)) continue;
        values.insert(&checked(of[patterns[i].first]));
      }
      return values;
    };
    value.merge(said_of(c, declared));
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

// Returns what may follow the declared members where wanted ones are missing. `others` are members
// that are not declared, by the wanted ones that they are.
Expr SchemaReader::wanted_members(const std::vector<Expr>& others, WantedSet missing,
                                  bool is_first) {
  const Expr more = pool_.literal(",", others[0]);
  if (missing == 0) return pool_.star(more);
  std::vector<Expr> ways;
  for (WantedSet some = 1; some < others.size(); ++some) {
    if ((some & ~missing) != 0) continue;
    const Expr then = wanted_members(others, missing & ~some, false);
    const Expr taken = pool_.concat(others[some], then);
    ways.push_back(is_first ? taken : pool_.literal(",", taken));
  }
  if (!is_first) return pool_.concat(pool_.star(more), pool_.any(ways));
  ways.push_back(pool_.concat(others[0], wanted_members(others, missing, false)));
  return pool_.any(ways);
}

// Returns what may follow in front of a declared member, from what may follow behind it.
SchemaReader::Followers SchemaReader::with_member(const Member& declared,
                                                  const std::vector<Wanted>& wanted,
                                                  const Followers& then) {
  std::vector<Expr> with_key;
  for (WantedSet set = 0; set < then.size(); ++set) {
    with_key.push_back(member(declared, wanted, set));
  }
  Followers next(then.size());
  const size_t counted = then[0].size() - 1;
  for (WantedSet missing = 0; missing < then.size(); ++missing) {
    for (size_t n = 0; n <= counted; ++n) {
      std::vector<Expr> ways;
      for (WantedSet set = 0; set < then.size(); ++set) {
        if ((set & ~missing) != 0) continue;
        const Expr behind =
            pool_.concat(with_key[set], then[missing & ~set][std::min(n + 1, counted)]);
        ways.push_back(n > 0 ? pool_.literal(",", behind) : behind);
      }
      if (declared.is_required) {
        next[missing].push_back(pool_.any(ways));
        continue;
      }
      // Several ways lead here, so a rule is made, which is written once.
      ways.push_back(then[missing][n]);
      const Rule rule = pool_.add_rule("members");
      pool_.set_rule(rule, pool_.any(ways));
      next[missing].push_back(pool_.call(rule));
    }
  }
  return next;
}

Expr SchemaReader::object(const Constraints& c) {
  const std::vector<std::string> keys = declared_keys(c);
  // Members are counted only up to the number from which on more make no difference.
  const uint64_t counted = std::max<uint64_t>(
      1, std::max(c.min_properties, c.max_properties.value_or(0) + (c.max_properties ? 1 : 0)));
  if (counted > kMostStates / (keys.size() + 1)) {
    document_.refuse(*c.origin, "", "so many counted properties are not supported");
  }
  std::vector<Member> known;
  known.reserve(keys.size());
  for (const std::string& key : keys) {
    known.push_back({key, value_for(c, key), c.required_set.count(key) > 0});
  }
  if (!c.names.empty()) {
    const Expr names = names_inside(c.names);
    for (Member& m : known) {
      static const Json kNever = false;
      if (!accepts(names, m.key)) m.value = {&document_.made(kNever, *c.origin)};
    }
  }
  const std::vector<Wanted> of = wanted(c);
  const WantedSet n_sets = 1u << of.size();
  std::vector<Expr> others;
  for (WantedSet set = 0; set < n_sets; ++set) others.push_back(other_member(c, known, of, set));
  Followers then(n_sets);
  for (WantedSet missing = 0; missing < n_sets; ++missing) {
    for (uint64_t n = 0; n <= counted; ++n) {
      then[missing].push_back(missing == 0 ? other_members(others[0], c, n)
                                           : wanted_members(others, missing, n == 0));
    }
  }
  for (size_t i = known.size(); i > 0; --i) then = with_member(known[i - 1], of, then);
  return pool_.literal("{", pool_.concat(then[n_sets - 1][0], pool_.literal("}")));
}

}  // namespace troika::grammar::schema
