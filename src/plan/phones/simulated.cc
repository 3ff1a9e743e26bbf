#include "plan/phones/simulated.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

#include "base/atomic_file.h"
#include "base/error.h"
#include "plan/json_fields.h"

namespace troika::plan {
namespace {

using PlainJson = nlohmann::json;
using Choices = std::map<std::string, std::vector<std::string>>;

void check_keys(const PlainJson& json, std::initializer_list<std::string_view> allowed) {
  if (!json.is_object()) throw Error("something that is no object");
  for (const auto& [key, value] : json.items()) {
    if (std::find(allowed.begin(), allowed.end(), key) == allowed.end()) {
      throw Error(fmt::format("an unknown key '{}'", key));
    }
  }
}

std::string string_of(const PlainJson& json, const char* key, const std::string& otherwise = "") {
  if (!json.contains(key)) return otherwise;
  if (!json[key].is_string()) throw Error(fmt::format("a '{}' that is no text", key));
  return json[key].get<std::string>();
}

std::vector<std::string> texts_of(const PlainJson& json) {
  std::vector<std::string> texts;
  const auto take = [&](const PlainJson& one) {
    if (one.is_string()) return texts.push_back(one.get<std::string>());
    if (one.is_number()) return texts.push_back(one.dump());
    throw Error(fmt::format("{}, which is neither a text nor a number", one.dump()));
  };
  if (!json.is_array()) take(json);
  if (json.is_array()) std::for_each(json.begin(), json.end(), take);
  if (texts.empty()) throw Error("an empty list");
  return texts;
}

std::vector<std::string> list_of(const PlainJson& json, const char* key) {
  return json.contains(key) ? texts_of(json[key]) : std::vector<std::string>();
}

// Adds the arguments of `json`, which take the place of equal names in `choices`.
Choices merged(Choices choices, const PlainJson& json) {
  if (!json.contains("with")) return choices;
  for (const auto& [name, values] : json["with"].items()) choices[name] = texts_of(values);
  return choices;
}

// Returns a call for each combination of figures and arguments.
std::vector<FigureCall> calls_of(const std::vector<std::string>& figures, const Choices& with) {
  std::vector<FigureCall> calls;
  calls.reserve(figures.size());
  for (const std::string& figure : figures) calls.push_back({figure, {}});
  for (const auto& [name, values] : with) {
    std::vector<FigureCall> more;
    for (const FigureCall& call : calls) {
      for (const std::string& value : values) {
        more.push_back(call);
        more.back().with[name] = value;
      }
    }
    calls = std::move(more);
  }
  return calls;
}

// Returns the calls beside one call. A figure that `json` names has arguments of its own.
std::vector<FigureCall> calls_beside(const FigureCall& of, const PlainJson& json) {
  if (json.is_array()) {
    std::vector<FigureCall> all;
    for (const PlainJson& one : json) {
      for (FigureCall& call : calls_beside(of, one)) all.push_back(std::move(call));
    }
    return all;
  }
  check_keys(json, {"figure", "with"});
  Choices with;
  if (json.contains("figure")) return calls_of(texts_of(json["figure"]), merged({}, json));
  for (const auto& [name, value] : of.with) with[name] = {value};
  return calls_of({of.figure}, merged(with, json));
}

SimulatedRow read_row(const PlainJson& json, const PlainJson& group) {
  check_keys(json, {"row", "value", "kind", "part", "inputs", "reason", "measured", "figure",
                    "with", "beside", "as", "together"});
  SimulatedRow row;
  row.id = string_of(json, "row");
  row.name = string_of(json, "value");
  row.kind = string_of(json, "kind", string_of(group, "kind"));
  row.part = string_of(json, "part", string_of(group, "part"));
  row.inputs = string_of(json, "inputs");
  row.reason = string_of(json, "reason");
  row.measured = string_of(json, "measured");
  row.as = string_of(json, "as");
  row.together = string_of(json, "together");
  if (row.id.empty()) throw Error("no 'row'");
  const Choices with = merged(merged({}, group), json);
  const std::vector<std::string> figures = list_of(json, "figure");
  for (const FigureCall& call : calls_of(figures, with)) {
    if (!json.contains("beside")) {
      row.terms.push_back({call});
      continue;
    }
    for (FigureCall& other : calls_beside(call, json["beside"])) {
      row.terms.push_back({call, std::move(other)});
    }
  }
  if (row.terms.empty() && row.reason.empty()) throw Error("no 'figure', and no 'reason' why not");
  if (row.terms.size() > 1 && row.together.empty() && row.kind != kOrderedRow) {
    throw Error("several figures and no 'together'");
  }
  return row;
}

SimulatedGroup read_group(const PlainJson& json) {
  check_keys(json, {"group", "kind", "part", "with", "stack", "constants", "equal constants",
                    "of the phone", "phone", "rows"});
  SimulatedGroup group{string_of(json, "group")};
  group.stack = string_of(json, "stack");
  group.constants = list_of(json, "constants");
  group.equal_constants = list_of(json, "equal constants");
  group.is_of_phone = json.value("of the phone", false);
  group.phone = string_of(json, "phone");
  if (group.name.empty() || !json.contains("rows")) throw Error("a group without name or rows");
  for (const PlainJson& row : json["rows"]) {
    try {
      group.rows.push_back(read_row(row, json));
    } catch (const std::exception& error) {
      throw Error(
          fmt::format("in '{}', row {}: {}", group.name, row.value("row", "?"), error.what()));
    }
  }
  return group;
}

TakenConstant read_taken(const PlainJson& json) {
  check_keys(json, {"row", "value", "stack", "constant", "factor"});
  TakenConstant taken{string_of(json, "row"), string_of(json, "value"), string_of(json, "stack"),
                      string_of(json, "constant")};
  taken.factor = json.value("factor", 1.0);
  if (taken.id.empty() || taken.constant.empty()) throw Error("no 'row' or no 'constant'");
  return taken;
}

GivenValue read_given(const PlainJson& json) {
  check_keys(json, {"name", "row", "value", "number", "why"});
  GivenValue given{string_of(json, "name"), string_of(json, "row"), string_of(json, "value")};
  given.why = string_of(json, "why");
  if (given.name.empty()) throw Error("something given without a 'name'");
  if (json.contains("number") == !given.id.empty()) {
    throw Error(fmt::format("'{}' given with both a 'row' and a 'number', or neither", given.name));
  }
  if (!given.id.empty()) return given;
  if (given.why.empty()) {
    throw Error(fmt::format("'{}' given as a number, without a 'why'", given.name));
  }
  const PlainJson& numbers = json["number"];
  const auto take = [&](const PlainJson& one) {
    if (!one.is_number()) throw Error(fmt::format("'{}' given as no number", given.name));
    given.numbers.push_back(one.get<double>());
  };
  if (!numbers.is_array()) take(numbers);
  if (numbers.is_array()) std::for_each(numbers.begin(), numbers.end(), take);
  if (given.numbers.empty()) throw Error(fmt::format("'{}' given as an empty list", given.name));
  return given;
}

RowList read_row_list(const PlainJson& json) {
  check_keys(json, {"name", "rows", "reason"});
  RowList list{string_of(json, "name"), list_of(json, "rows"), string_of(json, "reason")};
  if (list.name.empty() || list.ids.empty()) throw Error("a list without 'name' or 'rows'");
  return list;
}

// Throws Error where two of them have the same name.
template <typename Named>
void check_names(const std::vector<Named>& all) {
  for (size_t i = 1; i < all.size(); ++i) {
    const auto end = all.begin() + static_cast<std::ptrdiff_t>(i);
    const bool is_known = std::any_of(
        all.begin(), end, [&](const Named& other) { return other.name == all[i].name; });
    if (is_known) throw Error(fmt::format("'{}' twice", all[i].name));
  }
}

}  // namespace

const std::string& FigureCall::text(const std::string& name) const {
  const auto at = with.find(name);
  if (at == with.end()) throw Error(fmt::format("The figure '{}' needs '{}'.", figure, name));
  return at->second;
}

double FigureCall::number(const std::string& name) const {
  const std::string& text = this->text(name);
  double value = 0.0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) {
    throw Error(
        fmt::format("The figure '{}' needs a number as '{}', not '{}'.", figure, name, text));
  }
  return value;
}

