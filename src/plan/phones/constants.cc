#include "plan/phones/constants.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>

#include "base/atomic_file.h"
#include "base/error.h"
#include "plan/json_fields.h"

namespace troika::plan {
namespace {

using Json = nlohmann::json;

constexpr size_t kMostFileBytes = 4u << 20;
constexpr const char* kAdvice = "Compare it with phones/8gen3.json.";

std::string read_text(const std::string& path) {
  std::optional<std::string> text = read_whole_file(path, kMostFileBytes);
  if (!text) throw Error(fmt::format("{} cannot be opened. Give the path of a JSON file.", path));
  return *std::move(text);
}

Json object_of(const std::string& text, const std::string& path) {
  Json json = parse_json(text, path, kAdvice);
  if (!json.is_object()) throw Error(fmt::format("{} is not a JSON object. {}", path, kAdvice));
  return json;
}

std::string text_field(const Json& json, const char* name, const std::string& path, bool needed) {
  if (!json.contains(name) && !needed) return {};
  if (!json.contains(name) || !json[name].is_string()) {
    throw Error(fmt::format("{}: the field '{}' must be a text.", path, name));
  }
  return json[name].get<std::string>();
}

// Returns the object at "a.b.c", or null.
const Json* find(const Json& json, std::string_view name) {
  const Json* at = &json;
  while (true) {
    const size_t dot = name.find('.');
    const std::string key(name.substr(0, dot));
    if (!at->is_object() || !at->contains(key)) return nullptr;
    at = &(*at)[key];
    if (dot == std::string_view::npos) return at;
    name.remove_prefix(dot + 1);
  }
}

void check_known(const Json& json, const std::string& prefix, const std::vector<Field>& fields,
                 const std::string& path) {
  for (const auto& [key, value] : json.items()) {
    const std::string name = prefix.empty() ? key : prefix + "." + key;
    if (prefix.empty() && (key == "version" || key == "name" || key == "title" || key == "like")) {
      continue;
    }
    const bool is_field = std::any_of(fields.begin(), fields.end(),
                                      [&](const Field& field) { return name == field.name; });
    if (is_field) continue;
    const bool is_group = std::any_of(fields.begin(), fields.end(), [&](const Field& field) {
      return std::string_view(field.name).starts_with(name + ".");
    });
    if (!is_group || !value.is_object()) {
      throw Error(fmt::format("{}: the field '{}' is not known.", path, name));
    }
    check_known(value, name, fields, path);
  }
}

void read_field(const Json& json, const Field& field, const std::string& path) {
  const auto fail = [&](const std::string& problem) {
    throw Error(fmt::format("{}: the field '{}' {}.", path, field.name, problem));
  };
  if (!json.is_object() || !json.contains("value") || !json.contains("source")) {
    fail("must be an object with 'value' and 'source'");
  }
  for (const auto& [key, value] : json.items()) {
    if (key != "value" && key != "source" && key != "range") {
      fail(fmt::format("has an unknown part '{}'", key));
    }
  }
  if (!json["value"].is_number()) fail("has a value that is not a number");
  if (!json["source"].is_string()) fail("has a source that is not a text");
  const double value = json["value"].get<double>();
  if (!std::isfinite(value) || value < field.least || value > field.most) {
    fail(fmt::format("is {}, but only {} to {} makes sense", value, field.least, field.most));
  }
  const auto source = json["source"].get<std::string>();
  if (source_kind(source) == SourceKind::kUnknown) {
    fail(
        "has a source that is neither ids of published rows nor begins with 'fitted to', "
        "'specification:', 'scaled from 8gen3 by public specifications:' or 'assumed:'");
  }
  *field.constant = {value, source};
  if (!json.contains("range")) return;
  const Json& range = json["range"];
  if (!range.is_array() || range.size() != 2 || !range[0].is_number() || !range[1].is_number()) {
    fail("has a range that is not two numbers");
  }
  field.constant->range = {range[0].get<double>(), range[1].get<double>()};
  const auto [low, high] = *field.constant->range;
  if (low > value || high < value || low < field.least || high > field.most) {
    fail(fmt::format("has the range {} to {}, which must hold its value and lie within {} to {}",
                     low, high, field.least, field.most));
  }
}

// Says whether the text is the id of a row: "hf009", the letter of a paper, f, and three digits.
bool is_row_id(std::string_view text) {
  return text.size() == 5 && std::string_view("nhsdp").find(text[0]) != std::string_view::npos &&
         text[1] == 'f' && text.find_first_not_of("0123456789", 2) == std::string_view::npos;
}

}  // namespace

std::vector<std::string> source_rows(std::string_view source) {
  std::vector<std::string> ids;
  constexpr std::string_view kEnds = " ,:;.()";
  while (!source.empty()) {
    const size_t end = std::min(source.find_first_of(kEnds), source.size());
    if (is_row_id(source.substr(0, end))) ids.emplace_back(source.substr(0, end));
    source.remove_prefix(std::min(end + 1, source.size()));
  }
  return ids;
}

SourceKind source_kind(std::string_view source) {
  if (source.starts_with("fitted to ")) {
    return source_rows(source).empty() ? SourceKind::kUnknown : SourceKind::kFitted;
  }
  if (source.starts_with("specification: ")) return SourceKind::kSpecification;
  if (source.starts_with("scaled from 8gen3 by public specifications: ")) {
    return SourceKind::kScaled;
  }
  if (source.starts_with("assumed: ")) return SourceKind::kAssumed;
  return is_row_id(source.substr(0, 5)) ? SourceKind::kRows : SourceKind::kUnknown;
}

FileHead read_constants(const std::string& path, int version, const std::vector<Field>& fields,
                        const std::function<void(const std::string& like)>& base) {
  const Json json = object_of(read_text(path), path);
  if (!json.contains("version") || !json["version"].is_number_integer() ||
      json["version"].get<int64_t>() != version) {
    throw Error(fmt::format("{}: the field 'version' must be {}, the only one this program reads.",
                            path, version));
  }
  FileHead head;
  head.name = text_field(json, "name", path, true);
  head.title = text_field(json, "title", path, true);
  head.like = text_field(json, "like", path, false);
  if (!head.like.empty()) {
    if (!base) throw Error(fmt::format("{}: the field 'like' is not allowed here.", path));
    base(head.like);
  }
  check_known(json, "", fields, path);
  for (const Field& field : fields) {
    const Json* found = find(json, field.name);
    if (found != nullptr) {
      read_field(*found, field, path);
    } else if (head.like.empty()) {
      throw Error(fmt::format("{}: the field '{}' is missing.", path, field.name));
    }
  }
  return head;
}

void update_constants(const std::string& path, const std::vector<Field>& changed) {
  const std::string text = read_text(path);
  (void)object_of(text, path);
  // This type keeps the order of fields, but for each field that it adds it looks at all others, so
  // that only files that were read before are parsed into it.
  using OrderedJson = nlohmann::ordered_json;
  OrderedJson json = OrderedJson::parse(text, nullptr, /*allow_exceptions=*/false);
  for (const Field& field : changed) {
    OrderedJson::json_pointer pointer;
    std::istringstream parts(field.name);
    for (std::string part; std::getline(parts, part, '.');) pointer /= part;
    OrderedJson& constant = json[pointer];
    constant["value"] = field.constant->value;
    constant["source"] = field.constant->source;
  }
  write_file(path, json.dump(1) + "\n");
}

ConstantChoice constant_from_text(std::string_view text) {
  const size_t equals = text.find('=');
  ConstantChoice choice;
  char* end = nullptr;
  const std::string value(text.substr(std::min(text.size(), equals + 1)));
  if (equals != std::string_view::npos) {
    choice.name = std::string(text.substr(0, equals));
    choice.value = std::strtod(value.c_str(), &end);
  }
  if (choice.name.empty() || end == nullptr || end == value.c_str() || *end != '\0') {
    throw UsageError(fmt::format(
        "‹constant› '{}' is not understood. Write NAME=VALUE, as in cpu.vector_gflops=100.", text));
  }
  return choice;
}

bool choose_constant(const ConstantChoice& choice, const std::vector<Field>& fields) {
  for (const Field& field : fields) {
    if (choice.name != field.name) continue;
    if (!std::isfinite(choice.value) || choice.value < field.least || choice.value > field.most) {
      throw UsageError(fmt::format("‹constant› {}={}: only {} to {} makes sense.", choice.name,
                                   choice.value, field.least, field.most));
    }
    *field.constant = {choice.value, "assumed: given for this run"};
    return true;
  }
  return false;
}

}  // namespace troika::plan
