#include "plan/phones/published.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/atomic_file.h"
#include "base/error.h"
#include "plan/json_fields.h"

namespace troika::plan {
namespace {

using PlainJson = nlohmann::json;

std::string text_of(const PlainJson& row, const char* name) {
  return row.contains(name) && row[name].is_string() ? row[name].get<std::string>() : "";
}

PublishedValue read_value(const PlainJson& json) {
  PublishedValue value;
  value.name = text_of(json, "name");
  value.unit = text_of(json, "unit");
  value.bound = text_of(json, "bound");
  if (json.contains("published") && json["published"].is_number()) {
    value.value = json["published"].get<double>();
    value.low = value.high = *value.value;
  }
  if (json.contains("published_range")) {
    const PlainJson& range = json["published_range"];
    if (!range.is_array() || range.size() != 2) throw Error("a range without two ends");
    value.low = range[0].get<double>();
    value.high = range[1].get<double>();
  } else if (!value.value) {
    throw Error("a value without a number");
  }
  if (!std::isfinite(value.low) || !std::isfinite(value.high) || value.low > value.high) {
    throw Error("an impossible range");
  }
  return value;
}

PlainJson parse_file(const std::string& path) {
  const std::optional<std::string> text = read_whole_file(path);
  if (!text) {
    throw Error(fmt::format("{} cannot be opened. Give the folder of phones by ‹phones›.", path));
  }
  PlainJson json = parse_json(*text, path);
  if (!json.is_object() || !json.contains("rows") || !json["rows"].is_array()) {
    throw Error(fmt::format("{} holds no list 'rows' of published figures.", path));
  }
  return json;
}

void read_file(const std::string& path, std::vector<PublishedRow>& rows) {
  const PlainJson json = parse_file(path);
  for (const PlainJson& entry : json["rows"]) {
    PublishedRow row;
    row.id = text_of(entry, "id");
    try {
      row.paper = text_of(json, "paper");
      row.what = text_of(entry, "what");
      row.configuration = text_of(entry, "configuration");
      row.where = text_of(entry, "where");
      row.text = text_of(entry, "text");
      row.use = text_of(entry, "use");
      row.note = text_of(entry, "note");
      if (row.id.empty() || row.use.empty()) throw Error("a row without id or use");
      if (entry.contains("values")) {
        for (const PlainJson& value : entry["values"]) row.values.push_back(read_value(value));
      }
    } catch (const std::exception& error) {
      throw Error(fmt::format("{}: row '{}' has {}.", path, row.id, error.what()));
    }
    rows.push_back(std::move(row));
  }
}

}  // namespace

std::vector<PublishedRow> read_published(const std::string& folder) {
  std::vector<PublishedRow> rows;
  for (const char* paper : kPapers) {
    read_file(fmt::format("{}/{}.json", folder, paper), rows);
  }
  return rows;
}

std::map<std::string, std::string> read_reasons(const std::string& folder) {
  const std::string path = folder + "/not_simulated.json";
  std::map<std::string, std::string> reasons;
  const PlainJson json = parse_file(path);
  for (const PlainJson& entry : json["rows"]) {
    const std::string reason = text_of(entry, "reason");
    if (reason.empty() || !entry.contains("rows") || !entry["rows"].is_array()) {
      throw Error(fmt::format("{} has an entry without 'rows' or without 'reason'.", path));
    }
    for (const PlainJson& id : entry["rows"]) {
      if (!id.is_string() || !reasons.emplace(id.get<std::string>(), reason).second) {
        throw Error(fmt::format("{}: the row {} stands twice, or is no text.", path, id.dump()));
      }
    }
  }
  return reasons;
}

const PublishedRow* find_row(const std::vector<PublishedRow>& rows, std::string_view id) {
  for (const PublishedRow& row : rows) {
    if (row.id == id) return &row;
  }
  return nullptr;
}

double number_of(const PublishedRow& row, std::string_view value) {
  for (const PublishedValue& own : row.values) {
    if (own.name == value && own.value) return *own.value;
  }
  throw Error(fmt::format("The published row '{}' has no value '{}'.", row.id, value));
}

}  // namespace troika::plan
