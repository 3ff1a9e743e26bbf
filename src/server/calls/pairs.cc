#include "server/calls/pairs.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/os_error.h"
#include "grammar/characters.h"
#include "grammar/readers.h"
#include "server/writer.h"

namespace troika::server {
namespace {

using grammar::Expr;
using grammar::Pool;

constexpr int kMostReferences = 16;

// What a schema's "$ref" within the same document leads to; null: nothing.
const Json* followed(const Json& schema, const Json& whole) {
  const Json* at = &schema;
  for (int i = 0; i < kMostReferences; ++i) {
    if (!at->is_object() || !at->contains("$ref") || !(*at)["$ref"].is_string()) return at;
    const auto text = (*at)["$ref"].get<std::string>();
    if (!text.starts_with("#/")) return nullptr;
    try {
      at = &whole.at(Json::json_pointer(text.substr(1)));
    } catch (const Json::exception&) {
      return nullptr;
    }
  }
  return nullptr;
}

ValueKinds kinds_of_values(const Json& values) {
  ValueKinds kinds{false, false};
  for (const Json& value : values) (value.is_string() ? kinds.text : kinds.other) = true;
  return kinds;
}

int count_of(const Json& schema, const char* name, int otherwise) {
  if (!schema.contains(name) || !schema[name].is_number_unsigned()) return otherwise;
  const auto n = schema[name].get<uint64_t>();
  if (n > 100'000) throw Error(fmt::format("{} is {}: that is too many.", name, n));
  return static_cast<int>(n);
}

Expr without(Pool* pool, const std::string& mark) {
  const Expr all = pool->no(Pool::kNone);
  return pool->no(pool->concat(all, pool->literal(mark, all)));
}

// A text of this schema, without quotes.
Expr text_expr(Pool* pool, const Json& schema, const std::string& key, const std::string& close) {
  for (const char* const name : {"pattern", "format"}) {
    if (!schema.contains(name)) continue;
    throw Error(
        fmt::format("#/properties/{}/{}: this model writes texts without quotes, and then "
                    "it cannot be held to that. Leave it out.",
                    key, name));
  }
  Json values = schema.value("enum", Json::array());
  if (schema.contains("const")) values.push_back(schema["const"]);
  std::vector<Expr> texts;
  for (const Json& value : values) {
    if (value.is_string()) texts.push_back(pool->literal(value.get<std::string>()));
  }
  Expr text = without(pool, close);
  if (!texts.empty()) text = pool->all({text, pool->any(texts)});
  const int least = count_of(schema, "minLength", 0);
  const int most = count_of(schema, "maxLength", Pool::kMany);
  if (least > 0 || most != Pool::kMany) {
    const Expr character = grammar::utf8_character(pool, grammar::CharacterSet::all());
    text = pool->all({text, pool->repeat(character, least, most)});
  }
  return text;
}

// Any other value, in JSON. Definitions of the whole schema stay where references look for them.
Expr json_expr(Pool* pool, const Json& schema, const Json& whole) {
  Json alone = schema.is_object() ? schema : Json{{"allOf", Json::array({schema})}};
  for (const char* const name : {"$defs", "definitions"}) {
    if (whole.contains(name)) alone[name] = whole[name];
  }
  return grammar::read_json_schema(dump(alone), grammar::Limits(), true, pool);
}

}  // namespace

ValueKinds kinds_of(const Json& schema, const Json& whole) {
  const Json* const at = followed(schema, whole);
  if (at == nullptr || !at->is_object()) return {};
  if (at->contains("const")) return kinds_of_values(Json::array({(*at)["const"]}));
  if (at->contains("enum")) return kinds_of_values((*at)["enum"]);
  if (at->contains("type")) {
    const Json& type = (*at)["type"];
    if (type.is_string()) return {type == "string", type != "string"};
    ValueKinds kinds{false, false};
    for (const Json& one : type) (one == "string" ? kinds.text : kinds.other) = true;
    return kinds;
  }
  for (const char* const name : {"anyOf", "oneOf"}) {
    if (!at->contains(name)) continue;
    ValueKinds kinds{false, false};
    for (const Json& one : (*at)[name]) {
      const ValueKinds of_one = kinds_of(one, whole);
      kinds = {kinds.text || of_one.text, kinds.other || of_one.other};
    }
    return kinds;
  }
  return {};
}

ValueKinds kinds_of_property(const Json& schema, const std::string& key) {
  const Json* const at = followed(schema, schema);
  const bool is_known = at != nullptr && at->is_object() && at->contains("properties") &&
                        (*at)["properties"].contains(key);
  return is_known ? kinds_of((*at)["properties"][key], *at) : ValueKinds{};
}

Expr pairs_expr(Pool* pool, const Json& schema, const CallShape::Pairs& pairs) {
  const Json* const at = followed(schema, schema);
  if (at == nullptr || !at->is_object()) {
    throw Error("#: the parameters of a tool must be an object's schema.");
  }
  for (const char* const name : {"anyOf", "oneOf", "allOf", "not", "if", "patternProperties",
                                 "minProperties", "dependentRequired", "dependentSchemas"}) {
    if (!at->contains(name)) continue;
    throw Error(
        fmt::format("#/{}: this model writes arguments as pairs, and then the whole of them "
                    "cannot be held to that. Say it of single properties.",
                    name));
  }
  const Json properties = at->value("properties", Json::object());
  const Json required = at->value("required", Json::array());
  for (const Json& name : required) {
    if (name.is_string() && properties.contains(name.get<std::string>())) continue;
    throw Error(fmt::format("#/required: {} is no property.", troika::quoted(dump(name))));
  }
  Expr rest = Pool::kEmpty;
  for (auto property = properties.rbegin(); property != properties.rend(); ++property) {
    const std::string& key = property.key();
    const Json* const value = followed(property.value(), *at);
    if (value == nullptr) {
      throw Error(fmt::format("#/properties/{}/$ref: leads nowhere.", key));
    }
    const ValueKinds kinds = kinds_of(*value, *at);
    std::vector<Expr> forms;
    if (kinds.text) {
      const Json none = Json::object();
      const Expr text = text_expr(pool, value->is_object() ? *value : none, key, pairs.close);
      forms.push_back(pool->literal(pairs.to_text, text));
    }
    if (kinds.other) {
      forms.push_back(pool->literal(pairs.to_json, json_expr(pool, *value, *at)));
    }
    const Expr one =
        pool->literal(pairs.open + key, pool->concat(pool->any(forms), pool->literal(pairs.close)));
    const bool is_required =
        std::find(required.begin(), required.end(), Json(key)) != required.end();
    rest = pool->concat(is_required ? one : pool->optional(one), rest);
  }
  return rest;
}

std::string value_json(const std::string& value, ValueKinds kinds) {
  if (kinds.other) {
    const Json json = Json::parse(value, nullptr, false);
    // A text in quotes is a text with quotes where texts have none.
    if (!json.is_discarded() && (!json.is_string() || !kinds.text)) return dump(json);
  }
  return dump(Json(value));
}

}  // namespace troika::server
