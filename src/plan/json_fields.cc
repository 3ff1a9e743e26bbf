#include "plan/json_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/json_marks.h"

namespace troika::plan {

namespace {

constexpr size_t kDeepest = 32;

std::string with_space(const std::string& advice) { return advice.empty() ? "" : " " + advice; }

}  // namespace

nlohmann::json parse_json(const std::string& text, const std::string& file,
                          const std::string& advice) {
  if (nests_deeper(text, kDeepest)) {
    throw Error(fmt::format("{}: it is nested more than {} deep, as no such file is.{}", file,
                            kDeepest, with_space(advice)));
  }
  return nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
}

JsonFields JsonFields::parse(const std::string& text, const std::string& file,
                             const std::string& advice) {
  nlohmann::json json = parse_json(text, file, advice);
  if (!json.is_object()) {
    throw Error(fmt::format("{}: this is no JSON object.{}", file, with_space(advice)));
  }
  return {std::move(json), file, "", advice};
}

void JsonFields::fail(const char* key, const std::string& problem) const {
  const char* const stop = problem.ends_with('.') ? "" : ".";
  throw Error(
      fmt::format("{}: '{}{}' {}{}{}", file_, path_, key, problem, stop, with_space(advice_)));
}

const nlohmann::json& JsonFields::value(const char* key, const char* wanted) const {
  const auto found = json_.find(key);
  if (found == json_.end()) fail(key, fmt::format("is missing; it must be {}", wanted));
  return *found;
}

JsonFields JsonFields::element(const char* key, const nlohmann::json& array, size_t index) const {
  if (!array[index].is_object())
    fail(key, fmt::format("must hold objects, but entry {} is none", index));
  return {array[index], file_, fmt::format("{}{}[{}].", path_, key, index), advice_};
}

JsonFields JsonFields::object(const char* key) const {
  const nlohmann::json& json = value(key, "an object");
  if (!json.is_object()) fail(key, "must be an object");
  return {json, file_, fmt::format("{}{}.", path_, key), advice_};
}

void JsonFields::only(std::initializer_list<const char*> keys) const {
  for (const auto& [key, value] : json_.items()) {
    if (std::find(keys.begin(), keys.end(), key) != keys.end()) continue;
    fail(key.c_str(), fmt::format("is not known; there may be {}", fmt::join(keys, ", ")));
  }
}

int64_t JsonFields::integer(const char* key, int64_t lowest, int64_t highest) const {
  const nlohmann::json& json = value(key, "a whole number");
  const auto range = [&] {
    return fmt::format("must be a whole number from {} to {}", lowest, highest);
  };
  if (!json.is_number_integer()) fail(key, range());
  const bool fits =
      !json.is_number_unsigned() || json.get<uint64_t>() <= static_cast<uint64_t>(INT64_MAX);
  const int64_t number = fits ? json.get<int64_t>() : INT64_MAX;
  if (!fits || number < lowest || number > highest) fail(key, range());
  return number;
}

double JsonFields::number(const char* key, double lowest, double highest) const {
  const nlohmann::json& json = value(key, "a number");
  const double number = json.is_number() ? json.get<double>() : NAN;
  if (!(number >= lowest && number <= highest)) {
    fail(key, fmt::format("must be a number from {} to {}", lowest, highest));
  }
  return number;
}

double JsonFields::positive(const char* key, double highest) const {
  const double value = number(key, 0.0, highest);
  if (value <= 0.0) fail(key, "is 0, but must be more");
  return value;
}

bool JsonFields::flag(const char* key) const {
  const nlohmann::json& json = value(key, "true or false");
  if (!json.is_boolean()) fail(key, "must be true or false");
  return json.get<bool>();
}

size_t JsonFields::one_of(const char* key, std::span<const char* const> names) const {
  const std::string wanted = text(key);
  for (size_t i = 0; i < names.size(); ++i) {
    if (wanted == names[i]) return i;
  }
  fail(key, fmt::format("is '{}'; known are {}", wanted, fmt::join(names, ", ")));
}

std::vector<double> JsonFields::positives(const char* key, double highest) const {
  const nlohmann::json& json = value(key, "an array of numbers");
  if (!json.is_array()) fail(key, "must be an array of numbers");
  std::vector<double> numbers;
  for (const nlohmann::json& element : json) {
    const double number = element.is_number() ? element.get<double>() : NAN;
    if (!(number > 0.0 && number <= highest)) {
      fail(key, fmt::format("must hold numbers above 0, up to {}", highest));
    }
    numbers.push_back(number);
  }
  return numbers;
}

std::string JsonFields::text(const char* key) const {
  const nlohmann::json& json = value(key, "a text");
  if (!json.is_string()) fail(key, "must be a text");
  return json.get<std::string>();
}

std::vector<int> JsonFields::integers(const char* key, int lowest, int highest) const {
  const nlohmann::json& json = value(key, "an array of whole numbers");
  if (!json.is_array()) fail(key, "must be an array of whole numbers");
  std::vector<int> numbers;
  for (const nlohmann::json& element : json) {
    const bool is_small = element.is_number_integer() && element.is_number_unsigned()
                              ? element.get<uint64_t>() <= static_cast<uint64_t>(INT32_MAX)
                              : element.is_number_integer() && element.get<int64_t>() >= INT32_MIN;
    const int number = is_small ? element.get<int>() : highest;
    if (!is_small || number < lowest || number > highest) {
      fail(key, fmt::format("must hold whole numbers from {} to {}", lowest, highest));
    }
    numbers.push_back(number);
  }
  return numbers;
}

}  // namespace troika::plan
