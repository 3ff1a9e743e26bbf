#include "server/fields.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>

#include "base/json_marks.h"
#include "base/os_error.h"

namespace troika::server {
namespace {

// The reader of JSON compares each key with those before it in the object: 2,000 keys take two
// million comparisons, some milliseconds, and no person writes as many.
constexpr size_t kMostKeys = 2000;

constexpr const char* kUnknown = "is not known to this server. Leave it out";

bool says_nothing(const Json& value) {
  if (value.is_null() || (value.is_boolean() && !value.get<bool>())) return true;
  return value.is_string() ? value.get_ref<const std::string&>().empty()
                           : value.is_structured() && value.empty();
}

// Says what a text has too much of for the reader of JSON, which calls itself for each level of
// brackets and compares keys: a stranger must not decide how often. Returns "" if it is nothing.
std::string excess_of(std::string_view text, size_t* n_compared) {
  std::string excess;
  visit_json_marks(text, [&](const JsonMark& mark) {
    if (mark.n_levels > kMostNested) {
      excess = fmt::format("The body is nested more than {} times.", kMostNested);
    }
    if (mark.c == ':') {
      *n_compared += mark.n_keys;
      if (mark.n_keys > kMostKeys) {
        excess = fmt::format("An object of the body has more than {} fields.", kMostKeys);
      } else if (*n_compared > kMostCompared) {
        excess = "Too many objects of the body have many fields.";
      }
    }
    return excess.empty();
  });
  return excess;
}

}  // namespace

double decimal_of(float number) {
  char text[32];  // the longest has 15 characters
  const auto written = std::to_chars(std::begin(text), std::end(text), number);
  double decimal = number;
  std::from_chars(text, written.ptr, decimal);
  return decimal;
}

size_t text_bytes(const Json& json) {
  if (json.is_string()) return json.get_ref<const std::string&>().size();
  size_t n = 0;
  if (json.is_structured()) {
    for (const Json& inner : json) n += text_bytes(inner);
  }
  return n;
}

Json object_from(std::string_view text, size_t* n_compared) {
  size_t n_alone = 0;
  const std::string excess = excess_of(text, n_compared != nullptr ? n_compared : &n_alone);
  if (!excess.empty()) throw Refused(400, excess);
  Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) throw Refused(400, "The body is no JSON.");
  if (!json.is_object()) throw Refused(400, "The body is JSON, but no object.");
  return json;
}

Fields::Fields(const Json& object, std::string where) : object_(object), where_(std::move(where)) {
  if (!object.is_object()) {
    // Names of fields go behind the point of `where`, and here there are none.
    const std::string path = where_.substr(0, where_.find_last_not_of('.') + 1);
    throw Refused(400, fmt::format("{} must be an object.", troika::quoted(path)), path);
  }
}

void Fields::fail(const std::string& name, const std::string& problem) const {
  throw Refused(400, fmt::format("The field {} {}.", troika::quoted(where_ + name), problem),
                where_ + name);
}

const Json* Fields::find(const std::string& name) {
  asked_.insert(name);
  const auto found = object_.find(name);
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

std::string Fields::text(const std::string& name, const std::string& otherwise) {
  const Json* const value = find(name);
  if (value == nullptr) return otherwise;
  if (!value->is_string()) fail(name, "must be a string");
  return value->get<std::string>();
}

bool Fields::flag(const std::string& name, bool otherwise) {
  const Json* const value = find(name);
  if (value == nullptr) return otherwise;
  if (!value->is_boolean()) fail(name, "must be true or false");
  return value->get<bool>();
}

int64_t Fields::whole(const std::string& name, int64_t otherwise, int64_t least, int64_t most) {
  const Json* const value = find(name);
  if (value == nullptr) return otherwise;
  const bool is_too_large =
      value->is_number_unsigned() &&
      value->get<uint64_t>() > static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
  // Some clients write 100.0 for 100; larger floats than this are not exact.
  const double real = value->is_number_float() ? value->get<double>() : 0.5;
  const bool is_whole = value->is_number_integer() || std::trunc(real) == real;
  if (!is_whole) fail(name, "must be a whole number");
  if (is_too_large || std::abs(real) > 9007199254740992.0) {
    fail(name, "is a whole number that is too large");
  }
  const auto number = value->get<int64_t>();
  if (number < least || number > most) {
    fail(name, fmt::format("is {}, but must be from {} to {}", number, least, most));
  }
  return number;
}

float Fields::number(const std::string& name, float otherwise) {
  const Json* const value = find(name);
  if (value == nullptr) return otherwise;
  if (!value->is_number()) fail(name, "must be a number");
  const auto number = static_cast<float>(value->get<double>());
  if (!std::isfinite(number)) fail(name, "is too large");
  return number;
}

void Fields::refuse(const std::string& name, const std::string& why) {
  const Json* const value = find(name);
  if (value == nullptr || says_nothing(*value)) return;
  throw Refused(
      400, fmt::format("The field {} is not supported: {}", troika::quoted(where_ + name), why),
      where_ + name, "unsupported");
}

void Fields::finish() const {
  for (const auto& [name, value] : object_.items()) {
    if (asked_.count(name) == 0) fail(name, kUnknown);
  }
}

void Fields::finish_but_empty() const {
  for (const auto& [name, value] : object_.items()) {
    if (asked_.count(name) == 0 && !says_nothing(value)) fail(name, kUnknown);
  }
}

}  // namespace troika::server
