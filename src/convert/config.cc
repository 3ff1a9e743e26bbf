#include "convert/config.h"

#include <fmt/format.h>

#include <cmath>
#include <filesystem>

#include "base/error.h"
#include "base/json_marks.h"
#include "base/mapped_file.h"
#include "base/os_error.h"

namespace troika::convert {
namespace {

constexpr size_t kMostDepth = 32;
// Limits the values of a file, of which each takes up to 130 bytes of memory, however short its
// text is. The tokenizer.json of 262,144 tokens and 500,000 merges as pairs has 1.8 million.
constexpr size_t kMostValues = size_t{1} << 22;

// Refuses a text that would become far more than its bytes.
void check_extent(std::string_view text, const std::string& path) {
  size_t n_values = 0;
  visit_json_marks(text, [&](const JsonMark& mark) {
    if (mark.n_levels > kMostDepth) {
      throw Error(
          fmt::format("{}: it is nested more than {} deep, as no such file is. Download it again.",
                      path, kMostDepth));
    }
    n_values += mark.c == '[' || mark.c == '{' || mark.c == ',' ? 1 : 0;
    if (n_values > kMostValues) {
      throw Error(
          fmt::format("{}: it holds more than {} values, as no such file does. Download it again.",
                      path, kMostValues));
    }
    return true;
  });
}

}  // namespace

Json parse_json(std::string_view text, const std::string& path) {
  check_extent(text, path);
  Json json;
  try {
    json = Json::parse(text.begin(), text.end());
  } catch (const Json::exception&) {
    throw Error(
        fmt::format("{}: it is no JSON text. The file is damaged; download it again.", path));
  }
  if (!json.is_object()) {
    throw Error(
        fmt::format("{}: it holds no JSON object. The file is damaged; download it again.", path));
  }
  return json;
}

Json read_json(const std::string& path, uint64_t most_bytes) {
  const MappedFile file = MappedFile::open(path);
  const auto bytes = file.bytes();
  if (bytes.size() > most_bytes) {
    throw Error(fmt::format("{}: it has {} bytes; such a file has at most {}. Download it again.",
                            path, bytes.size(), most_bytes));
  }
  Json json = parse_json({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, path);
  check_whole(file);
  return json;
}

void check_whole(const MappedFile& file) {
  if (!file.damaged()) return;
  throw Error(fmt::format("{}: it became shorter while it was read; restore it and start again.",
                          file.path()));
}

bool is_there(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::symlink_status(path, ignored).type() !=
         std::filesystem::file_type::not_found;
}

std::optional<Json> find_json(const std::string& path, uint64_t most_bytes) {
  if (!is_there(path)) return std::nullopt;
  return read_json(path, most_bytes);
}

const Json* member(const Json& object, std::string_view key) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

std::optional<std::string> text_member(const Json& object, std::string_view key) {
  const Json* value = member(object, key);
  if (value == nullptr || !value->is_string()) return std::nullopt;
  return value->get<std::string>();
}

std::optional<bool> bool_member(const Json& object, std::string_view key) {
  const Json* value = member(object, key);
  if (value == nullptr || !value->is_boolean()) return std::nullopt;
  return value->get<bool>();
}

void Config::fail(std::string_view problem) const {
  throw Error(fmt::format("{}: {}. Such a model cannot be converted.", path_, problem));
}

uint32_t Config::count(std::string_view key, uint32_t lowest, uint32_t highest,
                       std::optional<uint32_t> fallback) const {
  const Json* value = member(json_, key);
  if (value == nullptr && fallback) return *fallback;
  if (value == nullptr) fail(fmt::format("'{}' is missing", key));
  if (!value->is_number_unsigned() || value->get<uint64_t>() < lowest ||
      value->get<uint64_t>() > highest) {
    fail(fmt::format("'{}' is {}, but must be a whole number from {} to {}", key,
                     troika::quoted(value->dump(-1, ' ', true, Json::error_handler_t::replace), 40),
                     lowest, highest));
  }
  return value->get<uint32_t>();
}

double Config::number(std::string_view key, double lowest, double highest,
                      std::optional<double> fallback) const {
  const Json* value = member(json_, key);
  if (value == nullptr && fallback) return *fallback;
  if (value == nullptr) fail(fmt::format("'{}' is missing", key));
  const double number = value->is_number() ? value->get<double>() : std::nan("");
  if (!(number >= lowest && number <= highest)) {
    fail(fmt::format("'{}' is {}, but must be a number from {} to {}", key,
                     troika::quoted(value->dump(-1, ' ', true, Json::error_handler_t::replace), 40),
                     lowest, highest));
  }
  return number;
}

bool Config::flag(std::string_view key, bool fallback) const {
  const Json* value = member(json_, key);
  if (value == nullptr) return fallback;
  if (!value->is_boolean()) fail(fmt::format("'{}' is neither true nor false", key));
  return value->get<bool>();
}

std::string Config::text(std::string_view key, std::string_view fallback) const {
  const Json* value = member(json_, key);
  if (value == nullptr) return std::string(fallback);
  if (!value->is_string()) fail(fmt::format("'{}' is no text", key));
  return value->get<std::string>();
}

}  // namespace troika::convert
