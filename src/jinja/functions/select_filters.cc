// The filters map, select and reject, their variants by attribute, and those that cut lists into
// lists.
#include <fmt/format.h>

#include <algorithm>

#include "jinja/functions/builtins.h"
#include "jinja/values/dict.h"
#include "jinja/values/sort_keys.h"

namespace troika::jinja {

namespace {

Value iterator(Runtime& rt, std::vector<Value> items) {
  return rt.heap.list(std::move(items), Shape::kIterator, "generator");
}

// Returns the items, and none for anything that is false: Jinja goes through nothing then.
std::vector<Value> items_or_none(Runtime& rt, const Value& v) {
  return truthy(v) ? items_of(rt, v) : std::vector<Value>();
}

// Finds a filter or test by its name, with the arguments that follow the name.
class Named {
 public:
  Named(Runtime& rt, const Args& a, size_t i_name, const Builtin* (*find)(std::string_view))
      : rt_(rt), name_(string_argument(rt, a, i_name, "the name of a filter or test")) {
    builtin_ = find(name_);
    n_copied_ = a.at.size() - i_name;
    for (const auto& [name, value] : a.named) {
      n_copied_ += 1 + name.size() / 16;
    }
    rt_.heap.step(n_copied_ + name_.size() / 16);
    rest_.at.assign(a.at.begin() + static_cast<ptrdiff_t>(i_name) + 1, a.at.end());
    rest_.named = a.named;
  }

  Value operator()(const Value& item) const {
    // A filter may be map, which calls a filter, and so on.
    const Runtime::CallDepth depth(rt_);
    rt_.heap.step(n_copied_);
    Args args;
    args.at.push_back(item);
    args.at.insert(args.at.end(), rest_.at.begin(), rest_.at.end());
    args.named = rest_.named;
    return rt_.call_builtin(builtin_, name_, args);
  }

