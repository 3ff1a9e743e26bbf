#include "jinja/values/json_read.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <vector>

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
  std::vector<size_t> n_keys;  // by the level of objects
  const auto check = [&](int depth, Json::parse_event_t event, Json&) {
    using Event = Json::parse_event_t;
    if (event == Event::object_start) {
      n_keys.push_back(0);
    } else if (event == Event::object_end) {
      n_keys.pop_back();
    } else if (event == Event::key) {
      rt.heap.step(n_keys.back() / 16);
      if (++n_keys.back() > kMostKeysRead) {
        rt.fail(fmt::format("from_json was given an object of more than {} keys", kMostKeysRead));
      }
    }
    const bool is_start = event == Event::object_start || event == Event::array_start;
    if (is_start && depth >= rt.heap.limits().n_nested_values) {
      rt.fail(fmt::format("from_json was given values nested in more than {} others",
                          rt.heap.limits().n_nested_values));
    }
    return true;
  };
  const Json parsed = Json::parse(json, check, false);
  if (parsed.is_discarded()) {
    rt.fail("from_json was given text that is no JSON");
  }
  return from_json_value(rt, parsed);
}

}  // namespace troika::jinja
