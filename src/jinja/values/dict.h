// A dictionary that remembers the order of insertion; also what a namespace keeps its values in.
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

  // Null if there is none. A key must be hashable (check_key).
  const Value* find(const Value& key) const;
  const Value* find(std::string_view key) const;
  void set(Heap& heap, const Value& key, Value value);
  // False if there is none.
  bool erase(const Value& key);
  void clear();

  std::vector<std::pair<Value, Value>> entries;

 private:
  size_t position(const Value& key) const;
  void index_all();

  // Empty while there are few entries, which a scan finds faster.
  std::unordered_multimap<uint64_t, size_t> index_;
};

// Throws an Error for what Python cannot hash: lists, dictionaries.
void check_key(const Runtime& rt, const Value& key);

// Whether two hashable values are the same key: 1, 1.0 and true are.
bool same_key(const Value& a, const Value& b);
uint64_t hash_key(const Value& key);

}  // namespace troika::jinja
