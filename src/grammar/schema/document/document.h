// Holds the JSON text of a schema: finds what references mean, and names places for errors.
#pragma once

#include <list>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "grammar/limits.h"
#include "grammar/pool.h"

namespace troika::grammar::schema {

using Json = nlohmann::ordered_json;

// Says whether a schema that names its dialect so ("$schema") can be read as one of that dialect.
bool is_known_dialect(std::string_view name);

class Document {
 public:
  // Throws Error for a text that is no JSON, nests too deeply, or is of an unknown dialect. Counts
  // the work of the document as steps of the pool, here and later: one for each value, and more
  // where texts are long.
  Document(std::string_view text, const Limits& limits, Pool* pool);

  const Json& root() const { return root_; }
  // Returns the schemas that the references of `from` mean. Throws Error, e.g. for a reference to
  // another document.
  std::vector<const Json*> targets(const Json& from) const;
  // Returns the schema that one of its references means, "$ref" or another keyword of that kind.
  const Json& target(const Json& from, const std::string& keyword) const;
  // Keeps a schema that stands in no text, but follows from the schema `from`.
  const Json& made(Json schema, const Json& from);
  // Returns the schema's place in the text, e.g. "#/properties/a". A schema from made() has the
  // place of the schema that it follows from.
  std::string place(const Json& schema) const;
  // Returns a number that grows through the text. Schemas from made() come behind all of the text.
  size_t order(const Json& schema) const;
  // Says whether the schema's own address was read. It is not where no schema can stand.
  bool is_addressed(const Json& schema) const { return addressed_.count(&schema) > 0; }
  bool is_made(const Json& schema) const { return order(schema) >= n_in_text_; }
  // Says whether some schema speaks of what no other schema has looked at.
  bool has_unevaluated() const { return has_unevaluated_; }
  [[noreturn]] void refuse(const Json& schema, const std::string& keyword,
                           const std::string& why) const;

 private:
  // What may stand somewhere in the text: a schema, schemas by their keys, values that a schema
  // names, or something else, which a reference may make a schema.
  enum class Role : uint8_t { kSchema, kSchemas, kValues, kOther };
  // A schema with an address of its own, and what belongs to it.
  struct Resource {
    std::string_view address;  // without a fragment; a key of by_address_
    const Json* schema;
    std::map<std::string, const Json*> anchors{};
    bool is_recursive = false;  // has "$recursiveAnchor"
  };
  void note(Json* schema, const Json* parent, uint32_t resource, Role role);
  void note_schema(const Json& schema, uint32_t resource);
  void set_aside_what_does_not_count(Json* schema);
  void find_dialect();
  uint32_t note_address(const Json& schema, uint32_t resource);
  static Role role_below(Role role, const std::string& key);
  const Json& target(const Json& from, const std::string& keyword,
                     const std::string& reference) const;
  const Json& named_by(const Json& from, const std::string& keyword,
                       const std::string& reference) const;
  const Json* pointed(const Json& from, std::string_view pointer) const;
  std::string step_to(const Json& parent, const Json& part) const;
  std::string resolved(std::string_view base, std::string_view reference) const;
  void count_bytes(size_t n) const;

  Pool& pool_;
  Json root_;
  bool is_old_ = false;  // says that nothing counts beside "$ref"
  bool is_draft_4_ = false;
  size_t n_in_text_ = 0;
  bool has_unevaluated_ = false;
  std::list<Json> made_;
  // Names are made when they are asked for: a value's own would be as long as all keys above it.
  struct Place {
    const Json* parent;  // what the value stands in; for a schema from made(), what it follows from
    uint32_t order;
    uint32_t resource;
  };
  std::unordered_map<const Json*, Place> places_;
  std::vector<Resource> resources_;
  std::map<std::string, uint32_t> by_address_;
  std::set<const Json*> addressed_;
  // What stood beside "$ref" where nothing counts there. References still find it.
  std::unordered_map<const Json*, Json> beside_;
  std::map<std::string, std::vector<const Json*>> dynamic_;       // schemas with "$dynamicAnchor"
  mutable std::unordered_map<const Json*, const Json*> targets_;  // by the text of the reference
};

}  // namespace troika::grammar::schema
