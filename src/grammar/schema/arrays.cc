// Makes expressions of arrays: the first elements may have schemas of their own, the others share
// one, and the number of elements may be limited.
#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "grammar/schema/schema_reader.h"

namespace troika::grammar::schema {
namespace {

// Returns the schemas of the first elements. Before 2020-12 the keywords for the first elements and
// for the others had other names.
const Json* first_elements(const Json& schema) {
  if (schema.contains("prefixItems")) return &schema["prefixItems"];
  const auto items = schema.find("items");
  return items != schema.end() && items->is_array() ? &*items : nullptr;
}

constexpr size_t kMostRows = 20'000;   // combinations of counts of elements
constexpr size_t kMostCounted = 3;     // schemas that fitting elements are counted of
constexpr size_t kMostDifferent = 32;  // values that are named where elements must differ

const Json* other_elements(const Json& schema) {
  const auto items = schema.find("items");
  if (items != schema.end() && !items->is_array()) return &*items;
  const bool is_old = items != schema.end() && schema.contains("additionalItems");
  return is_old ? &schema["additionalItems"] : nullptr;
}

}  // namespace

Schemas SchemaReader::element(const Constraints& c, uint64_t index) const {
  // Returns what the schema itself says about the element.
  const auto declared = [&](const Json& schema) {
    const Json* const first = first_elements(schema);
    return first != nullptr && index < first->size() ? &(*first)[index] : other_elements(schema);
  };
  Schemas schemas;
  for (const Json* schema : c.arrays) {
    pool_.count_step();
    const Json* of_element = declared(*schema);
    const auto before = c.evaluated.find(schema);
    if (of_element == nullptr && before != c.evaluated.end() &&
        schema->contains("unevaluatedItems")) {
      of_element = &(*schema)["unevaluatedItems"];
      bool has_contains = schema->contains("contains");
      count_compared(before->second.size());
      for (const Json* one : before->second) {
        has_contains |= one->contains("contains");
        if (declared(*one) != nullptr || one->contains("unevaluatedItems")) of_element = nullptr;
      }
      if (has_contains) {
        document_.refuse(*schema, "unevaluatedItems", "beside 'contains' this is not supported");
      }
    }
    if (of_element != nullptr) schemas.insert(&checked(*of_element));
  }
  return schemas;
}

// Returns what is said about the number of elements that fit a schema.
std::vector<SchemaReader::Counted> SchemaReader::counted(const Constraints& c) {
  std::vector<Counted> all;
  for (const Json* schema : c.arrays) {
    if (!schema->contains("contains")) continue;
    Counted counted{.fits = &checked((*schema)["contains"])};
    if (schema->contains("minContains")) {
      counted.least = count_of(*schema, "minContains", document_);
    }
    if (schema->contains("maxContains")) {
      counted.most = count_of(*schema, "maxContains", document_);
      counted.unlike = &turned_round(*schema, "contains");
    }
    if (counted.least > 0 || counted.most) all.push_back(counted);
  }
  return all;
}

// Returns the negation of what the keyword asks. Throws Error that names the keyword.
const Json& SchemaReader::turned_round(const Json& schema, const std::string& keyword) {
  try {
    return negated(checked(schema[keyword]), schema, 0);
  } catch (const TooMuchWork&) {
    throw;
  } catch (const Error&) {
    document_.refuse(schema, keyword,
                     "elements cannot be counted that fit this, because what does not fit it "
                     "cannot be said in a grammar");
  }
}

// Returns what may follow `index` elements, of which counts[i] fit the schema i that is counted.
// One more element leads to one of the expressions of `then`, or to one of those of `row` that are
// known.
Expr SchemaReader::counted_elements(const Constraints& c, const std::vector<Counted>& all,
                                    uint64_t index, size_t code, const std::vector<Expr>& then,
                                    const std::vector<Expr>& row) {
  bool is_enough = index >= c.min_items;
  const bool may_go_on = !c.max_items || index < *c.max_items;
  Expr again = Pool::kNone;  // elements behind which everything is as before
  std::vector<Expr> ways;
  const Schemas of_element = element(c, index);
  for (uint32_t set = 0; set < 1u << all.size(); ++set) {
    count_compared(of_element.size());
    Schemas schemas = of_element;
    size_t next = code, rest = code, unit = 1;
    bool is_way = may_go_on;
    for (size_t i = 0; i < all.size(); ++i) {
      const size_t n_counts = all[i].told() + 1, count = rest % n_counts;
      is_enough &= count >= all[i].least;
      if ((set >> i & 1) != 0) {
        is_way &= count < all[i].told();
        schemas.insert(all[i].fits);
        next += unit;
      } else if (all[i].most) {
        schemas.insert(all[i].unlike);
      }
      rest /= n_counts;
      unit *= n_counts;
    }
    if (!is_way) continue;
    const Expr e = pool_.concat(index > 0 ? pool_.literal(",") : Pool::kEmpty, value_of(schemas));
    if (!then.empty()) {
      ways.push_back(pool_.concat(e, then[next]));
    } else if (next == code) {
      again = e;
    } else {
      ways.push_back(pool_.concat(e, row[next]));
    }
  }
  if (is_enough) ways.push_back(Pool::kEmpty);
  return pool_.concat(pool_.star(again), pool_.any(ways));
}

// Returns arrays of which so many elements fit "contains".
Expr SchemaReader::containing(const Constraints& c, const std::vector<Counted>& all,
                              uint64_t n_first) {
  // From this number of elements on, more make no difference. The first one is told from the others
  // because it stands without a comma.
  const uint64_t n_told = std::max<uint64_t>({1, n_first, c.min_items, c.max_items.value_or(0)});
  uint64_t n_rows = n_told + 1, n_codes = 1;
  for (const Counted& counted : all) {
    const uint64_t n_counts = std::min<uint64_t>(counted.told(), kMostRows) + 1;
    n_rows = std::min<uint64_t>(n_rows, kMostRows + 1) * n_counts;
    n_codes *= n_counts;
    if (all.size() <= kMostCounted && n_rows <= kMostRows) continue;
    document_.refuse(*c.origin, "contains", "beside so many counts this is not supported");
  }
  std::vector<Expr> then, row;
  for (uint64_t index = n_told + 1; index-- > 0;) {
    row.assign(n_codes, Pool::kNone);
    for (size_t code = n_codes; code-- > 0;) {
      const Expr e = counted_elements(c, all, index, code, then, row);
      // Several ways lead here, so a rule is made, which is written once.
      const Rule rule = pool_.add_rule("elements");
      pool_.set_rule(rule, e);
      row[code] = pool_.call(rule);
    }
    std::swap(then, row);
  }
  return then[0];
}

// Returns the values that each element must be one of, or nothing if there are too many.
std::optional<std::vector<const Json*>> SchemaReader::named_elements(const Schemas& schemas) {
  static const Json kNothing = nullptr, kFalse = false, kTrue = true;
  Items items;
  for (const Json* schema : schemas) items.insert(item_of(*schema));
  std::vector<Choice> choices;
  Constraints c;
  c.origin = &document_.root();
  if (!decide(&items, &choices)) return std::vector<const Json*>{};
  if (!choices.empty()) return std::nullopt;
  for (const Item& item : items) add_item(item, &c);
  std::vector<const Json*> values;
  if (c.values) {
    values = *c.values;
  } else if ((c.types & ~(kNull | kBoolean)) == 0) {
    values = {&kNothing, &kFalse, &kTrue};
  } else {
    return std::nullopt;
  }
  std::vector<const Json*> kept;
  std::optional<Expr> inside;
  count_compared(values.size() * values.size());
  for (const Json* const value : values) {
    const auto is_known = [&](const Json* other) { return is_same_counted(*value, *other); };
    if (std::any_of(kept.begin(), kept.end(), is_known)) continue;
    if (fits(*value, c, &inside)) kept.push_back(value);
  }
  return kept;
}

// Returns those of the lists whose elements all differ. Each element must be one of some values.
Expr SchemaReader::different_elements(const Constraints& c, const Json& where, uint64_t n_first,
                                      Expr lists) {
  std::vector<const Json*> values;
  for (uint64_t i = 0; i <= n_first; ++i) {
    const auto of_element = named_elements(element(c, i));
    if (of_element) {
      for (const Json* const value : *of_element) {
        count_compared(values.size());
        const auto is_known = [&](const Json* other) { return is_same_counted(*value, *other); };
        if (std::none_of(values.begin(), values.end(), is_known)) values.push_back(value);
      }
    }
    if (of_element && values.size() <= kMostDifferent) continue;
    document_.refuse(where, "uniqueItems",
                     fmt::format("a grammar cannot compare elements, unless each is one of up to "
                                 "{} values that are named",
                                 kMostDifferent));
  }
  if (c.min_items > values.size()) return Pool::kNone;
  std::vector<Expr> each;
  each.reserve(values.size());
  for (const Json* const value : values) each.push_back(value_text(*value));
  std::vector<Expr> all = {lists};
  for (size_t i = 0; i < each.size(); ++i) {
    std::vector<Expr> others = each;
    others.erase(others.begin() + static_cast<ptrdiff_t>(i));
    const Expr other = pool_.any(others);
    const Expr before = pool_.star(pool_.concat(other, pool_.literal(",")));
    const Expr behind = pool_.star(pool_.literal(",", other));
    const Expr once = pool_.concat(before, pool_.concat(each[i], behind));
    const Expr never = pool_.optional(pool_.concat(other, behind));
    all.push_back(pool_.any(once, never));
  }
  return pool_.all(all);
}

Expr SchemaReader::array(const Constraints& c) {
  uint64_t n_first = 0;
  const Json* different = nullptr;  // a schema that wants elements to differ
  for (const Json* schema : c.arrays) {
    const Json* const first = first_elements(*schema);
    if (first != nullptr && !first->is_array()) {
      document_.refuse(*schema, "prefixItems", "a list of schemas is expected");
    }
    if (first != nullptr) n_first = std::max<uint64_t>(n_first, first->size());
    const bool is_one = c.max_items && *c.max_items <= 1;
    if (schema->contains("uniqueItems") && (*schema)["uniqueItems"] != false && !is_one) {
      different = schema;
    }
  }
  const auto bracketed = [&](Expr e) {
    return pool_.literal("[", pool_.concat(e, pool_.literal("]")));
  };
  const std::vector<Counted> all = counted(c);
  if (different != nullptr && !all.empty()) {
    document_.refuse(*different, "uniqueItems", "beside 'contains' this is not supported");
  }
  if (!all.empty()) return bracketed(containing(c, all, n_first));
  constexpr uint64_t kMost = kMostRepetitions;
  if (c.min_items > kMost || c.max_items.value_or(0) > kMost) {
    document_.refuse(*c.origin, "", fmt::format("more than {} elements are not counted", kMost));
  }
  const uint64_t most = c.max_items.value_or(kMost + 1);
  if (c.min_items > most) return Pool::kNone;
  // The loop goes from the last element on and finds what may follow `i` elements.
  Expr rest = Pool::kEmpty;
  const auto with_comma = [&](uint64_t i, Expr e) { return i > 0 ? pool_.literal(",", e) : e; };
  const auto left = [&](uint64_t i) {
    return static_cast<int>(c.min_items > i ? c.min_items - i : 0);
  };
  if (most > n_first) {
    const Expr e = value_of(element(c, n_first));
    const int more = most > kMost ? Pool::kMany : static_cast<int>(most - n_first);
    if (n_first > 0) {
      rest = pool_.repeat(pool_.literal(",", e), left(n_first), more);
    } else {
      const Expr others =
          pool_.repeat(pool_.literal(",", e), left(1), more == Pool::kMany ? more : more - 1);
      rest = pool_.concat(e, others);
      if (c.min_items == 0) rest = pool_.optional(rest);
    }
  } else if (left(most) > 0) {
    return Pool::kNone;
  }
  for (uint64_t i = n_first; i > 0; --i) {
    if (i > most) continue;
    const Expr e = pool_.concat(value_of(element(c, i - 1)), rest);
    rest = with_comma(i - 1, e);
    if (c.min_items < i) rest = pool_.optional(rest);
  }
  if (different != nullptr) rest = different_elements(c, *different, n_first, rest);
  return bracketed(rest);
}

}  // namespace troika::grammar::schema
