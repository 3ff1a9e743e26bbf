#include "grammar/schema/document/document.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/json_marks.h"
#include "grammar/schema/document/addresses.h"

namespace troika::grammar::schema {
namespace {

// Counts the work of copying so many bytes, or of looking at so many things.
void count_work(size_t n, Pool* pool) {
  constexpr size_t kInAStep = 16;
  for (size_t i = 0; i < n; i += kInAStep) pool->count_step();
}

Json parse(std::string_view text, const Limits& limits, Pool* pool) {
  count_work(text.size(), pool);
  // The reader of JSON compares each key of an object with those before it, so they are limited.
  visit_json_marks(text, [&](const JsonMark& mark) {
    // Behind each of these comes a value, but in what is empty.
    if (mark.c == '[' || mark.c == '{' || mark.c == ',') pool->count_step();
    if (mark.n_keys > limits.n_keys) {
      throw Error(fmt::format("The schema has an object of more than {} keys.", limits.n_keys));
    }
    if (mark.n_levels > static_cast<size_t>(limits.n_nested)) {
      throw Error(fmt::format("The schema nests more than {} levels deep.", limits.n_nested));
    }
    return true;
  });
  try {
    return Json::parse(text);
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

// Returns the key that a step of a pointer names, or nothing if it is no such step.
std::optional<std::string> unescaped(std::string_view step) {
  std::string out;
  for (size_t i = 0; i < step.size(); ++i) {
    if (step[i] != '~') {
      out += step[i];
      continue;
    }
    if (++i == step.size() || (step[i] != '0' && step[i] != '1')) return std::nullopt;
    out += step[i] == '0' ? '~' : '/';
  }
  return out;
}

std::string text_of(const Json& schema, const char* keyword) {
  const auto found = schema.find(keyword);
  return found != schema.end() && found->is_string() ? found->get<std::string>() : "";
}

constexpr const char* kReferences[] = {"$ref", "$dynamicRef", "$recursiveRef"};

}  // namespace

Document::Document(std::string_view text, const Limits& limits, Pool* pool)
    : pool_(*pool), root_(parse(text, limits, pool)) {
  if (root_.is_object() && root_.contains("$schema")) find_dialect();
  resources_.push_back({"", &root_});
  note(&root_, nullptr, 0, Role::kSchema);
  n_in_text_ = places_.size();
}

bool is_known_dialect(std::string_view name) {
  constexpr const char* kDialects[] = {"/draft/2020-12/schema", "/draft/2019-09/schema",
                                       "/draft-07/schema", "/draft-06/schema", "/draft-04/schema"};
  return std::any_of(std::begin(kDialects), std::end(kDialects), [&](const char* known) {
    return name.find(std::string("json-schema.org") + known) != std::string_view::npos;
  });
}

// Finds out which draft of JSON Schema the document follows.
void Document::find_dialect() {
  const std::string name = text_of(root_, "$schema");
  if (!is_known_dialect(name)) refuse(root_, "$schema", "this dialect is not known");
  is_old_ = name.find("/draft-0") != std::string::npos;
  is_draft_4_ = name.find("/draft-04/") != std::string::npos;
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
  if (role == Role::kValues || key == "enum" || key == "const") return Role::kValues;
  if (role == Role::kOther) return Role::kOther;
  if (std::any_of(std::begin(kOfSchemas), std::end(kOfSchemas), is)) return Role::kSchemas;
  const bool is_schema = std::any_of(std::begin(kOfSchema), std::end(kOfSchema), is);
  return is_schema ? Role::kSchema : Role::kOther;
}

void Document::count_bytes(size_t n) const { count_work(n, &pool_); }

// Returns the address that a reference means, without a fragment.
std::string Document::resolved(std::string_view base, std::string_view reference) const {
  count_bytes(base.size() + reference.size());
  std::string address = resolved_address(base, reference);
  address.erase(std::min(address.find('#'), address.size()));
  return address;
}

// Returns the resource of a schema, a new one if it has an address of its own.
uint32_t Document::note_address(const Json& schema, uint32_t resource) {
  const std::string id = text_of(schema, is_draft_4_ ? "id" : "$id");
  if (schema.contains("$id")) addressed_.insert(&schema);
  if (id.empty()) return resource;
  if (id.starts_with("#")) {  // so older drafts wrote "$anchor"
    resources_[resource].anchors.emplace(id.substr(1), &schema);
    return resource;
  }
  const bool is_root = &schema == &root_;
  const uint32_t own = is_root ? 0 : static_cast<uint32_t>(resources_.size());
  // Where two schemas have the same address, it is the first one's.
  const auto known = by_address_.emplace(resolved(resources_[resource].address, id), own).first;
  if (!is_root) resources_.push_back({"", &schema});
  resources_[own].address = known->first;
  return own;
}

// Old drafts ignore all keywords beside "$ref". Takes these out of the schema, so that no reader
// sees them.
void Document::set_aside_what_does_not_count(Json* schema) {
  const bool is_reference = is_old_ && schema->is_object() && schema->size() > 1 &&
                            schema->contains("$ref") && (*schema)["$ref"].is_string();
  if (!is_reference) return;
  Json alone = Json::object();
  alone["$ref"] = std::move((*schema)["$ref"]);
  schema->erase("$ref");
  beside_.emplace(schema, std::exchange(*schema, std::move(alone)));
}

// Notes what a schema says about itself.
void Document::note_schema(const Json& schema, uint32_t resource) {
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

void Document::note(Json* schema, const Json* parent, uint32_t resource, Role role) {
  const bool may_refer = role == Role::kSchema || role == Role::kOther;
  if (may_refer) set_aside_what_does_not_count(schema);
  if (schema->is_object() && role == Role::kSchema) {
    resource = note_address(*schema, resource);
    note_schema(*schema, resource);
  }
  places_.emplace(schema, Place{parent, static_cast<uint32_t>(places_.size()), resource});
  const auto note_members = [&](Json* of) {
    for (auto& [key, value] : of->items()) note(&value, schema, resource, role_below(role, key));
  };
  if (schema->is_object()) {
    note_members(schema);
    const auto beside = beside_.find(schema);
    if (beside != beside_.end()) note_members(&beside->second);
  } else if (schema->is_array()) {
    const Role below = role == Role::kSchemas ? Role::kOther : role;
    for (Json& part : *schema) note(&part, schema, resource, below);
  }
}

std::vector<const Json*> Document::targets(const Json& from) const {
  std::vector<const Json*> all;
  for (const char* const keyword : kReferences) {
    if (from.contains(keyword)) all.push_back(&target(from, keyword));
  }
  return all;
}

const Json& Document::target(const Json& from, const std::string& keyword) const {
  const Json& reference = from[keyword];
  const auto known = targets_.find(&reference);
  if (known != targets_.end()) return *known->second;
  if (!reference.is_string()) refuse(from, keyword, "a text is expected");
  const Json& target = this->target(from, keyword, reference.get_ref<const std::string&>());
  targets_.emplace(&reference, &target);
  return target;
}

const Json& Document::target(const Json& from, const std::string& keyword,
                             const std::string& reference) const {
  const Json& target = named_by(from, keyword, reference);
  if (keyword == "$recursiveRef") {
    const auto is_recursive = [](const Resource& r) { return r.is_recursive; };
    count_bytes(resources_.size());
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

// Returns what a reference names.
const Json& Document::named_by(const Json& from, const std::string& keyword,
                               const std::string& reference) const {
  const size_t mark = std::min(reference.find('#'), reference.size());
  uint32_t resource = places_.at(&from).resource;
  if (mark > 0) {
    const auto found = by_address_.find(resolved(resources_[resource].address, reference));
    if (found == by_address_.end()) {
      refuse(from, keyword,
             fmt::format("'{}' is in another document, and none is fetched", reference));
    }
    resource = found->second;
  }
  count_bytes(reference.size());
  const std::string fragment = unescaped_address(std::string_view(reference).substr(mark));
  const Resource& in = resources_[resource];
  if (fragment.size() < 2 || fragment[1] == '/') {
    const std::string_view pointer = fragment;
    const Json* const found =
        pointed(*in.schema, pointer.substr(std::min<size_t>(1, pointer.size())));
    if (found != nullptr) return *found;
  } else {
    const auto anchor = in.anchors.find(fragment.substr(1));
    if (anchor != in.anchors.end()) return *anchor->second;
  }
  refuse(from, keyword, fmt::format("there is no '{}'", reference));
}

// Returns what a pointer names from somewhere on, e.g. "/properties/a"; null if nothing is there.
const Json* Document::pointed(const Json& from, std::string_view pointer) const {
  const Json* at = &from;
  while (!pointer.empty()) {
    const size_t end = std::min(pointer.find('/', 1), pointer.size());
    const std::string_view step = pointer.substr(1, end - 1);
    pointer.remove_prefix(end);
    if (at->is_array()) {
      constexpr size_t kMostDigits = 9;
      const bool is_number = !step.empty() && step.size() <= kMostDigits &&
                             step.find_first_not_of("0123456789") == step.npos &&
                             (step.size() == 1 || step.front() != '0');
      const size_t index = is_number ? std::stoul(std::string(step)) : at->size();
      if (index >= at->size()) return nullptr;
      at = &(*at)[index];
      continue;
    }
    const auto key = unescaped(step);
    if (!at->is_object() || !key) return nullptr;
    const auto beside = beside_.find(at);
    const Json* const in = *key == "$ref" || beside == beside_.end() ? at : &beside->second;
    count_bytes(in->size());  // keys are compared one by one
    const auto found = in->find(*key);
    if (found == in->end()) return nullptr;
    at = &*found;
  }
  return at;
}

const Json& Document::made(Json schema, const Json& from) {
  made_.push_back(std::move(schema));
  std::list<const Json*> open = {&made_.back()};
  const auto origin = places_.find(&from);
  const uint32_t resource = origin == places_.end() ? 0 : origin->second.resource;
  while (!open.empty()) {
    const Json& part = *open.front();
    open.pop_front();
    pool_.count_step();
    places_.emplace(&part, Place{&from, static_cast<uint32_t>(places_.size()), resource});
    if (!part.is_structured()) continue;
    for (const Json& inner : part) open.push_back(&inner);
  }
  return made_.back();
}

// Returns the step of a pointer that leads from a value to a part of it.
std::string Document::step_to(const Json& parent, const Json& part) const {
  if (parent.is_array()) return std::to_string(&part - &parent.front());
  for (const auto& [key, value] : parent.items()) {
    if (&value == &part) return escaped(key);
  }
  const auto beside = beside_.find(&parent);
  return beside == beside_.end() ? "" : step_to(beside->second, part);
}

std::string Document::place(const Json& schema) const {
  std::vector<std::string> steps;
  const Json* at = &schema;
  for (auto found = places_.find(at); found != places_.end(); found = places_.find(at)) {
    const Place& place = found->second;
    if (place.parent == nullptr) break;
    if (place.order < n_in_text_) steps.push_back(step_to(*place.parent, *at));
    at = place.parent;
  }
  std::string name = "#";
  for (size_t i = steps.size(); i > 0; --i) name += "/" + steps[i - 1];
  return name;
}

size_t Document::order(const Json& schema) const { return places_.at(&schema).order; }

void Document::refuse(const Json& schema, const std::string& keyword,
                      const std::string& why) const {
  throw Error(fmt::format("The schema's {}{}{}: {}.", place(schema), keyword.empty() ? "" : "/",
                          keyword, why));
}

}  // namespace troika::grammar::schema