int FigureCall::count(const std::string& name) const {
  const double value = number(name);
  if (value != std::floor(value) || value < 0 || value > 1e9) {
    throw Error(fmt::format("The figure '{}' needs a whole number as '{}'.", figure, name));
  }
  return static_cast<int>(value);
}

SimulatedFile read_simulated(const std::string& path) {
  const std::optional<std::string> text = read_whole_file(path);
  if (!text) {
    throw Error(fmt::format("{} cannot be opened. Give the folder of phones by ‹phones›.", path));
  }
  const PlainJson json = parse_json(*text, path);
  try {
    if (json.is_discarded()) throw Error("it is no JSON text");
    check_keys(json, {"version", "given", "lists", "groups", "taken", "not simulated"});
    SimulatedFile file;
    if (json.contains("given")) {
      for (const PlainJson& given : json["given"]) file.given.push_back(read_given(given));
    }
    if (json.contains("lists")) {
      for (const PlainJson& list : json["lists"]) file.lists.push_back(read_row_list(list));
    }
    check_names(file.given);
    check_names(file.lists);
    if (!json.contains("groups")) throw Error("no 'groups'");
    for (const PlainJson& group : json["groups"]) file.groups.push_back(read_group(group));
    if (json.contains("taken")) {
      for (const PlainJson& taken : json["taken"]) file.taken.push_back(read_taken(taken));
    }
    if (json.contains("not simulated")) {
      for (const PlainJson& entry : json["not simulated"]) {
        check_keys(entry, {"rows", "value", "reason"});
        for (const std::string& id : list_of(entry, "rows")) {
          file.not_simulated.push_back({id, string_of(entry, "value"), string_of(entry, "reason")});
        }
      }
    }
    return file;
  } catch (const std::exception& error) {
    throw Error(fmt::format("{} cannot be read: {}.", path, error.what()));
  }
}

}  // namespace troika::plan
