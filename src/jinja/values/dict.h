// A dictionary that remembers the order of insertion; namespaces keep their values in one, too.
#pragma once

#include <cstdint>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "jinja/values/heap.h"
#include "jinja/values/value.h"

namespace troika::jinja {

struct Dict : Object {
  explicit Dict(Shape s) : Object(s) {}

  // Returns null if there is no such key. A key must be hashable (check_key). The heap counts the
  // steps of long keys, and of keys with the same hash.
  const Value* find(Heap& heap, const Value& key) const;
  const Value* find(Heap& heap, std::string_view key) const;
  void set(Heap& heap, const Value& key, Value value);
  // Returns false if there is no such key.
  bool erase(Heap& heap, const Value& key);
  void clear();

  std::vector<std::pair<Value, Value>> entries;

 private:
  size_t position(Heap& heap, const Value& key) const;
  void index_all(Heap& heap);
  // Takes entry `i`, whose key has this hash, from the index; those behind it move up.
  void forget(uint64_t hash, size_t i);

  // Is empty while there are few entries, because a scan is faster then. It is a tree, since a
  // template could choose its keys so that they all fall into one bucket of a table.
  std::multimap<uint64_t, size_t> index_;
};

// Throws an Error for what Python cannot hash: lists and dictionaries.
void check_key(Runtime& rt, const Value& key);

// Says whether two hashable values are the same key: 1, 1.0 and true are. The heap counts a step
// for each element of a tuple, because tuples that hold one tuple many times have few bytes.
bool same_key(Heap& heap, const Value& a, const Value& b);
uint64_t hash_key(Heap& heap, const Value& key);

}  // namespace troika::jinja
