// Makes of a JSON schema (2020-12) an expression for compact JSON with keys in the schema's order.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "grammar/limits.h"
#include "grammar/pool.h"
#include "grammar/schema/constraints.h"
#include "grammar/schema/document/document.h"
#include "grammar/schema/json_text.h"

namespace troika::grammar::schema {

class SchemaReader {
 public:
  SchemaReader(std::string_view text, const Limits& limits, bool formats_bind,
               const std::optional<TextMarks>& marks, Pool* pool);

  Expr read();
  // Returns the values of a property of the root that are also of one of these types, given as
  // the keyword "type" has them.
  Expr read_property(const std::string& key, const Json& types);
  // Sets other marks for what is read from now on. REQUIRES: there were marks from the beginning.
  void set_marks(const TextMarks& marks);

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
  bool decide(Items* items, std::vector<Choice>* choices);
  void add_choices(const Json& schema, std::vector<Choice>* choices);
  bool leads_to_itself(const Json& schema) const;
  Choice one_of(const Json& schema);
  void add_condition(const Json& schema, std::vector<Choice>* choices);
  void add_dependencies(const Json& schema, std::vector<Choice>* choices);
  Choice list_of(const Json& schema, const char* keyword) const;
  const Json& group(bool is_any, const Choice& of, const Json& from);
  const Json& checked(const Json& schema) const;
  const Json& first_of(const Items& items) const;
  [[noreturn]] void refuse_so_many_ways(const Items& items) const;
  void add_item(const Item& item, Constraints* c) const;
  void count_compared(size_t n) const;
  bool is_same_counted(const Json& a, const Json& b) const;

  // These functions are in negation.cc.
  const Json& negated(const Json& schema, const Json& where, int depth);
  const Json& negated_group(const Json& schema, const Json& where, int depth);
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

  // These functions are in choices.cc.
  static constexpr int kMostDepth = 16;
  const Json* resolved(const Json& schema) const;
  uint8_t possible_types(const Json& schema, int depth) const;
  uint8_t types_of_keywords(const Json& schema, int depth) const;
  bool are_disjoint(const Json& a, const Json& b, int depth);
  bool parts_are_disjoint(const Json& a, const Json& b, int depth);
  bool values_are_disjoint(const Json& a, const Json& b) const;
  bool members_are_disjoint(const Json& a, const Json& b, int depth);
  bool has_no_place(const Json& schema, const std::string& key);
  bool requires_key(const Json& schema, const std::string& key) const;
  Choice flattened(const Choice& facts) const;
  bool follows(const Json& schema, const Choice& facts, int depth) const;
  bool excludes(const Choice& facts, const Json& value) const;
  bool keyword_follows(const std::string& keyword, const Json& schema, uint8_t types,
                       const Choice& facts, int depth) const;
  bool narrow(const Items& items, std::vector<Choice>* choices);

  // These functions are in evaluated.cc.
  Choice evaluated(const Json& schema, const Items& items) const;
  Choice any_of(const Json& schema);

  Expr plain(const Constraints& c);

  // These functions are in values.cc.
  Expr one_of_values(const Constraints& c);
  bool fits(const Json& value, const Constraints& c, std::optional<Expr>* inside);
  Expr value_text(const Json& value);

  // These functions are in strings.cc.
  Expr string_inside(const Constraints& c);
  Expr names_inside(const std::vector<const Json*>& names);
  Expr names_inside(Items items, const Json& where);
  Expr pattern(const Json& where, const std::string& keyword, const std::string& regex);
  Expr format(const Json& schema, const std::string& keyword);
  bool accepts(Expr inside, const std::string& text);

  // These functions are in arrays.cc.
  Expr array(const Constraints& c);
  Schemas element(const Constraints& c, uint64_t index) const;
  // A schema that at least and at most so many elements fit.
  struct Counted {
    const Json* fits;
    uint64_t least = 1;
    std::optional<uint64_t> most{};
    const Json* unlike = nullptr;                           // the negation, if there is a `most`
    uint64_t told() const { return most.value_or(least); }  // from here on the state stays the same
  };
  std::vector<Counted> counted(const Constraints& c);
  const Json& turned_round(const Json& schema, const std::string& keyword);
  Expr counted_elements(const Constraints& c, const std::vector<Counted>& all, uint64_t index,
                        size_t code, const std::vector<Expr>& then, const std::vector<Expr>& row);
  Expr containing(const Constraints& c, const std::vector<Counted>& all, uint64_t n_first);
  std::optional<std::vector<const Json*>> named_elements(const Schemas& schemas);
  Expr different_elements(const Constraints& c, const Json& where, uint64_t n_first, Expr lists);

  // These functions are in objects.cc.
  struct Member {
    std::string key;
    Schemas value;
    bool is_required;
  };
  Expr object(const Constraints& c);
  std::vector<std::string> declared_keys(const Constraints& c) const;
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
  // Keys that fit the same of some patterns.
  struct KeyKind {
    Expr key;
    std::vector<bool> fits;  // by pattern
  };
  std::vector<KeyKind> kinds_of_keys(const Constraints& c, Expr keys,
                                     const std::vector<std::pair<std::string, Expr>>& patterns);
  Expr other_member(const Constraints& c, const std::vector<Member>& members,
                    const std::vector<Wanted>& wanted, WantedSet fitting);
  Expr other_members(Expr member, const Constraints& c, uint64_t n_before);
  Followers with_member(const Member& declared, const std::vector<Wanted>& wanted,
                        const Followers& then);
  Expr wanted_members(const std::vector<Expr>& others, WantedSet missing, bool is_first);
  static const Json* additional(const Json& schema);
  template <typename SpeaksOf>
  const Json* additional(const Constraints& c, const Json& schema, const SpeaksOf& speaks_of) const;
  template <typename Declared>
  Schemas said_of(const Constraints& c, const Declared& declared);
  Expr member(const Member& member, const std::vector<Wanted>& wanted, WantedSet fitting);

  Document document_;
  Limits limits_;
  bool formats_bind_;
  Pool& pool_;
  JsonText text_;
  std::map<const Json*, Expr> value_texts_;
  std::map<Items, Expr> done_;
  std::unordered_map<std::string, const Json*> properties_;  // of the root, once one is asked for
  std::map<std::string, Expr> patterns_;                     // by the regular expression
  std::map<std::string, Expr> formats_;  // by the regular expression that says what they are
  std::map<const Json*, const Json*> negated_;
  std::map<const Json*, std::vector<Choice>> choices_;
  std::map<std::pair<bool, Choice>, const Json*> group_of_;
  std::map<const Json*, std::pair<bool, Choice>> groups_;
  mutable std::map<const Json*, uint8_t> types_;  // the types that values of a schema may have
  std::map<std::pair<const Json*, const Json*>, bool> disjoint_;
  int n_nested_ = 0;
  size_t n_choices_ = 0;
};

}  // namespace troika::grammar::schema
