// A JSON schema as text and places: what a reference means, and how errors say where they are.
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
  // Throws Error for what is no JSON, nests too deeply, or is of a dialect that is not known.
  Document(std::string_view text, const Limits& limits);

  const Json& root() const { return root_; }
  // What a reference in `from` means. Throws Error, e.g. for one to another document.
  const Json& target(const Json& from, const std::string& reference) const;
  // Draft 4 takes 1.0 for no integer; what came later does.
  bool is_draft_4() const;
  // A schema that stands in no text but follows from one that does.
  const Json& made(Json schema, const Json& from);
  // "#/properties/a", also for made ones.
  std::string place(const Json& schema) const;
  // A number that grows through the text; made ones stand behind it.
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
