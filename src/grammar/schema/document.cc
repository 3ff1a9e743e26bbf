#include "grammar/schema/document.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "base/error.h"

namespace troika::grammar::schema {
namespace {

Json parse(std::string_view text, const Limits& limits) {
  // The reader of JSON compares each key of an object with those before it, so they are limited.
  std::vector<size_t> n_keys;  // by the level of objects
  const auto check = [&](int depth, Json::parse_event_t event, Json&) {
    using Event = Json::parse_event_t;
    if (event == Event::object_start) n_keys.push_back(0);
    if (event == Event::object_end) n_keys.pop_back();
    if (event == Event::key && ++n_keys.back() > limits.n_keys) {
      throw Error(fmt::format("The schema has an object of more than {} keys.", limits.n_keys));
    }
    if (depth > limits.n_nested) {
      throw Error(fmt::format("The schema nests more than {} levels deep.", limits.n_nested));
    }
    return true;
  };
  try {
    return Json::parse(text, check);
  } catch (const nlohmann::json::parse_error& error) {
    throw Error(
        fmt::format("The schema is no JSON text: something is wrong at byte {}.", error.byte));
  } catch (const nlohmann::json::exception&) {
    throw Error("The schema is no JSON text: it has numbers or characters that cannot be read.");
  }
}

std::string escaped(const std::string& key) {
  std::string out;
  for (const char c : key) {
    if (c == '~') {
      out += "~0";
    } else if (c == '/') {
      out += "~1";
    } else {
      out += c;
    }
  }
  return out;
}

// Decodes e.g. %41 to A, as references are URIs.
std::string unescaped_uri(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto digit = [&](size_t at) {
      constexpr std::string_view kDigits = "0123456789abcdef";
      const char c = at < text.size() ? text[at] : ' ';
      return kDigits.find(static_cast<char>(c >= 'A' && c <= 'F' ? c | 0x20 : c));
    };
    if (text[i] == '%' && digit(i + 1) < 16 && digit(i + 2) < 16) {
      out += static_cast<char>(digit(i + 1) * 16 + digit(i + 2));
      i += 2;
    } else {
      out += text[i];
    }
  }
  return out;
}

}  // namespace

Document::Document(std::string_view text, const Limits& limits) : root_(parse(text, limits)) {
  note(root_, "#");
  if (!root_.is_object() || !root_.contains("$schema")) return;
  const Json& dialect = root_["$schema"];
  const std::string name = dialect.is_string() ? dialect.get<std::string>() : "";
  constexpr const char* kDialects[] = {"/draft/2020-12/schema", "/draft/2019-09/schema",
                                       "/draft-07/schema", "/draft-06/schema", "/draft-04/schema"};
  const bool is_known =
      std::any_of(std::begin(kDialects), std::end(kDialects), [&](const char* known) {
        return name.find(std::string("json-schema.org") + known) != std::string::npos;
      });
  if (!is_known) refuse(root_, "$schema", "this dialect is not known");
}

void Document::note(const Json& schema, const std::string& place) {
  places_[&schema] = {places_.size(), place};
  by_place_[place] = &schema;
  if (schema.is_object()) {
    for (const char* const keyword : {"$anchor", "$dynamicAnchor"}) {
      const auto anchor = schema.find(keyword);
      if (anchor != schema.end() && anchor->is_string()) {
        anchors_.emplace(anchor->get<std::string>(), &schema);
      }
    }
    for (const auto& [key, value] : schema.items()) note(value, place + "/" + escaped(key));
  } else if (schema.is_array()) {
    for (size_t i = 0; i < schema.size(); ++i) note(schema[i], fmt::format("{}/{}", place, i));
  }
}

bool Document::is_draft_4() const {
  if (!root_.is_object() || !root_.contains("$schema")) return false;
  return root_["$schema"].get<std::string>().find("/draft-04/") != std::string::npos;
}

const Json& Document::target(const Json& from, const std::string& reference) const {
  const auto id = root_.is_object() ? root_.find("$id") : root_.end();
  std::string local = reference;
  if (id != root_.end() && id->is_string() && local.starts_with(id->get<std::string>())) {
    local.erase(0, id->get<std::string>().size());
    if (local.empty()) local = "#";
  }
  if (!local.starts_with("#")) {
    refuse(from, "$ref",
           fmt::format("'{}' is in another document, and none is fetched", reference));
  }
  local = unescaped_uri(local);
  const auto found = by_place_.find(local);
  if (found != by_place_.end()) return *found->second;
  const auto anchor = anchors_.find(local.substr(1));
  if (anchor != anchors_.end()) return *anchor->second;
  refuse(from, "$ref", fmt::format("there is no '{}'", reference));
}

const Json& Document::made(Json schema, const Json& from) {
  made_.push_back(std::move(schema));
  std::list<const Json*> open = {&made_.back()};
  const std::string where = place(from);
  while (!open.empty()) {
    const Json& part = *open.front();
    open.pop_front();
    places_[&part] = {places_.size(), where};
    if (!part.is_structured()) continue;
    for (const Json& inner : part) open.push_back(&inner);
  }
  return made_.back();
}

std::string Document::place(const Json& schema) const {
  const auto found = places_.find(&schema);
  return found == places_.end() ? "#" : found->second.name;
}

size_t Document::order(const Json& schema) const { return places_.at(&schema).order; }

void Document::refuse(const Json& schema, const std::string& keyword,
                      const std::string& why) const {
  throw Error(fmt::format("The schema's {}{}{}: {}.", place(schema), keyword.empty() ? "" : "/",
                          keyword, why));
}

}  // namespace troika::grammar::schema
