// What sorting and grouping filters compare items by.
#pragma once

#include <functional>
#include <vector>

#include "jinja/runtime.h"

namespace troika::jinja {

// An item, or what stands at a path in it; strings in lower case unless case matters.
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

// As KeyOf, but the path may name several with commas, which are compared one after the other.
class SortKeyOf {
 public:
  SortKeyOf(Runtime& rt, bool case_sensitive, const Value& paths);
  Value operator()(const Value& item) const;

 private:
  Runtime& rt_;
  std::vector<KeyOf> keys_;
};

// Stable, also where it is reversed.
std::vector<Value> sorted(Runtime& rt, std::vector<Value> items,
                          const std::function<Value(const Value&)>& key_of, bool reversed);

}  // namespace troika::jinja
