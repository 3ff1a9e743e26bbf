// Holds the JSON text of a schema: finds what references mean, and names places for errors.
#pragma once

#include <list>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "grammar/limits.h"

namespace troika::grammar::schema {

using Json = nlohmann::ordered_json;

class Document {
 public:
  // Throws Error for a text that is no JSON, nests too deeply, or is of an unknown dialect.
  Document(std::string_view text, const Limits& limits);

  const Json& root() const { return root_; }
  // Returns the schema that a reference in `from` means. Throws Error, e.g. for a reference to
  // another document.
  const Json& target(const Json& from, const std::string& reference) const;
  // Says whether the schema is of draft 4, in which 1.0 is no integer. In later drafts it is one.
  bool is_draft_4() const;
  // Keeps a schema that stands in no text, but follows from the schema `from`.
  const Json& made(Json schema, const Json& from);
  // Returns the schema's place in the text, e.g. "#/properties/a". A schema from made() has the
  // place of the schema that it follows from.
  std::string place(const Json& schema) const;
  // Returns a number that grows through the text. Schemas from made() come behind all of the text.
  size_t order(const Json& schema) const;
  [[noreturn]] void refuse(const Json& schema, const std::string& keyword,
                           const std::string& why) const;

 private:
  void note(const Json& schema, const std::string& place);

  Json root_;
  std::list<Json> made_;
  struct Place {
    size_t order;
    std::string name;
  };
  std::map<const Json*, Place> places_;
  std::map<std::string, const Json*> by_place_;
  std::map<std::string, const Json*> anchors_;
};

}  // namespace troika::grammar::schema
