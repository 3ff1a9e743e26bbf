// A dictionary that remembers the order of insertion; namespaces keep their values in one, too.
#pragma once

#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "jinja/values/heap.h"
#include "jinja/values/value.h"

namespace troika::jinja {

struct Dict : Object {
  explicit Dict(Shape s) : Object(s) {}

  // Returns null if there is no such key. A key must be hashable (check_key).
  const Value* find(const Value& key) const;
  const Value* find(std::string_view key) const;
  void set(Heap& heap, const Value& key, Value value);
  // Returns false if there is no such key.
  bool erase(const Value& key);
  void clear();

  std::vector<std::pair<Value, Value>> entries;

 private:
  size_t position(const Value& key) const;
  void index_all();

  // Is empty while there are few entries, because a scan is faster then.
  std::unordered_multimap<uint64_t, size_t> index_;
};

// Throws an Error for what Python cannot hash: lists and dictionaries.
void check_key(const Runtime& rt, const Value& key);

// Says whether two hashable values are the same key: 1, 1.0 and true are.
bool same_key(const Value& a, const Value& b);
uint64_t hash_key(const Value& key);

}  // namespace troika::jinja
