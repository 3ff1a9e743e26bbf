// The keys by which sorting and grouping filters compare items.
#pragma once

#include <functional>
#include <vector>

#include "jinja/runtime.h"

namespace troika::jinja {

// Gets an item's key: the item itself, or what stands at a path in it. Strings become lower case
// unless case matters.
class KeyOf {
 public:
  KeyOf(Runtime& rt, bool case_sensitive, Value path)
      : rt_(rt), case_sensitive_(case_sensitive), path_(std::move(path)) {}
  Value operator()(const Value& item) const;

 private:
  Runtime& rt_;
  const bool case_sensitive_;
  const Value path_;
};

// Gets an item's key as KeyOf does, but the path may consist of several paths with commas between,
// which are compared one after the other.
class SortKeyOf {
 public:
  SortKeyOf(Runtime& rt, bool case_sensitive, const Value& paths);
  Value operator()(const Value& item) const;

 private:
  Runtime& rt_;
  std::vector<KeyOf> keys_;
};

// Sorts items. The sort is stable, even where it is reversed.
std::vector<Value> sorted(Runtime& rt, std::vector<Value> items,
                          const std::function<Value(const Value&)>& key_of, bool reversed);

}  // namespace troika::jinja
