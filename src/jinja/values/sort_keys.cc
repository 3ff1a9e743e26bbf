#include "jinja/values/sort_keys.h"

#include <algorithm>

#include "jinja/values/unicode.h"

namespace troika::jinja {

Value KeyOf::operator()(const Value& item) const {
  Value v = path_.is_none() ? item : get_path(rt_, item, path_);
  if (case_sensitive_ || !v.is_string()) {
    return v;
  }
  rt_.heap.step(v.str().size() / 4);
  return rt_.text(to_lower(v.str()));
}

SortKeyOf::SortKeyOf(Runtime& rt, bool case_sensitive, const Value& paths) : rt_(rt) {
  if (!paths.is_string()) {
    keys_.emplace_back(rt, case_sensitive, paths);
    return;
  }
  const std::string& text = paths.str();
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    keys_.emplace_back(rt, case_sensitive, rt.text(text.substr(begin, end - begin)));
    begin = end + 1;
  }
}

Value SortKeyOf::operator()(const Value& item) const {
  if (keys_.size() == 1) {
    return keys_[0](item);
  }
  std::vector<Value> values;
  for (const KeyOf& key : keys_) {
    values.push_back(key(item));
  }
  return rt_.heap.list(std::move(values));
}

std::vector<Value> sorted(Runtime& rt, std::vector<Value> items,
                          const std::function<Value(const Value&)>& key_of, bool reversed) {
  rt.heap.expect(items.size() * 3 * sizeof(Value));
  std::vector<std::pair<Value, Value>> keyed;
  keyed.reserve(items.size());
  for (Value& item : items) {
    Value key = key_of(item);
    keyed.emplace_back(std::move(key), std::move(item));
  }
  std::stable_sort(keyed.begin(), keyed.end(), [&](const auto& a, const auto& b) {
    return reversed ? less(rt, b.first, a.first) : less(rt, a.first, b.first);
  });
  for (size_t i = 0; i < keyed.size(); ++i) {
    items[i] = std::move(keyed[i].second);
  }
  return items;
}

}  // namespace troika::jinja
