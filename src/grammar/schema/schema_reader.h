// Makes of a JSON schema (2020-12) an expression for compact JSON with keys in the schema's order.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "grammar/limits.h"
#include "grammar/pool.h"
#include "grammar/schema/constraints.h"
#include "grammar/schema/document.h"
#include "grammar/schema/json_text.h"

namespace troika::grammar::schema {

class SchemaReader {
 public:
  SchemaReader(std::string_view text, const Limits& limits, bool formats_bind,
               const std::optional<TextMarks>& marks, Pool* pool);

  Expr read();

 private:
  // One of the schemas for a value. A bare item's keywords that lead to further schemas for the
  // value are taken care of already.
  struct Item {
    size_t order;  // the schema's order in the document, which sorts keys
    const Json* schema;
    bool is_bare;
    auto operator<=>(const Item&) const = default;
  };
  using Items = std::set<Item>;
  using Choice = std::vector<const Json*>;

  Item item_of(const Json& schema) const { return {document_.order(schema), &schema, false}; }
  Expr value_of(const Schemas& schemas);
  Expr value_of(const Items& items);
  Expr written(Items items);
  bool open_up(Items* items, std::vector<Choice>* choices);
  void add_choices(const Json& schema, std::vector<Choice>* choices);
  bool leads_to_itself(const Json& schema) const;
  Choice one_of(const Json& schema);
  void add_condition(const Json& schema, std::vector<Choice>* choices);
  void add_dependencies(const Json& schema, std::vector<Choice>* choices);
  Choice list_of(const Json& schema, const char* keyword) const;
  const Json& group(bool is_any, const Choice& of, const Json& from);
  const Json& checked(const Json& schema) const;
  void add_item(const Item& item, Constraints* c) const;
  void count_compared(size_t n) const;

  // These functions are in negation.cc.
  const Json& negated(const Json& schema, const Json& where, int depth);
  bool are_disjoint(const Json& a, const Json& b, int depth) const;
  void add_broken_properties(const Json& properties, const Json& where, int depth, Choice* ways);
  bool add_broken_members(const std::string& keyword, const Json& value, const Json& schema,
                          const Json& where, int depth, Choice* ways);
  bool add_broken_elements(const std::string& keyword, const Json& value, const Json& schema,
                           const Json& where, int depth, Choice* ways);
  bool add_broken_dependencies(const std::string& keyword, const Json& value, const Json& where,
                               int depth, Choice* ways);
  bool add_broken_parts(const std::string& keyword, const Json& schema, const Json& where,
                        int depth, Choice* ways);
  void add_none_or_two(const Choice& of, const Json& where, int depth, Choice* ways);
  const Json* with_other_count(const std::string& keyword, const Json& value, const Json& where);
  const Json* with_other_bound(const std::string& keyword, const Json& value, const Json& where);
  uint8_t possible_types(const Json& schema, int depth) const;
  const Json* resolved(const Json& schema) const;

  Expr plain(const Constraints& c);
  Expr one_of_values(const Constraints& c);
  bool fits(const Json& value, const Constraints& c);

  // These functions are in strings.cc.
  Expr string_inside(const Constraints& c);
  Expr names_inside(const std::vector<const Json*>& names);
  Expr pattern(const Json& where, const std::string& keyword, const std::string& regex);
  Expr format(const Json& schema, const std::string& keyword);
  bool accepts(Expr inside, const std::string& text);

  // These functions are in arrays.cc.
  Expr array(const Constraints& c);
  Schemas element(const Constraints& c, uint64_t index) const;
  Expr containing(const Constraints& c, const Schemas& element);

  // These functions are in objects.cc.
  struct Member {
    std::string key;
    Schemas value;
    bool is_required;
  };
  Expr object(const Constraints& c);
  std::vector<Member> members(const Constraints& c);
  // Keys of which at least one must be there, with a value that fits.
  struct Wanted {
    Expr keys;  // the insides of the keys
    const Json* value;
  };
  // A set of those that are wanted, as bits.
  using WantedSet = uint32_t;
  // What may follow, by the wanted members that are missing and the number of members before.
  using Followers = std::vector<std::vector<Expr>>;
  Schemas value_for(const Constraints& c, const std::string& key);
  std::vector<Wanted> wanted(const Constraints& c);
  Expr other_member(const Constraints& c, const std::vector<Member>& members,
                    const std::vector<Wanted>& wanted, WantedSet fitting);
  Expr other_members(Expr member, const Constraints& c, uint64_t n_before);
  Followers with_member(const Member& declared, const std::vector<Wanted>& wanted,
                        const Followers& then);
  Expr wanted_members(const std::vector<Expr>& others, WantedSet missing, bool is_first);
  static const Json* additional(const Json& schema);
  Expr member(const Member& member, const std::vector<Wanted>& wanted, WantedSet fitting);

  Document document_;
  Limits limits_;
  bool formats_bind_;
  Pool& pool_;
  JsonText text_;
  std::map<Items, Expr> done_;
  std::map<std::string, Expr> patterns_;
  std::map<const Json*, const Json*> negated_;
  std::map<const Json*, std::vector<Choice>> choices_;
  std::map<std::pair<bool, Choice>, const Json*> group_of_;
  std::map<const Json*, std::pair<bool, Choice>> groups_;
  int n_nested_ = 0;
};

}  // namespace troika::grammar::schema
