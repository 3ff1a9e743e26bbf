#include "grammar/schema/schema_reader.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "grammar/readers.h"

namespace troika::grammar::schema {

SchemaReader::SchemaReader(std::string_view text, const Limits& limits, bool formats_bind,
                           const std::optional<TextMarks>& marks, Pool* pool)
    : document_(text, limits, pool),
      limits_(limits),
      formats_bind_(formats_bind),
      pool_(*pool),
      text_(pool, marks) {}

Expr SchemaReader::read() { return value_of(Schemas{&document_.root()}); }

Expr SchemaReader::value_of(const Schemas& schemas) {
  Items items;
  for (const Json* schema : schemas) items.insert(item_of(*schema));
  return value_of(items);
}

// Returns the values of these schemas, as a rule. Schemas that were read before give the same rule
// again, so schemas may contain themselves.
Expr SchemaReader::value_of(const Items& items) {
  count_compared(items.size());
  const auto found = done_.find(items);
  if (found != done_.end()) return found->second;
  if (++n_nested_ > limits_.n_nested) {
    document_.refuse(first_of(items), "", "schemas are nested too deeply");
  }
  if (done_.size() >= limits_.n_schemas) refuse_so_many_ways(items);
  const Rule rule = pool_.add_rule("schema");
  done_[items] = pool_.call(rule);
  const Expr body = written(items);
  pool_.set_rule(rule, body);
  if (!pool_.calls_rules(body)) done_[items] = body;
  --n_nested_;
  return done_[items];
}

const Json& SchemaReader::first_of(const Items& items) const {
  return items.empty() ? document_.root() : *items.begin()->schema;
}

void SchemaReader::refuse_so_many_ways(const Items& items) const {
  document_.refuse(first_of(items), "",
                   "there are too many ways to choose among what oneOf, anyOf, if and not ask "
                   "together; say anyOf in place of oneOf, or choose in fewer places");
}

const Json& SchemaReader::checked(const Json& schema) const {
  if (!schema.is_object() && !schema.is_boolean()) {
    document_.refuse(schema, "", "a schema is expected here: an object, true or false");
  }
  return schema;
}

SchemaReader::Choice SchemaReader::list_of(const Json& schema, const char* keyword) const {
  Choice list;
  const Json& value = schema[keyword];
  if (!value.is_array() || value.empty()) {
    document_.refuse(schema, keyword, "a list of schemas is expected");
  }
  count_compared(value.size());
  for (const Json& part : value) list.push_back(&checked(part));
  return list;
}

// Makes all items bare: adds the schemas that they lead to as items, and collects the choices that
// are to be made. Returns false if one of the schemas is `false`.
bool SchemaReader::open_up(Items* items, std::vector<Choice>* choices) {
  std::vector<const Json*> open;
  for (const Item& item : *items) {
    if (!item.is_bare) open.push_back(item.schema);
  }
  std::erase_if(*items, [](const Item& item) { return !item.is_bare; });
  std::set<const Json*> seen;
  while (!open.empty()) {
    const Json& schema = checked(*open.back());
    open.pop_back();
    if (schema.is_boolean()) {
      if (!schema.get<bool>()) return false;
      continue;
    }
    if (!seen.insert(&schema).second) continue;
    if (const auto known = groups_.find(&schema); known != groups_.end()) {
      const auto& [is_any, of] = known->second;
      if (is_any) {
        choices->push_back(of);
      } else {
        open.insert(open.end(), of.begin(), of.end());
      }
      continue;
    }
    if (!items->insert({document_.order(schema), &schema, true}).second) continue;
    for (const Json* target : document_.targets(schema)) open.push_back(target);
    if (schema.contains("allOf")) {
      for (const Json* part : list_of(schema, "allOf")) open.push_back(part);
    }
    if (schema.contains("not")) open.push_back(&negated(checked(schema["not"]), schema, 0));
    add_choices(schema, choices);
  }
  return true;
}

// Says whether the schema leads to itself for the same value, through references, choices or
// conditions. They are followed in a list: a text may have any number of them behind each other.
bool SchemaReader::leads_to_itself(const Json& schema) const {
  std::set<const Json*> seen;
  std::vector<const Json*> open = {&schema};
  const auto follow = [&](const Json& next) { open.push_back(&next); };
  while (!open.empty()) {
    const Json& from = *open.back();
    open.pop_back();
    if (!from.is_object()) continue;
    if (!seen.insert(&from).second) {
      if (&from == &schema) return true;
      continue;
    }
    pool_.count_step();
    for (const Json* target : document_.targets(from)) follow(*target);
    for (const char* const keyword :
         {"allOf", "anyOf", "oneOf", "dependentSchemas", "dependencies"}) {
      const auto found = from.find(keyword);
      if (found != from.end()) std::for_each(found->begin(), found->end(), follow);
    }
    for (const char* const keyword : {"not", "if", "then", "else"}) {
      const auto found = from.find(keyword);
      if (found != from.end()) follow(*found);
    }
  }
  return false;
}

void SchemaReader::add_choices(const Json& schema, std::vector<Choice>* choices) {
  const auto [known, is_new] = choices_.try_emplace(&schema);
  if (!is_new) {
    choices->insert(choices->end(), known->second.begin(), known->second.end());
    return;
  }
  std::vector<Choice> own;
  if (schema.contains("anyOf")) own.push_back(any_of(schema));
  if (schema.contains("oneOf")) own.push_back(one_of(schema));
  add_condition(schema, &own);
  add_dependencies(schema, &own);
  if (!own.empty() && leads_to_itself(schema)) {
    document_.refuse(schema, "", "its choices lead back to itself for the same value");
  }
  choices_[&schema] = own;
  choices->insert(choices->end(), own.begin(), own.end());
}

// Returns the ways of "oneOf". Each way is combined with the negations of those others that may
// accept a value of it too.
SchemaReader::Choice SchemaReader::one_of(const Json& schema) {
  const Choice list = list_of(schema, "oneOf");
  Choice ways;
  for (size_t i = 0; i < list.size(); ++i) {
    Choice all = {list[i]};
    for (size_t j = 0; j < list.size(); ++j) {
      if (i == j || are_disjoint(*list[i], *list[j], 0)) continue;
      try {
        all.push_back(&negated(*list[j], *list[j], 0));
      } catch (const TooMuchWork&) {
        throw;
      } catch (const Error&) {
        document_.refuse(schema, "oneOf",
                         fmt::format("a value could fit both /{} and /{}; say anyOf if that is "
                                     "meant, or give them different types or constants",
                                     std::min(i, j), std::max(i, j)));
      }
    }
    ways.push_back(all.size() == 1 ? list[i] : &group(false, all, schema));
  }
  return ways;
}

// Returns a schema that stands for several schemas: for any of them, or for all of them together.
const Json& SchemaReader::group(bool is_any, const Choice& of, const Json& from) {
  count_compared(of.size());
  const Json*& known = group_of_[{is_any, of}];
  if (known == nullptr) {
    known = &document_.made(Json::object(), from);
    groups_[known] = {is_any, of};
  }
  return *known;
}

// Adds a choice: the value fits "if" and "then", or it does not fit "if" but fits "else".
void SchemaReader::add_condition(const Json& schema, std::vector<Choice>* choices) {
  if (!schema.contains("if")) return;
  const Json& condition = checked(schema["if"]);
  if (!schema.contains("then") && !schema.contains("else")) {
    // All that matters is what the condition has looked at, if it holds.
    if (!document_.has_unevaluated()) return;
    choices->push_back({&condition, &document_.made(true, schema)});
    return;
  }
  Choice yes = {&condition}, no = {&negated(condition, schema, 0)};
  if (schema.contains("then")) yes.push_back(&checked(schema["then"]));
  if (schema.contains("else")) no.push_back(&checked(schema["else"]));
  choices->push_back({&group(false, yes, schema), &group(false, no, schema)});
}

// Adds a choice for each key that others depend on: it is absent, or what depends on it holds.
// Before 2019-09 one keyword, "dependencies", had lists of keys and schemas.
void SchemaReader::add_dependencies(const Json& schema, std::vector<Choice>* choices) {
  for (const char* const keyword : {"dependentRequired", "dependentSchemas", "dependencies"}) {
    const auto found = schema.find(keyword);
    if (found == schema.end()) continue;
    if (!found->is_object()) document_.refuse(schema, keyword, "an object is expected");
    const bool may_be_schemas = std::string_view(keyword) != "dependentRequired";
    const bool may_be_keys = std::string_view(keyword) != "dependentSchemas";
    for (const auto& [key, value] : found->items()) {
      const bool are_keys = may_be_keys && (value.is_array() || !may_be_schemas);
      const Json& absent = document_.made({{"properties", {{key, false}}}}, schema);
      Json keys = Json::array({key});
      if (are_keys) {
        if (!value.is_array()) document_.refuse(schema, keyword, "lists of keys are expected");
        keys.insert(keys.end(), value.begin(), value.end());
      }
      // Other values than objects have no keys, and are left to the other way.
      Choice present = {&document_.made({{"type", "object"}, {"required", keys}}, schema)};
      if (!are_keys) present.push_back(&checked(value));
      choices->push_back({&absent, &group(false, present, schema)});
    }
  }
}

// Opens up the items and makes all choices that have one way left, again and again. Returns false
// if no value fits.
bool SchemaReader::decide(Items* items, std::vector<Choice>* choices) {
  for (bool is_open = true; is_open;) {
    if (!open_up(items, choices) || !narrow(*items, choices)) return false;
    is_open = false;
    for (const Choice& choice : *choices) {
      if (choice.size() == 1) is_open |= items->insert(item_of(*choice.front())).second;
    }
    std::erase_if(*choices, [](const Choice& choice) { return choice.size() == 1; });
  }
  return true;
}

Expr SchemaReader::written(Items items) {
  std::vector<Choice> choices;
  if (!decide(&items, &choices)) return Pool::kNone;
  for (size_t i = 0; i < items.size(); ++i) pool_.count_step();
  if (choices.empty()) {
    Constraints c;
    c.origin = &first_of(items);
    for (const Item& item : items) {
      add_item(item, &c);
      const Json& schema = *item.schema;
      if (!schema.contains("unevaluatedProperties") && !schema.contains("unevaluatedItems"))
        continue;
      c.evaluated[&schema] = evaluated(schema, items);
    }
    return plain(c);
  }
  if (++n_choices_ > limits_.n_choices) refuse_so_many_ways(items);
  // One choice is made at a time: the others go on as items and are made later. The one with the
  // fewest ways comes first, because each may decide others.
  const auto is_smaller = [](const Choice& a, const Choice& b) { return a.size() < b.size(); };
  std::iter_swap(choices.begin(), std::min_element(choices.begin(), choices.end(), is_smaller));
  for (size_t i = 1; i < choices.size(); ++i) {
    items.insert(item_of(group(true, choices[i], *choices[i].front())));
  }
  std::vector<Expr> ways;
  for (const Json* way : choices.front()) {
    Items with = items;
    with.insert(item_of(*way));
    ways.push_back(value_of(with));
  }
  return pool_.any(ways);
}

void SchemaReader::add_item(const Item& item, Constraints* c) const {
  add_keywords(
      *item.schema, document_, [this](size_t n) { count_compared(n); }, c);
}

bool SchemaReader::is_same_counted(const Json& a, const Json& b) const {
  return is_same(a, b, [this](size_t n) { count_compared(n); });
}

// Counts as steps that so many values, keys or bytes are compared, or so many pointers copied.
void SchemaReader::count_compared(size_t n) const {
  constexpr size_t kInAStep = 16;
  for (size_t i = 0; i < n; i += kInAStep) pool_.count_step();
}

Expr SchemaReader::plain(const Constraints& c) {
  if (c.values) return one_of_values(c);
  std::vector<Expr> ways;
  if ((c.types & kNull) != 0) ways.push_back(pool_.literal("null"));
  for (const bool value : {true, false}) {
    const auto is_out = [&](const Json* other) { return *other == value; };
    if ((c.types & kBoolean) == 0) continue;
    if (std::any_of(c.not_values.begin(), c.not_values.end(), is_out)) continue;
    ways.push_back(pool_.literal(value ? "true" : "false"));
  }
  for (const Json* const value : c.not_values) {
    const uint8_t type = type_of(*value);
    if ((type & c.types & (kArray | kObject)) != 0) {
      document_.refuse(*c.origin, "not",
                       "arrays and objects that are named are not supported here");
    }
  }
  ways.push_back(text_.number(c, document_));
  if ((c.types & kString) != 0) ways.push_back(text_.quoted(string_inside(c)));
  if ((c.types & kArray) != 0) ways.push_back(array(c));
  if ((c.types & kObject) != 0) ways.push_back(object(c));
  return pool_.any(ways);
}

}  // namespace troika::grammar::schema

namespace troika::grammar {

Expr read_json_schema(std::string_view text, const Limits& limits, bool formats_bind, Pool* pool) {
  return schema::SchemaReader(text, limits, formats_bind, std::nullopt, pool).read();
}

Expr read_marked_schema(std::string_view text, const TextMarks& marks, const Limits& limits,
                        Pool* pool) {
  return schema::SchemaReader(text, limits, true, marks, pool).read();
}

}  // namespace troika::grammar
