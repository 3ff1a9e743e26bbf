#include "jinja/values/dict.h"

#include <cmath>
#include <functional>
#include <string_view>

#include "jinja/runtime.h"

namespace troika::jinja {

namespace {
constexpr size_t kScanAtMost = 8;
constexpr size_t kNowhere = static_cast<size_t>(-1);
// Counts the bytes of an entry: its two values and a node of the index.
constexpr size_t kEntryBytes = 2 * sizeof(Value) + 64;
constexpr int kTupleDepth = 16;

// Counts what is hashed or compared of a string; a short one is part of the step around it.
void step_text(Heap& heap, std::string_view text) { heap.step(text.size() / 16); }

bool same_text(Heap& heap, std::string_view a, std::string_view b) {
  if (a.size() != b.size()) {
    return false;
  }
  step_text(heap, a);
  return a == b;
}

uint64_t hash_text(Heap& heap, std::string_view text) {
  step_text(heap, text);
  return std::hash<std::string_view>()(text);
}

void check_key_at(Runtime& rt, const Value& key, int depth) {
  if (!key.is_object()) {
    return;
  }
  if (key.is(Shape::kTuple) && depth < kTupleDepth) {
    for (const Value& item : key.sequence().items) {
      rt.heap.step();
      check_key_at(rt, item, depth + 1);
    }
    return;
  }
  rt.fail("a " + type_name(key) + " cannot be a key of a dictionary");
}
}  // namespace

void check_key(Runtime& rt, const Value& key) { check_key_at(rt, key, 0); }

bool same_key(Heap& heap, const Value& a, const Value& b) {
  if (a.is_string() && b.is_string()) {
    return same_text(heap, a.str(), b.str());
  }
  if (a.is_number() && b.is_number()) {
    return a.is_integral() && b.is_integral() ? a.as_int() == b.as_int()
                                              : a.as_double() == b.as_double();
  }
  if (a.is(Shape::kTuple) && b.is(Shape::kTuple)) {
    const auto& x = a.sequence().items;
    const auto& y = b.sequence().items;
    if (x.size() != y.size()) {
      return false;
    }
    for (size_t i = 0; i < x.size(); ++i) {
      heap.step();
      if (!same_key(heap, x[i], y[i])) {
        return false;
      }
    }
    return true;
  }
  return a.kind() == b.kind() && !a.is_object() && !a.is_string() && !a.is_number();
}

uint64_t hash_key(Heap& heap, const Value& key) {
  if (key.is_string()) {
    return hash_text(heap, key.str());
  }
  if (key.is_number()) {
    return std::hash<double>()(key.as_double());
  }
  if (key.is(Shape::kTuple)) {
    uint64_t h = 17;
    for (const Value& item : key.sequence().items) {
      heap.step();
      h = h * 1000003 + hash_key(heap, item);
    }
    return h;
  }
  return static_cast<uint64_t>(key.kind());
}

size_t Dict::position(Heap& heap, const Value& key) const {
  if (index_.empty()) {
    for (size_t i = 0; i < entries.size(); ++i) {
      if (same_key(heap, entries[i].first, key)) {
        return i;
      }
    }
    return kNowhere;
  }
  const auto [first, last] = index_.equal_range(hash_key(heap, key));
  for (auto it = first; it != last; ++it) {
    heap.step();
    if (same_key(heap, entries[it->second].first, key)) {
      return it->second;
    }
  }
  return kNowhere;
}

const Value* Dict::find(Heap& heap, const Value& key) const {
  const size_t i = position(heap, key);
  return i == kNowhere ? nullptr : &entries[i].second;
}

const Value* Dict::find(Heap& heap, std::string_view key) const {
  if (index_.empty()) {
    for (const auto& [k, v] : entries) {
      if (k.is_string() && same_text(heap, k.str(), key)) {
        return &v;
      }
    }
    return nullptr;
  }
  const auto [first, last] = index_.equal_range(hash_text(heap, key));
  for (auto it = first; it != last; ++it) {
    heap.step();
    const Value& k = entries[it->second].first;
    if (k.is_string() && same_text(heap, k.str(), key)) {
      return &entries[it->second].second;
    }
  }
  return nullptr;
}

void Dict::set(Heap& heap, const Value& key, Value value) {
  const size_t i = position(heap, key);
  if (i != kNowhere) {
    entries[i].second = std::move(value);
    return;
  }
  heap.take(kEntryBytes);
  entries.emplace_back(key, std::move(value));
  if (!index_.empty()) {
    index_.emplace(hash_key(heap, key), entries.size() - 1);
  } else if (entries.size() > kScanAtMost) {
    index_all(heap);
  }
}

bool Dict::erase(Heap& heap, const Value& key) {
  const size_t i = position(heap, key);
  if (i == kNowhere) {
    return false;
  }
  if (entries.size() - 1 <= kScanAtMost) {
    index_.clear();
  } else {
    forget(hash_key(heap, key), i);
  }
  entries.erase(entries.begin() + static_cast<ptrdiff_t>(i));
  return true;
}

void Dict::clear() {
  entries.clear();
  index_.clear();
}

void Dict::forget(uint64_t hash, size_t i) {
  auto node = index_.lower_bound(hash);
  while (node->second != i) {
    ++node;
  }
  index_.erase(node);
  for (auto& [other, place] : index_) {
    place -= place > i ? 1 : 0;
  }
}

void Dict::index_all(Heap& heap) {
  for (size_t i = 0; i < entries.size(); ++i) {
    index_.emplace(hash_key(heap, entries[i].first), i);
  }
}

}  // namespace troika::jinja
