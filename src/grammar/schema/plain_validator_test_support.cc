#include "grammar/schema/plain_validator_test_support.h"

#include <algorithm>

namespace troika::grammar {

void PlainValidator::Judgement::add(const Judgement& part) {
  fits = fits && part.fits;
  evaluated.insert(part.evaluated.begin(), part.evaluated.end());
}

void PlainValidator::judge_choices(const Json& schema, const Json& value, Judgement* all) const {
  for (const char* const keyword : {"allOf", "anyOf", "oneOf"}) {
    if (!schema.contains(keyword)) continue;
    Judgement some;
    size_t n = 0;
    for (const Json& part : schema[keyword]) {
      const Judgement one = judge(part, value);
      if (!one.fits) continue;
      ++n;
      some.add(one);
    }
    const std::string_view name = keyword;
    some.fits = name == "allOf" ? n == schema[keyword].size() : name == "oneOf" ? n == 1 : n > 0;
    all->add(some);
  }
  if (schema.contains("$ref")) {
    const auto name = schema["$ref"].get<std::string>();
    all->add(judge(root_[Json::json_pointer(name.substr(1))], value));
  }
  if (schema.contains("not")) all->fits = all->fits && !judge(schema["not"], value).fits;
  if (!schema.contains("if")) return;
  const Judgement condition = judge(schema["if"], value);
  if (condition.fits) all->add(condition);
  const char* const then = condition.fits ? "then" : "else";
  if (schema.contains(then)) all->add(judge(schema[then], value));
}

void PlainValidator::judge_members(const Json& schema, const Json& value, Judgement* all) const {
  if (!value.is_object()) return;
  for (const auto& [key, member] : value.items()) {
    const bool is_declared = schema.contains("properties") && schema["properties"].contains(key);
    const Json* of_key = nullptr;
    if (is_declared) {
      of_key = &schema["properties"][key];
    } else if (schema.contains("additionalProperties")) {
      of_key = &schema["additionalProperties"];
    } else if (schema.contains("unevaluatedProperties") && all->evaluated.count(key) == 0) {
      of_key = &schema["unevaluatedProperties"];
    }
    if (of_key == nullptr) continue;
    all->fits = all->fits && judge(*of_key, member).fits;
    all->evaluated.insert(key);
  }
  if (!schema.contains("required")) return;
  for (const Json& key : schema["required"]) {
    all->fits = all->fits && value.contains(key.get<std::string>());
  }
}

PlainValidator::Judgement PlainValidator::judge(const Json& schema, const Json& value) const {
  Judgement all;
  if (schema.is_boolean()) {
    all.fits = schema.get<bool>();
    return all;
  }
  judge_choices(schema, value, &all);
  judge_members(schema, value, &all);
  if (schema.contains("const")) all.fits = all.fits && value == schema["const"];
  if (schema.contains("enum")) {
    const Json& values = schema["enum"];
    all.fits = all.fits && std::find(values.begin(), values.end(), value) != values.end();
  }
  if (schema.contains("type")) {
    const std::string type = value.is_object()   ? "object"
                             : value.is_string() ? "string"
                             : value.is_null()   ? "null"
                                                 : "integer";
    all.fits = all.fits && type == schema["type"].get<std::string>();
  }
  return all;
}

}  // namespace troika::grammar
