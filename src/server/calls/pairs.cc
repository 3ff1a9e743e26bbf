#include "server/calls/pairs.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <vector>

#include "base/error.h"
#include "base/json_marks.h"
#include "base/os_error.h"
#include "grammar/readers.h"
#include "grammar/schema/document/document.h"
#include "server/fields.h"
#include "server/writer.h"

namespace troika::server {
namespace {

using grammar::Expr;
using grammar::Pool;

constexpr int kMostReferences = 16;

// Lists the keywords that say something of a value as a whole. Pairs are written one after the
// other, so the whole of them cannot be held to these.
constexpr const char* kOfTheWhole[] = {"anyOf",
                                       "oneOf",
                                       "allOf",
                                       "not",
                                       "if",
                                       "enum",
                                       "const",
                                       "patternProperties",
                                       "propertyNames",
                                       "minProperties",
                                       "maxProperties",
                                       "dependencies",
                                       "$dynamicRef",
                                       "$recursiveRef",
                                       "dependentRequired",
                                       "dependentSchemas"};

// Lists the keywords that ask for nothing, so that they may stand beside "$ref".
constexpr const char* kRemarks[] = {"title",    "description", "default",    "examples",
                                    "$comment", "deprecated",  "readOnly",   "writeOnly",
                                    "$defs",    "definitions", "$ref",       "$schema",
                                    "$id",      "$anchor",     "$vocabulary"};

// Counts that so many keys or values are looked at, where somebody counts.
void count_looks(size_t n, Pool* pool) {
  constexpr size_t kInAStep = 16;
  for (size_t i = 0; pool != nullptr && i <= n; i += kInAStep) pool->count_step();
}

// Returns what a pointer names, e.g. "/$defs/a". Throws Json::exception if nothing is there.
const Json* pointed(const Json& whole, std::string_view pointer, Pool* pool) {
  const Json* at = &whole;
  while (!pointer.empty()) {
    const size_t end = std::min(pointer.find('/', 1), pointer.size());
    if (at->is_object()) count_looks(at->size(), pool);
    at = &at->at(Json::json_pointer(std::string(pointer.substr(0, end))));
    pointer.remove_prefix(end);
  }
  return at;
}

// Returns the schema that "$ref" leads to within the same document; null if it leads nowhere. Calls
// `visit` with each schema on the way that has "$ref". Counts its work in the pool, which may be
// null.
template <typename Visit>
const Json* followed(const Json& schema, const Json& whole, Pool* pool, Visit visit) {
  const Json* at = &schema;
  for (int i = 0; i < kMostReferences; ++i) {
    if (!at->is_object() || !at->contains("$ref") || !(*at)["$ref"].is_string()) return at;
    visit(*at);
    const std::string_view text = (*at)["$ref"].get_ref<const std::string&>();
    if (text != "#" && !text.starts_with("#/")) return nullptr;
    try {
      at = pointed(whole, text.substr(1), pool);
    } catch (const Json::exception&) {
      return nullptr;
    }
  }
  return nullptr;
}

const Json* followed(const Json& schema, const Json& whole, Pool* pool) {
  return followed(schema, whole, pool, [](const Json&) {});
}

// Does the same and throws Error where a schema on the way asks for more than what it leads to,
// because only that is looked at. `place` is the schema's place in the tool's parameters.
const Json* followed_alone(const Json& schema, const Json& whole, Pool* pool,
                           const std::string& place) {
  return followed(schema, whole, pool, [&](const Json& at) {
    for (const auto& [keyword, value] : at.items()) {
      const auto is_keyword = [&name = keyword](const char* remark) { return name == remark; };
      if (std::any_of(std::begin(kRemarks), std::end(kRemarks), is_keyword)) continue;
      throw Error(fmt::format(
          "{}: {} stands beside $ref. This model writes arguments as pairs, and then a reference "
          "stands alone: put both into allOf.",
          place, troika::quoted(keyword)));
    }
  });
}

bool may_be_object(const Json& schema) {
  if (!schema.contains("type")) return true;
  const Json& type = schema["type"];
  return type == "object" ||
         (type.is_array() && std::find(type.begin(), type.end(), Json("object")) != type.end());
}

ValueKinds kinds_of_values(const Json& values) {
  ValueKinds kinds{.text = false, .other = false};
  for (const Json& value : values) (value.is_string() ? kinds.text : kinds.other) = true;
  return kinds;
}

// Returns the kinds that a schema itself tells of, and adds the choices that it offers.
ValueKinds own_kinds(const Json& schema, std::vector<const Json*>* choices, Pool* pool) {
  if (!schema.is_object()) return {};
  if (schema.contains("const")) return kinds_of_values(Json::array({schema["const"]}));
  if (schema.contains("enum")) {
    count_looks(schema["enum"].size(), pool);
    return kinds_of_values(schema["enum"]);
  }
  if (schema.contains("type")) {
    const Json& type = schema["type"];
    if (type.is_string()) return {.text = type == "string", .other = type != "string"};
    ValueKinds kinds{.text = false, .other = false};
    for (const Json& one : type) (one == "string" ? kinds.text : kinds.other) = true;
    return kinds;
  }
  for (const char* const name : {"anyOf", "oneOf"}) {
    if (!schema.contains(name)) continue;
    count_looks(schema[name].size(), pool);
    for (const Json& one : schema[name]) choices->push_back(&one);
    return {.text = false, .other = false};
  }
  return {};
}

// Returns the schema whose properties are those of `at`, to which the whole leads. What references
// lead to stays where they look for it.
std::string schema_of_properties(const Json& whole, const Json& at) {
  Json joined = whole;
  if (&whole != &at) {
    joined.erase("$ref");
    joined["properties"] = at["properties"];
  }
  // Clients name many a dialect, and properties are read the same in those that nobody knows.
  const auto dialect = joined.find("$schema");
  if (dialect != joined.end() &&
      !(dialect->is_string() && grammar::schema::is_known_dialect(dialect->get<std::string>()))) {
    joined.erase(dialect);
  }
  return dump(joined);
}

// Returns the kinds of values that a schema may have. The choices that it offers are followed one
// after the other and each of them once: choices may lead back to themselves, and a client decides
// how many stand behind each other.
ValueKinds kinds_of(const Json& schema, const Json& whole, Pool* pool) {
  ValueKinds kinds{.text = false, .other = false};
  std::set<const Json*> seen;
  std::vector<const Json*> open = {&schema};
  while (!open.empty() && !(kinds.text && kinds.other)) {
    const Json* const at = followed(*open.back(), whole, pool);
    open.pop_back();
    if (at != nullptr && !seen.insert(at).second) continue;
    const ValueKinds own = at != nullptr ? own_kinds(*at, &open, pool) : ValueKinds{};
    kinds = {.text = kinds.text || own.text, .other = kinds.other || own.other};
  }
  return kinds;
}

// Returns the keys that an object must have. Throws Error where one is no property.
std::set<std::string> required_of(const Json& schema, const Json& properties) {
  std::set<std::string> known, required;
  if (!schema.contains("required")) return required;
  if (!schema["required"].is_array()) throw Error("#/required: a list of keys is expected.");
  for (const auto& [key, value] : properties.items()) known.insert(key);
  for (const Json& name : schema["required"]) {
    if (!name.is_string() || !known.contains(name.get_ref<const std::string&>())) {
      throw Error(fmt::format("#/required: {} is no property.", troika::quoted(dump(name))));
    }
    required.insert(name.get<std::string>());
  }
  return required;
}

}  // namespace

ValueKinds kinds_of_property(const Json& schema, const std::string& key) {
  const Json* const at = followed(schema, schema, nullptr);
  const bool is_known = at != nullptr && at->is_object() && at->contains("properties") &&
                        (*at)["properties"].contains(key);
  return is_known ? kinds_of((*at)["properties"][key], schema, nullptr) : ValueKinds{};
}

Expr pairs_expr(Pool* pool, const Json& schema, const CallShape::Pairs& pairs) {
  const Json* const at = followed_alone(schema, schema, pool, "#");
  if (at == nullptr || !at->is_object() || !may_be_object(*at)) {
    throw Error("#: the parameters of a tool must be an object's schema.");
  }
  for (const char* const name : kOfTheWhole) {
    if (!at->contains(name)) continue;
    throw Error(
        fmt::format("#/{}: this model writes arguments as pairs, and then the whole of them "
                    "cannot be held to that. Say it of single properties.",
                    name));
  }
  const Json properties = at->contains("properties") ? (*at)["properties"] : Json::object();
  if (!properties.is_object()) throw Error("#/properties: an object is expected.");
  const std::set<std::string> required = required_of(*at, properties);
  if (properties.empty()) return Pool::kEmpty;
  grammar::PropertyReader reader(schema_of_properties(schema, *at), {}, pool);
  Expr rest = Pool::kEmpty;
  for (auto property = properties.rbegin(); property != properties.rend(); ++property) {
    const std::string& key = property.key();
    const Json* const value = followed_alone(property.value(), schema, pool, "#/properties/" + key);
    if (value == nullptr) {
      throw Error(fmt::format("#/properties/{}/$ref: leads nowhere.", key));
    }
    const ValueKinds kinds = kinds_of(*value, schema, pool);
    std::vector<Expr> forms;
    const std::string close = pairs.close_of(key);
    if (kinds.text) forms.push_back(reader.texts(key, {pairs.to_text, close}));
    if (kinds.other) {
      const Expr json = reader.values_but_texts(key);
      forms.push_back(pool->literal(pairs.to_json, pool->concat(json, pool->literal(close))));
    }
    const Expr one = pool->literal(pairs.open + key, pool->any(forms));
    rest = pool->concat(required.contains(key) ? one : pool->optional(one), rest);
  }
  return rest;
}

std::string value_json(const std::string& value, ValueKinds kinds) {
  if (kinds.other && nests_deeper(value, kMostNested)) {
    // Such a value stays as the model wrote it: to write it anew takes a call for each level.
    if (Json::accept(value)) return value;
  } else if (kinds.other) {
    const Json json = Json::parse(value, nullptr, false);
    // Texts have no quotes here, so the quotes around a text belong to it.
    if (!json.is_discarded() && (!json.is_string() || !kinds.text)) return dump(json);
  }
  return dump(Json(value));
}

}  // namespace troika::server
