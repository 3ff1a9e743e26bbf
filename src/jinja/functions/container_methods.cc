// Methods of lists, tuples, dictionaries, loops and cyclers.
#include <fmt/format.h>

#include <algorithm>

#include "jinja/functions/builtins.h"
#include "jinja/functions/loop.h"
#include "jinja/values/dict.h"
#include "jinja/values/sort_keys.h"

namespace troika::jinja {

namespace {

std::vector<Value>& items(const Args& a) { return a.at[0].sequence().items; }

Value append(Runtime& rt, Args& a) {
  rt.heap.append(a.at[0].sequence(), a.at[1]);
  return Value::none();
}

Value extend(Runtime& rt, Args& a) {
  for (Value& v : items_of(rt, a.at[1])) {
    rt.heap.append(a.at[0].sequence(), std::move(v));
  }
  return Value::none();
}

Value insert(Runtime& rt, Args& a) {
  const auto n = static_cast<int64_t>(items(a).size());
  int64_t i = int_argument(rt, a, 1, 0);
  i = std::clamp<int64_t>(i < 0 ? std::max<int64_t>(i, -n) + n : i, 0, n);
  rt.heap.take(sizeof(Value));
  rt.heap.step(1 + static_cast<uint64_t>(n - i) / 4);
  items(a).insert(items(a).begin() + i, a.at[2]);
  return Value::none();
}

Value pop(Runtime& rt, Args& a) {
  const auto n = static_cast<int64_t>(items(a).size());
  int64_t i = int_argument(rt, a, 1, -1);
  i += i < 0 ? n : 0;
  if (i < 0 || i >= n) {
    rt.fail("pop() finds no item at that place");
  }
  rt.heap.step(1 + static_cast<uint64_t>(n - i) / 4);
  Value v = items(a)[static_cast<size_t>(i)];
  items(a).erase(items(a).begin() + i);
  rt.heap.give_back(sizeof(Value));
  return v;
}

size_t position(Runtime& rt, const Args& a) {
  for (size_t i = 0; i < items(a).size(); ++i) {
    if (equal(rt, items(a)[i], a.at[1])) {
      return i;
    }
  }
  rt.fail(fmt::format("a {} does not hold what is looked for", type_name(a.at[0])));
}

Value index(Runtime& rt, Args& a) { return Value::of(static_cast<int64_t>(position(rt, a))); }

Value remove(Runtime& rt, Args& a) {
  rt.heap.step(items(a).size() / 4);
  items(a).erase(items(a).begin() + static_cast<ptrdiff_t>(position(rt, a)));
  rt.heap.give_back(sizeof(Value));
  return Value::none();
}

Value count(Runtime& rt, Args& a) {
  int64_t n = 0;
  for (const Value& v : items(a)) {
    n += equal(rt, v, a.at[1]) ? 1 : 0;
  }
  return Value::of(n);
}

Value reverse(Runtime& rt, Args& a) {
  rt.heap.step(items(a).size());
  std::reverse(items(a).begin(), items(a).end());
  return Value::none();
}

Value sort(Runtime& rt, Args& a) {
  const auto itself = [](const Value& v) { return v; };
  items(a) = sorted(rt, items_of(rt, a.at[0]), itself, bool_argument(a, 1, false));
  return Value::none();
}

Value copy_list(Runtime& rt, Args& a) { return rt.heap.list(items_of(rt, a.at[0])); }

Value clear_list(Runtime& rt, Args& a) {
  rt.heap.give_back(items(a).size() * sizeof(Value));
  items(a).clear();
  return Value::none();
}

Value get(Runtime& rt, Args& a) {
  check_key(rt, a.at[1]);
  const Value* found = a.at[0].dict().find(rt.heap, a.at[1]);
  return found != nullptr ? *found : a.has(2) ? a.at[2] : Value::none();
}

Value view(Runtime& rt, std::vector<Value> all, const char* label) {
  return rt.heap.list(std::move(all), Shape::kView, label);
}

Value keys(Runtime& rt, Args& a) { return view(rt, items_of(rt, a.at[0]), "dict_keys"); }

Value values(Runtime& rt, Args& a) {
  std::vector<Value> all;
  rt.heap.step(a.at[0].dict().entries.size());
  for (const auto& [key, value] : a.at[0].dict().entries) {
    all.push_back(value);
  }
  return view(rt, std::move(all), "dict_values");
}

Value dict_items(Runtime& rt, Args& a) {
  std::vector<Value> all;
  rt.heap.step(a.at[0].dict().entries.size());
  for (const auto& [key, value] : a.at[0].dict().entries) {
    all.push_back(rt.heap.list({key, value}, Shape::kTuple));
  }
  return view(rt, std::move(all), "dict_items");
}

Value update(Runtime& rt, Args& a) {
  fill_dict(rt, a.at[0].dict(), a, 1);
  return Value::none();
}

Value pop_key(Runtime& rt, Args& a) {
  check_key(rt, a.at[1]);
  const Value* found = a.at[0].dict().find(rt.heap, a.at[1]);
  if (found == nullptr) {
    if (!a.has(2)) {
      rt.fail("pop() does not find the key " + to_repr(rt, a.at[1]).substr(0, 80));
    }
    return a.at[2];
  }
  Value v = *found;
  rt.heap.step(a.at[0].dict().entries.size());
  a.at[0].dict().erase(rt.heap, a.at[1]);
  return v;
}

Value setdefault(Runtime& rt, Args& a) {
  check_key(rt, a.at[1]);
  Dict& dict = a.at[0].dict();
  if (dict.find(rt.heap, a.at[1]) == nullptr) {
    dict.set(rt.heap, a.at[1], a.has(2) ? a.at[2] : Value::none());
  }
  return *dict.find(rt.heap, a.at[1]);
}

Value copy_dict(Runtime& rt, Args& a) {
  Value copy = rt.heap.dict();
  rt.heap.step(a.at[0].dict().entries.size());
  for (const auto& [key, value] : a.at[0].dict().entries) {
    copy.dict().set(rt.heap, key, value);
  }
  return copy;
}

Value clear_dict(Runtime&, Args& a) {
  a.at[0].dict().clear();
  return Value::none();
}

// Is loop.cycle(a, b, ...): returns its arguments in turn.
Value cycle(Runtime& rt, Args& a) {
  if (a.at.size() < 2) {
    rt.fail("loop.cycle() needs values to choose from");
  }
  const auto& loop = static_cast<Loop&>(*a.at[0].object());
  return a.at[1 + loop.index0 % (a.at.size() - 1)];
}

// loop.changed(...) says whether the values differ from those of the round before.
Value changed(Runtime& rt, Args& a) {
  auto& loop = static_cast<Loop&>(*a.at[0].object());
  std::vector<Value> now(a.at.begin() + 1, a.at.end());
  bool same = loop.has_changed && now.size() == loop.last.size();
  for (size_t i = 0; same && i < now.size(); ++i) {
    same = equal(rt, now[i], loop.last[i]);
  }
  loop.has_changed = true;
  loop.last = std::move(now);
  return Value::of(!same);
}

Value next_of_cycler(Runtime&, Args& a) {
  auto& cycler = static_cast<Cycler&>(*a.at[0].object());
  Value v = cycler.items[cycler.position];
  cycler.position = (cycler.position + 1) % cycler.items.size();
  return v;
}

Value reset_cycler(Runtime&, Args& a) {
  static_cast<Cycler&>(*a.at[0].object()).position = 0;
  return Value::none();
}

}  // namespace

void fill_dict(Runtime& rt, Dict& dict, const Args& a, size_t i) {
  if (a.has(i) && a.at[i].is(Shape::kDict)) {
    // The entries are copied, because the source may be the dictionary itself.
    const auto entries = a.at[i].dict().entries;
    rt.heap.step(entries.size());
    for (const auto& [key, value] : entries) {
      dict.set(rt.heap, key, value);
    }
  } else if (a.has(i)) {
    rt.require_defined(a.at[i]);
    for (const Value& pair : items_of(rt, a.at[i])) {
      const std::vector<Value> two = items_of(rt, pair);
      if (two.size() != 2) {
        rt.fail("a dictionary is made of pairs");
      }
      check_key(rt, two[0]);
      dict.set(rt.heap, two[0], two[1]);
    }
  }
  for (const auto& [name, value] : a.named) {
    dict.set(rt.heap, rt.text(name), value);
  }
}

const Table& list_methods() {
  static const Table kTable = {
      {"append", "self object", append},       {"extend", "self iterable", extend},
      {"insert", "self index object", insert}, {"pop", "self index?", pop},
      {"index", "self value", index},          {"remove", "self value", remove},
      {"count", "self value", count},          {"reverse", "self", reverse},
      {"sort", "self reverse?", sort},         {"copy", "self", copy_list},
      {"clear", "self", clear_list},
  };
  return kTable;
}

const Table& tuple_methods() {
  static const Table kTable = {
      {"index", "self value", index},
      {"count", "self value", count},
  };
  return kTable;
}

const Table& dict_methods() {
  static const Table kTable = {
      {"get", "self key default?", get},
      {"keys", "self", keys},
      {"values", "self", values},
      {"items", "self", dict_items},
      {"update", "self *", update},
      {"pop", "self key default?", pop_key},
      {"setdefault", "self key default?", setdefault},
      {"copy", "self", copy_dict},
      {"clear", "self", clear_dict},
  };
  return kTable;
}

const Table& loop_methods() {
  static const Table kTable = {
      {"cycle", "self *", cycle},
      {"changed", "self *", changed},
  };
  return kTable;
}

const Table& cycler_methods() {
  static const Table kTable = {
      {"next", "self", next_of_cycler},
      {"reset", "self", reset_cycler},
  };
  return kTable;
}

}  // namespace troika::jinja
