// Makes expressions of arrays: the first elements may have schemas of their own, the others share
// one, and the number of elements may be limited.
#include <fmt/format.h>

#include <algorithm>

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

const Json* other_elements(const Json& schema) {
  const auto items = schema.find("items");
  if (items != schema.end() && !items->is_array()) return &*items;
  const bool is_old = items != schema.end() && schema.contains("additionalItems");
  return is_old ? &schema["additionalItems"] : nullptr;
}

}  // namespace

Schemas SchemaReader::element(const Constraints& c, uint64_t index) const {
  Schemas schemas;
  for (const Json* schema : c.arrays) {
    const Json* const first = first_elements(*schema);
    if (first != nullptr && index < first->size()) {
      schemas.insert(&checked((*first)[index]));
    } else if (const Json* const other = other_elements(*schema)) {
      schemas.insert(&checked(*other));
    }
  }
  return schemas;
}

// Returns arrays with at least one element that fits "contains".
Expr SchemaReader::containing(const Constraints& c, const Schemas& schemas) {
  const Json* contains = nullptr;
  bool is_alone = c.min_items <= 1 && !c.max_items;
  for (const Json* schema : c.arrays) {
    is_alone &= first_elements(*schema) == nullptr;
    if (!schema->contains("contains")) continue;
    const bool is_usual =
        !schema->contains("minContains") || count_of(*schema, "minContains", document_) == 1;
    is_alone &= contains == nullptr && is_usual;
    contains = schema;
  }
  if (!is_alone) {
    document_.refuse(*contains, "contains",
                     "beside other counts of elements this is not supported");
  }
  Schemas wanted = schemas;
  wanted.insert(&checked((*contains)["contains"]));
  const Expr any = value_of(schemas), comma = pool_.literal(",");
  const Expr before = pool_.star(pool_.concat(any, comma));
  const Expr behind = pool_.star(pool_.concat(comma, any));
  return pool_.concat(before, pool_.concat(value_of(wanted), behind));
}

Expr SchemaReader::array(const Constraints& c) {
  uint64_t n_first = 0;
  bool contains = false;
  for (const Json* schema : c.arrays) {
    const Json* const first = first_elements(*schema);
    if (first != nullptr && !first->is_array()) {
      document_.refuse(*schema, "prefixItems", "a list of schemas is expected");
    }
    if (first != nullptr) n_first = std::max<uint64_t>(n_first, first->size());
    const bool is_wanted =
        !schema->contains("minContains") || count_of(*schema, "minContains", document_) > 0;
    contains |= schema->contains("contains") && is_wanted;
    const bool is_one = c.max_items && *c.max_items <= 1;
    if (schema->contains("uniqueItems") && (*schema)["uniqueItems"] != false && !is_one) {
      document_.refuse(*schema, "uniqueItems", "a grammar cannot compare elements");
    }
  }
  const auto bracketed = [&](Expr e) {
    return pool_.literal("[", pool_.concat(e, pool_.literal("]")));
  };
  if (contains) return bracketed(containing(c, element(c, n_first)));
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
  return bracketed(rest);
}

}  // namespace troika::grammar::schema
