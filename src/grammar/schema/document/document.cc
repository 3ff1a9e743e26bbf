#include "grammar/schema/document/document.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "grammar/schema/document/addresses.h"

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

std::string text_of(const Json& schema, const char* keyword) {
  const auto found = schema.find(keyword);
  return found != schema.end() && found->is_string() ? found->get<std::string>() : "";
}

constexpr const char* kReferences[] = {"$ref", "$dynamicRef", "$recursiveRef"};

}  // namespace

Document::Document(std::string_view text, const Limits& limits) : root_(parse(text, limits)) {
  resources_.push_back({"", "#"});
  note(root_, "#", 0, Role::kSchema);
  n_in_text_ = places_.size();
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

// Says what stands below a key of something.
Document::Role Document::role_below(Role role, const std::string& key) {
  constexpr const char* kOfSchema[] = {"additionalItems",
                                       "additionalProperties",
                                       "allOf",
                                       "anyOf",
                                       "contains",
                                       "else",
                                       "if",
                                       "items",
                                       "not",
                                       "oneOf",
                                       "prefixItems",
                                       "propertyNames",
                                       "then",
                                       "unevaluatedItems",
                                       "unevaluatedProperties"};
  constexpr const char* kOfSchemas[] = {"$defs",      "definitions",      "dependencies",
                                        "properties", "dependentSchemas", "patternProperties"};
  const auto is = [&](const char* name) { return key == name; };
  if (role == Role::kSchemas) return Role::kSchema;
  if (role == Role::kOther) return Role::kOther;
  if (std::any_of(std::begin(kOfSchemas), std::end(kOfSchemas), is)) return Role::kSchemas;
  const bool is_schema = std::any_of(std::begin(kOfSchema), std::end(kOfSchema), is);
  return is_schema ? Role::kSchema : Role::kOther;
}

// Says whether the schema is of a draft in which nothing counts beside "$ref".
bool Document::is_old() const {
  const std::string dialect = root_.is_object() ? text_of(root_, "$schema") : "";
  return dialect.find("/draft-0") != std::string::npos;
}

// Returns the resource of a schema, a new one if it has an address of its own.
size_t Document::note_address(const Json& schema, const std::string& place, size_t resource) {
  const std::string id = text_of(schema, is_draft_4() ? "id" : "$id");
  if (schema.contains("$id")) addressed_.insert(&schema);
  if (is_old() && schema.contains("$ref")) return resource;
  if (id.empty()) return resource;
  if (id.starts_with("#")) {  // so older drafts wrote "$anchor"
    resources_[resource].anchors.emplace(id.substr(1), &schema);
    return resource;
  }
  std::string address = resolved_address(resources_[resource].address, id);
  address.erase(std::min(address.find('#'), address.size()));
  if (&schema == &root_) {
    resources_[0].address = address;
  } else {
    resource = resources_.size();
    resources_.push_back({address, place});
  }
  by_address_.emplace(address, resource);
  return resource;
}

void Document::note(const Json& schema, const std::string& place, size_t resource, Role role) {
  if (schema.is_object() && role == Role::kSchema) {
    resource = note_address(schema, place, resource);
    for (const char* const keyword : {"$anchor", "$dynamicAnchor"}) {
      const std::string anchor = text_of(schema, keyword);
      if (anchor.empty()) continue;
      resources_[resource].anchors.emplace(anchor, &schema);
      if (std::string_view(keyword) == "$dynamicAnchor") dynamic_[anchor].push_back(&schema);
    }
    const auto recursive = schema.find("$recursiveAnchor");
    if (recursive != schema.end() && *recursive == true) resources_[resource].is_recursive = true;
    has_unevaluated_ = has_unevaluated_ || schema.contains("unevaluatedItems") ||
                       schema.contains("unevaluatedProperties");
  }
  places_[&schema] = {places_.size(), place, resource};
  by_place_[place] = &schema;
  if (schema.is_object()) {
    for (const auto& [key, value] : schema.items()) {
      note(value, place + "/" + escaped(key), resource, role_below(role, key));
    }
  } else if (schema.is_array()) {
    const Role below = role == Role::kSchema ? role : Role::kOther;
    for (size_t i = 0; i < schema.size(); ++i) {
      note(schema[i], fmt::format("{}/{}", place, i), resource, below);
    }
  }
}

bool Document::is_draft_4() const {
  return root_.is_object() && text_of(root_, "$schema").find("/draft-04/") != std::string::npos;
}

std::vector<const Json*> Document::targets(const Json& from) const {
  std::vector<const Json*> all;
  for (const char* const keyword : kReferences) {
    if (from.contains(keyword)) all.push_back(&target(from, keyword));
  }
  return all;
}

const Json& Document::target(const Json& from, const std::string& keyword) const {
  if (!from[keyword].is_string()) refuse(from, keyword, "a text is expected");
  const auto reference = from[keyword].get<std::string>();
  const Json& target = target_of(from, keyword, reference);
  if (keyword == "$recursiveRef") {
    const auto is_recursive = [](const Resource& r) { return r.is_recursive; };
    const auto n = std::count_if(resources_.begin(), resources_.end(), is_recursive);
    const bool is_root = target.is_object() && target.contains("$recursiveAnchor");
    if (n > 1 && is_root) refuse(from, keyword, "beside other addresses this is not supported");
  }
  if (keyword != "$dynamicRef") return target;
  // Where one schema alone has the dynamic anchor, the reference means it from wherever one comes.
  const size_t mark = reference.find('#');
  const std::string name = mark == reference.npos ? "" : reference.substr(mark + 1);
  const auto named = dynamic_.find(name);
  const bool is_dynamic = named != dynamic_.end() && text_of(target, "$dynamicAnchor") == name;
  if (is_dynamic && named->second.size() > 1) {
    refuse(from, keyword, "where several schemas have this anchor, this is not supported");
  }
  return target;
}

const Json& Document::target_of(const Json& from, const std::string& keyword,
                                const std::string& reference) const {
  const size_t mark = std::min(reference.find('#'), reference.size());
  size_t resource = places_.at(&from).resource;
  if (mark > 0) {
    std::string address = resolved_address(resources_[resource].address, reference);
    address.erase(std::min(address.find('#'), address.size()));
    const auto found = by_address_.find(address);
    if (found == by_address_.end()) {
      refuse(from, keyword,
             fmt::format("'{}' is in another document, and none is fetched", reference));
    }
    resource = found->second;
  }
  const std::string fragment = unescaped_address(std::string_view(reference).substr(mark));
  const Resource& in = resources_[resource];
  if (fragment.size() < 2 || fragment[1] == '/') {
    const std::string rest = fragment.empty() ? "" : fragment.substr(1);
    const auto found = by_place_.find(in.place + rest);
    if (found != by_place_.end()) return *found->second;
  } else {
    const auto anchor = in.anchors.find(fragment.substr(1));
    if (anchor != in.anchors.end()) return *anchor->second;
  }
  refuse(from, keyword, fmt::format("there is no '{}'", reference));
}

const Json& Document::made(Json schema, const Json& from) {
  made_.push_back(std::move(schema));
  std::list<const Json*> open = {&made_.back()};
  const std::string where = place(from);
  const auto origin = places_.find(&from);
  const size_t resource = origin == places_.end() ? 0 : origin->second.resource;
  while (!open.empty()) {
    const Json& part = *open.front();
    open.pop_front();
    places_[&part] = {places_.size(), where, resource};
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