 private:
  Runtime& rt_;
  const std::string name_;
  const Builtin* builtin_;
  size_t n_copied_ = 0;  // counts the steps of a copy of the arguments
  Args rest_;
};

Value map_attribute(Runtime& rt, Args& a) {
  Value path = Value::none();
  Value fallback = Value::missing();
  for (const auto& [name, value] : a.named) {
    if (name == "attribute") {
      path = value;
    } else if (name == "default") {
      fallback = value;
    } else {
      rt.fail(fmt::format("map() has no parameter '{}'", name));
    }
  }
  std::vector<Value> out;
  for (const Value& item : items_or_none(rt, a.at[0])) {
    out.push_back(get_path(rt, item, path, fallback));
  }
  return iterator(rt, std::move(out));
}

Value map(Runtime& rt, Args& a) {
  const auto is_attribute = [](const auto& named) { return named.first == "attribute"; };
  if (a.at.size() == 1 && std::any_of(a.named.begin(), a.named.end(), is_attribute)) {
    return map_attribute(rt, a);
  }
  if (a.at.size() < 2) {
    rt.fail("map needs the name of a filter, or attribute=");
  }
  const Named filter(rt, a, 1, find_filter);
  std::vector<Value> out;
  for (const Value& item : items_or_none(rt, a.at[0])) {
    out.push_back(filter(item));
  }
  return iterator(rt, std::move(out));
}

// Returns the items for which a test of what `of` gives is `wanted`. Without a test, truth counts.
template <typename Of>
Value choose(Runtime& rt, const Args& a, size_t i_test, bool wanted, const Of& of) {
  std::vector<Value> kept;
  if (a.at.size() <= i_test) {
    for (const Value& item : items_or_none(rt, a.at[0])) {
      if (truthy(of(item)) == wanted) {
        kept.push_back(item);
      }
    }
    return iterator(rt, std::move(kept));
  }
  const Named test(rt, a, i_test, find_test);
  for (const Value& item : items_or_none(rt, a.at[0])) {
    if (truthy(test(of(item))) == wanted) {
      kept.push_back(item);
    }
  }
  return iterator(rt, std::move(kept));
}

Value choose_items(Runtime& rt, const Args& a, bool wanted) {
  return choose(rt, a, 1, wanted, [](const Value& item) { return item; });
}

Value choose_by_attribute(Runtime& rt, const Args& a, bool wanted) {
  if (a.at.size() < 2) {
    rt.fail("selectattr and rejectattr need the name of an attribute");
  }
  return choose(rt, a, 2, wanted, [&](const Value& item) { return get_path(rt, item, a.at[1]); });
}

Value select(Runtime& rt, Args& a) { return choose_items(rt, a, true); }
Value reject(Runtime& rt, Args& a) { return choose_items(rt, a, false); }
Value selectattr(Runtime& rt, Args& a) { return choose_by_attribute(rt, a, true); }
Value rejectattr(Runtime& rt, Args& a) { return choose_by_attribute(rt, a, false); }

Value groupby(Runtime& rt, Args& a) {
  const bool case_sensitive = bool_argument(a, 3, false);
  const Value fallback = a.has(2) && !a.at[2].is_none() ? a.at[2] : Value::missing();
  const KeyOf lowered(rt, case_sensitive, Value::none());
  const auto raw = [&](const Value& item) { return get_path(rt, item, a.at[1], fallback); };
  const std::vector<Value> items = sorted(
      rt, items_of(rt, a.at[0]), [&](const Value& item) { return lowered(raw(item)); }, false);
  std::vector<Value> groups;
  Value current;
  for (const Value& item : items) {
    const Value key = lowered(raw(item));
    if (groups.empty() || !equal(rt, key, current)) {
      current = key;
      groups.push_back(rt.heap.list({raw(item), rt.heap.list()}, Shape::kTuple, "group"));
    }
    rt.heap.append(groups.back().sequence().items[1].sequence(), item);
  }
  return rt.heap.list(std::move(groups));
}

int64_t count_argument(Runtime& rt, const Args& a, size_t i) {
  const int64_t n = int_argument(rt, a, i, 0);
  if (n < 1 || n > rt.heap.limits().n_range) {
    rt.fail(fmt::format("{} is no number of items or slices to cut a list into", n));
  }
  return n;
}

Value batch(Runtime& rt, Args& a) {
  const auto n = static_cast<size_t>(count_argument(rt, a, 1));
  const Value fill = a.has(2) ? a.at[2] : Value::none();
  std::vector<Value> rows;
  for (const Value& item : items_of(rt, a.at[0])) {
    if (rows.empty() || rows.back().sequence().items.size() == n) {
      rows.push_back(rt.heap.list());
    }
    rt.heap.append(rows.back().sequence(), item);
  }
  while (!rows.empty() && !fill.is_none() && rows.back().sequence().items.size() < n) {
    rt.heap.append(rows.back().sequence(), fill);
  }
  return iterator(rt, std::move(rows));
}

Value slice(Runtime& rt, Args& a) {
  const auto n = static_cast<size_t>(count_argument(rt, a, 1));
  const Value fill = a.has(2) ? a.at[2] : Value::none();
  const std::vector<Value> items = items_of(rt, a.at[0]);
  const size_t n_each = items.size() / n;
  const size_t n_longer = items.size() % n;
  std::vector<Value> columns;
  size_t begin = 0;
  for (size_t i = 0; i < n; ++i) {
    rt.heap.step();
    const size_t end = begin + n_each + (i < n_longer ? 1 : 0);
    columns.push_back(rt.heap.list({items.begin() + static_cast<ptrdiff_t>(begin),
                                    items.begin() + static_cast<ptrdiff_t>(end)}));
    if (!fill.is_none() && i >= n_longer) {
      rt.heap.append(columns.back().sequence(), fill);
    }
    begin = end;
  }
  return iterator(rt, std::move(columns));
}

}  // namespace

const Table& select_filters() {
  static const Table kTable = {
      {"map", "value *", map},
      {"select", "value *", select},
      {"reject", "value *", reject},
      {"selectattr", "value *", selectattr},
      {"rejectattr", "value *", rejectattr},
      {"groupby", "value attribute default? case_sensitive?", groupby},
      {"batch", "value linecount fill_with?", batch},
      {"slice", "value slices fill_with?", slice},
  };
  return kTable;
}

}  // namespace troika::jinja
