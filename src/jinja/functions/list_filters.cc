// Filters of lists, except those that choose or group.
#include <fmt/format.h>

#include <algorithm>

#include "jinja/functions/builtins.h"
#include "jinja/values/dict.h"
#include "jinja/values/sort_keys.h"
#include "jinja/values/string_util.h"
#include "jinja/values/unicode.h"

namespace troika::jinja {

namespace {

Value length(Runtime& rt, Args& a) {
  const int64_t n = length_of(a.at[0]);
  if (n < 0) {
    rt.fail(fmt::format("a {} has no length", type_name(a.at[0])));
  }
  return Value::of(n);
}

Value first(Runtime& rt, Args& a) {
  if (a.at[0].is_list_or_tuple() && !a.at[0].sequence().items.empty()) {
    return a.at[0].sequence().items.front();
  }
  if (a.at[0].is(Shape::kIterator)) {
    Sequence& iterator = a.at[0].sequence();
    return iterator.n_taken < iterator.items.size() ? iterator.items[iterator.n_taken++]
                                                    : rt.undefined("the first of an empty list");
  }
  if (a.at[0].is_string() && !a.at[0].str().empty()) {
    return get_item(rt, a.at[0], Value::of(int64_t{0}));
  }
  const std::vector<Value> items = items_of(rt, a.at[0]);
  return items.empty() ? rt.undefined("the first of an empty list") : items.front();
}

Value last(Runtime& rt, Args& a) {
  if (length_of(a.at[0]) < 0) {
    rt.fail(fmt::format("a {} has no last item", type_name(a.at[0])));
  }
  if (a.at[0].is_list_or_tuple() && !a.at[0].sequence().items.empty()) {
    return a.at[0].sequence().items.back();
  }
  if (a.at[0].is_string() && !a.at[0].str().empty()) {
    return get_item(rt, a.at[0], Value::of(int64_t{-1}));
  }
  const std::vector<Value> items = items_of(rt, a.at[0]);
  return items.empty() ? rt.undefined("the last of an empty list") : items.back();
}

Value join(Runtime& rt, Args& a) {
  const std::string separator = a.has(1) ? to_str(rt, a.at[1]) : std::string();
  const bool by_attribute = a.has(2) && !a.at[2].is_none();
  std::string out;
  bool is_first = true;
  for (const Value& item : items_of(rt, a.at[0])) {
    const Value v = by_attribute ? get_path(rt, item, a.at[2]) : item;
    rt.heap.step_bytes(separator.size());
    rt.heap.expect(out.size() + separator.size() + (v.is_string() ? v.str().size() : 0));
    out += is_first ? "" : separator;
    is_first = false;
    print_to(rt, out, v);
  }
  return rt.text(std::move(out));
}

Value list(Runtime& rt, Args& a) { return rt.heap.list(items_of(rt, a.at[0])); }

Value reversed(Runtime& rt, Args& a) {
  const Value& v = a.at[0];
  if (v.is_string()) {
    return get_slice(rt, v, Value::none(), Value::none(), Value::of(int64_t{-1}));
  }
  std::vector<Value> items = items_of(rt, v);
  std::reverse(items.begin(), items.end());
  // Python can reverse something that has a length without a copy, and returns an iterator then.
  return length_of(v) >= 0 ? rt.heap.list(std::move(items), Shape::kIterator, "reversed")
                           : rt.heap.list(std::move(items));
}

Value sum(Runtime& rt, Args& a) {
  Value total = a.has(2) ? a.at[2] : Value::of(int64_t{0});
  const bool by_attribute = a.has(1) && !a.at[1].is_none();
  if (total.is_string()) {
    rt.fail("sum does not add strings; use join");
  }
  for (const Value& item : items_of(rt, a.at[0])) {
    total = add(rt, total, by_attribute ? get_path(rt, item, a.at[1]) : item);
  }
  return total;
}

Value extreme(Runtime& rt, Args& a, bool largest) {
  const std::vector<Value> items = items_of(rt, a.at[0]);
  if (items.empty()) {
    return rt.undefined("the extreme of an empty list");
  }
  const KeyOf key_of(rt, bool_argument(a, 1, false), a.has(2) ? a.at[2] : Value::none());
  size_t best = 0;
  Value best_key = key_of(items[0]);
  for (size_t i = 1; i < items.size(); ++i) {
    Value key = key_of(items[i]);
    if (largest ? less(rt, best_key, key) : less(rt, key, best_key)) {
      best = i;
      best_key = std::move(key);
    }
  }
  return items[best];
}

Value min(Runtime& rt, Args& a) { return extreme(rt, a, false); }
Value max(Runtime& rt, Args& a) { return extreme(rt, a, true); }

Value sorted(Runtime& rt, Args& a) {
  const SortKeyOf key_of(rt, bool_argument(a, 2, false), a.has(3) ? a.at[3] : Value::none());
  std::vector<Value> items = items_of(rt, a.at[0]);
  return rt.heap.list(sorted(rt, std::move(items), key_of, bool_argument(a, 1, false)));
}

Value unique(Runtime& rt, Args& a) {
  const KeyOf key_of(rt, bool_argument(a, 1, false), a.has(2) ? a.at[2] : Value::none());
  Value seen = rt.heap.dict();
  std::vector<Value> kept;
  for (const Value& item : items_of(rt, a.at[0])) {
    const Value key = key_of(item);
    check_key(rt, key);
    if (seen.dict().find(rt.heap, key) == nullptr) {
      seen.dict().set(rt.heap, key, Value::none());
      kept.push_back(item);
    }
  }
  return rt.heap.list(std::move(kept), Shape::kIterator, "generator");
}

std::vector<Value> pairs_of(Runtime& rt, const Dict& dict) {
  rt.heap.step(dict.entries.size());
  std::vector<Value> pairs;
  for (const auto& [key, value] : dict.entries) {
    pairs.push_back(rt.heap.list({key, value}, Shape::kTuple));
  }
  return pairs;
}

Value dictsort(Runtime& rt, Args& a) {
  if (!a.at[0].is(Shape::kDict)) {
    rt.require_defined(a.at[0]);
    rt.fail(fmt::format("dictsort needs a dictionary, not a {}", type_name(a.at[0])));
  }
  const std::string by = a.has(2) ? string_argument(rt, a, 2, "what dictsort sorts by") : "key";
  if (by != "key" && by != "value") {
    rt.fail("dictsort sorts by 'key' or by 'value'");
  }
  const KeyOf key_of(rt, bool_argument(a, 1, false), Value::of(int64_t{by == "key" ? 0 : 1}));
  return rt.heap.list(sorted(rt, pairs_of(rt, a.at[0].dict()), key_of, bool_argument(a, 3, false)));
}

Value items(Runtime& rt, Args& a) {
  if (a.at[0].is_undefined()) {
    return rt.heap.list({}, Shape::kIterator, "generator");
  }
  if (!a.at[0].is(Shape::kDict)) {
    rt.fail(fmt::format("items needs a dictionary, not a {}", type_name(a.at[0])));
  }
  return rt.heap.list(pairs_of(rt, a.at[0].dict()), Shape::kIterator, "generator");
}

Value default_filter(Runtime& rt, Args& a) {
  const bool replaces = a.at[0].is_undefined() || (bool_argument(a, 2, false) && !truthy(a.at[0]));
  return !replaces ? a.at[0] : a.has(1) ? a.at[1] : rt.empty_text();
}

Value attr(Runtime& rt, Args& a) {
  const Value name = text_of(rt, a.at[1]);
  rt.require_defined(a.at[0]);
  if (a.at[0].is(Shape::kDict)) {
    const Builtin* method = find_method(a.at[0], name.str());
    return method != nullptr ? bound_method(rt, *method, a.at[0])
                             : Value::undefined(name.shared_text());
  }
  return get_attribute(rt, a.at[0], name);
}

}  // namespace

const Table& list_filters() {
  static const Table kTable = {
      {"length", "value", length},
      {"count", "value", length},
      {"first", "seq", first},
      {"last", "seq", last},
      {"join", "value d? attribute?", join},
      {"list", "value", list},
      {"reverse", "value", reversed},
      {"sum", "iterable attribute? start?", sum},
      {"min", "value case_sensitive? attribute?", min},
      {"max", "value case_sensitive? attribute?", max},
      {"sort", "value reverse? case_sensitive? attribute?", sorted},
      {"unique", "value case_sensitive? attribute?", unique},
      {"dictsort", "value case_sensitive? by? reverse?", dictsort},
      {"items", "value", items},
      {"default", "value default_value? boolean?", default_filter},
      {"d", "value default_value? boolean?", default_filter},
      {"attr", "obj name", attr},
  };
  return kTable;
}

}  // namespace troika::jinja
