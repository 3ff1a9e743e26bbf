#include "jinja/values/json_read.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/json_marks.h"
#include "jinja/values/dict.h"

namespace troika::jinja {

namespace {
using Json = nlohmann::ordered_json;
// The reader of JSON compares each key of an object with those before it, so they are limited.
constexpr size_t kMostKeysRead = 2000;
}  // namespace

Value from_json_value(Runtime& rt, const nlohmann::ordered_json& json) {
  rt.heap.step();
  switch (json.type()) {
    case nlohmann::json::value_t::null:
      return Value::none();
    case nlohmann::json::value_t::boolean:
      return Value::of(json.get<bool>());
    case nlohmann::json::value_t::number_integer:
      return Value::of(json.get<int64_t>());
    case nlohmann::json::value_t::number_unsigned: {
      const auto u = json.get<uint64_t>();
      // Schemas name the largest of unsigned types, and JSON has one kind of number.
      if (u > INT64_MAX) return Value::of(static_cast<double>(u));
      return Value::of(static_cast<int64_t>(u));
    }
    case nlohmann::json::value_t::number_float:
      return Value::of(json.get<double>());
    case nlohmann::json::value_t::string:
      return rt.text(json.get_ref<const std::string&>());
    default:
      break;
  }
  const Runtime::Descent descent(rt);
  if (json.is_array()) {
    Value list = rt.heap.list();
    for (const auto& item : json) {
      rt.heap.append(list.sequence(), from_json_value(rt, item));
    }
    return list;
  }
  if (!json.is_object()) {
    rt.fail("binary data cannot be used in a chat template");
  }
  Value dict = rt.heap.dict();
  for (const auto& [key, value] : json.items()) {
    dict.dict().set(rt.heap, rt.text(key), from_json_value(rt, value));
  }
  return dict;
}

Value from_json(Runtime& rt, const std::string& json) {
  // nlohmann's tree takes some 32 times the text at worst ("[[],[],[],...").
  rt.heap.expect(32 * json.size());
  rt.heap.step(json.size() / 2);
  const int n_most = rt.heap.limits().n_nested_values;
  visit_json_marks(json, [&](const JsonMark& mark) {
    if (mark.c == ':') rt.heap.step(mark.n_keys / 16);
    if (mark.n_keys > kMostKeysRead) {
      rt.fail(fmt::format("from_json was given an object of more than {} keys", kMostKeysRead));
    }
    if (mark.n_levels > static_cast<size_t>(n_most)) {
      rt.fail(fmt::format("from_json was given values nested in more than {} others", n_most));
    }
    return true;
  });
  const Json parsed = Json::parse(json, nullptr, false);
  if (parsed.is_discarded()) {
    rt.fail("from_json was given text that is no JSON");
  }
  return from_json_value(rt, parsed);
}

}  // namespace troika::jinja
