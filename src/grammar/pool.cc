#include "grammar/pool.h"

#include <algorithm>

#include "base/error.h"
#include "grammar/pool_depth.h"

namespace troika::grammar {
namespace {

constexpr size_t kMostClasses = 256;  // classes of bytes

uint64_t mixed(uint64_t hash, uint64_t value) {
  hash = (hash ^ value) * 0x9e3779b97f4a7c15u;
  return hash ^ hash >> 29;
}

uint64_t hash_of_list(Kind kind, std::span<const Expr> parts) {
  uint64_t hash = static_cast<uint64_t>(kind);
  for (const Expr part : parts) hash = mixed(hash, part);
  return hash;
}

void sort_unique(std::vector<Expr>* parts) {
  std::sort(parts->begin(), parts->end());
  parts->erase(std::unique(parts->begin(), parts->end()), parts->end());
}

}  // namespace

// The large lists have all their room from the beginning, as a list that had to move would make a
// single step take long. In fresh pages, room that nobody has written to costs nothing.
Pool::Pool(const Limits& limits) : limits_(limits), n_steps_left_(limits.n_compile_steps) {
  nodes_.reserve(limits.n_expressions);
  lists_.reserve(2 * limits.n_expressions);
  tables_.reserve(limits.table_bytes / sizeof(Expr) + 2 * kMostClasses);
  intern_partition(std::string(256, '\0'));  // partition 0: not known
  tables_.push_back(kUnknown);               // table 0: none
  intern({.kind = Kind::kNone});
  intern({.kind = Kind::kEmpty});
}

size_t Pool::bytes() const {
  constexpr size_t kOfIndex = 24;  // two slots that are free for each in use
  constexpr size_t kOfMap = 64;    // a node of a map, with its links
  // What a table once had stays the process's, though other transitions take its place.
  const size_t tables = epoch_ > 0 ? limits_.table_bytes : tables_.size() * sizeof(Expr);
  size_t bytes = nodes_.size() * (sizeof(Node) + kOfIndex) + lists_.size() * sizeof(Expr) + tables;
  bytes += sets_.size() * (sizeof(ByteSet) + kOfMap) + refined_.size() * kOfMap;
  for (const Partition& one : partitions_) {
    bytes += 2 * one.class_of.size() + one.representatives.size() + kOfMap;
  }
  return bytes;
}

void Pool::count_step() {
  if (n_steps_left_ == 0) {
    throw TooMuchWork(
        "The grammar asks for too much work: it is too large or too ambiguous. Make it simpler.");
  }
  --n_steps_left_;
}

Expr Pool::intern(const Node& node) {
  uint64_t hash = mixed(static_cast<uint64_t>(node.kind), uint64_t{node.a} << 32 | node.b);
  hash = mixed(
      hash, uint64_t{static_cast<uint32_t>(node.least)} << 32 | static_cast<uint32_t>(node.most));
  const Expr found = index_.find(hash, [&](Expr e) {
    const Node& other = nodes_[e];
    return other.kind == node.kind && other.a == node.a && other.b == node.b &&
           other.least == node.least && other.most == node.most;
  });
  if (found == ExprIndex::kNotFound) return add_node(hash, node);
  count_found(1);
  return found;
}

// Whoever writes what is known again adds nothing, but takes time.
void Pool::count_found(size_t n) {
  constexpr size_t kInAStep = 8;
  for (n_found_ += n; n_found_ >= kInAStep; n_found_ -= kInAStep) count_step();
}

Expr Pool::add_node(uint64_t hash, const Node& node) {
  count_step();
  if (nodes_.size() >= limits_.n_expressions) {
    throw TooLarge("The grammar has too many states. Make it simpler, or its bounds smaller.");
  }
  const auto e = static_cast<Expr>(nodes_.size());
  nodes_.push_back(node);
  Node& added = nodes_.back();
  const bool waits = (added.flags & kHasRef) != 0 && !is_sealed_;
  if (!waits) added.nullable = compute_nullable(added) ? 1 : 0;
  index_.add(hash, e);
  return e;
}

Expr Pool::intern_list(Kind kind, std::span<const Expr> list) {
  const uint64_t hash = hash_of_list(kind, list);
  const Expr found = index_.find(hash, [&](Expr e) {
    if (nodes_[e].kind != kind) return false;
    const std::span<const Expr> other = parts(e);
    return std::equal(other.begin(), other.end(), list.begin(), list.end());
  });
  if (found != ExprIndex::kNotFound) {
    count_found(list.size());
    return found;
  }
  Node node{.kind = kind};
  node.a = static_cast<uint32_t>(lists_.size());
  node.b = static_cast<uint32_t>(list.size());
  for (const Expr part : list) {
    node.flags |= nodes_[part].flags;
    lists_.push_back(part);
  }
  return add_node(hash, node);
}

bool Pool::compute_nullable(const Node& node) const {
  const auto is_nullable = [&](Expr e) { return nullable(e); };
  switch (node.kind) {
    case Kind::kNone:
    case Kind::kBytes:
      return false;
    case Kind::kEmpty:
      return true;
    case Kind::kConcat:
      return nullable(node.a) && nullable(node.b);
    case Kind::kAny:
    case Kind::kAll: {
      const std::span<const Expr> list = std::span(lists_).subspan(node.a, node.b);
      return node.kind == Kind::kAny ? std::any_of(list.begin(), list.end(), is_nullable)
                                     : std::all_of(list.begin(), list.end(), is_nullable);
    }
    case Kind::kNot:
      return !nullable(node.a);
    case Kind::kRepeat:
      return node.least == 0 || nullable(node.a);
    case Kind::kRef:
      return rules_[node.a].nullable;
  }
  return false;
}

Pool::Shape Pool::shape(Expr e) const {
  const Node& node = nodes_[e];
  if (node.kind == Kind::kRef) return {node.kind, rules_[node.a].body, 0, 0, 0};
  return {node.kind, node.a, node.b, node.least, node.most};
}

std::span<const Expr> Pool::parts(Expr e) const {
  return std::span(lists_).subspan(nodes_[e].a, nodes_[e].b);
}

Expr Pool::bytes(const ByteSet& set) {
  if (set.empty()) return kNone;
  uint64_t hash = 0;
  for (const uint64_t word : set.words) hash = mixed(hash, word);
  std::vector<uint32_t>& same_hash = set_index_[hash];
  for (size_t i = 1; i < same_hash.size(); ++i) count_step();  // sets may be made to share a hash
  auto found = std::find_if(same_hash.begin(), same_hash.end(),
                            [&](uint32_t other) { return sets_[other] == set; });
  if (found == same_hash.end()) {
    same_hash.push_back(static_cast<uint32_t>(sets_.size()));
    sets_.push_back(set);
    found = same_hash.end() - 1;
  }
  return intern({.kind = Kind::kBytes, .a = *found});
}

Expr Pool::literal(std::string_view text, Expr then) {
  for (size_t i = text.size(); i > 0; --i) {
    then = concat(bytes(ByteSet::of(static_cast<uint8_t>(text[i - 1]))), then);
  }
  return then;
}

// Concatenates two expressions. Chains lean to the right: the head of a concatenation is never a
// concatenation itself.
Expr Pool::concat(Expr a, Expr b) {
  if (a == kNone || b == kNone) return kNone;
  if (a == kEmpty) return b;
  if (b == kEmpty) return a;
  std::vector<Expr> heads;
  while (nodes_[a].kind == Kind::kConcat) {
    heads.push_back(nodes_[a].a);
    a = nodes_[a].b;
    count_step();
  }
  heads.push_back(a);
  while (!heads.empty()) {
    const auto flags = static_cast<uint8_t>(nodes_[heads.back()].flags | nodes_[b].flags);
    b = intern({.kind = Kind::kConcat, .flags = flags, .a = heads.back(), .b = b});
    heads.pop_back();
  }
  return b;
}

void Pool::flatten(Kind kind, const std::vector<Expr>& from, std::vector<Expr>* to) const {
  for (const Expr e : from) {
    if (nodes_[e].kind != kind) {
      to->push_back(e);
    } else {
      const std::span<const Expr> inner = parts(e);
      to->insert(to->end(), inner.begin(), inner.end());
    }
  }
  sort_unique(to);
}

// Joins all sets of bytes of the list to one.
void Pool::join_bytes(std::vector<Expr>* list) {
  ByteSet joined;
  int n = 0;
  for (const Expr e : *list) {
    if (nodes_[e].kind != Kind::kBytes) continue;
    joined = joined | sets_[nodes_[e].a];
    ++n;
  }
  if (n < 2) return;
  std::erase_if(*list, [&](Expr e) { return nodes_[e].kind == Kind::kBytes; });
  list->push_back(bytes(joined));
}

// Makes a x | a y to a (x | y), so that alternatives with the same head are one chain.
void Pool::join_heads(std::vector<Expr>* list) {
  const auto head = [&](Expr e) { return nodes_[e].kind == Kind::kConcat ? nodes_[e].a : e; };
  std::stable_sort(list->begin(), list->end(), [&](Expr x, Expr y) { return head(x) < head(y); });
  std::vector<Expr> joined;
  joined.reserve(list->size());
  for (size_t first = 0; first < list->size();) {
    const Expr a = head((*list)[first]);
    size_t last = first;
    while (last < list->size() && head((*list)[last]) == a) ++last;
    if (last - first == 1 || a == kEmpty) {
      joined.push_back((*list)[first]);
    } else {
      std::vector<Expr> tails;
      for (size_t i = first; i < last; ++i) {
        const Node& node = nodes_[(*list)[i]];
        tails.push_back(node.kind == Kind::kConcat ? node.b : kEmpty);
      }
      joined.push_back(concat(a, any(tails)));
    }
    first = last;
  }
  *list = std::move(joined);
}

// Joins expressions that differ in their first characters only, as [ab] x | c x does.
void Pool::join_tails(std::vector<Expr>* list) {
  const auto is_joinable = [&](Expr e) {
    return nodes_[e].kind == Kind::kConcat && nodes_[nodes_[e].a].kind == Kind::kBytes;
  };
  const auto middle =
      std::stable_partition(list->begin(), list->end(), [&](Expr e) { return !is_joinable(e); });
  if (list->end() - middle < 2) return;
  std::stable_sort(middle, list->end(), [&](Expr x, Expr y) { return nodes_[x].b < nodes_[y].b; });
  std::vector<Expr> joined(list->begin(), middle);
  for (auto it = middle; it != list->end();) {
    const Expr tail = nodes_[*it].b;
    ByteSet set;
    for (; it != list->end() && nodes_[*it].b == tail; ++it) {
      set = set | sets_[nodes_[nodes_[*it].a].a];
    }
    joined.push_back(concat(bytes(set), tail));
  }
  *list = std::move(joined);
}

Expr Pool::any(const std::vector<Expr>& of) {
  const DepthGuard guard(&depth_);
  std::vector<Expr> list;
  flatten(Kind::kAny, of, &list);
  std::erase(list, kNone);
  for (size_t i = 0; i < list.size(); ++i) count_step();
  if (list.size() > 1) {
    join_bytes(&list);
    join_heads(&list);
    join_tails(&list);
    sort_unique(&list);
  }
  if (list.empty()) return kNone;
  if (list.size() == 1) return list.front();
  return intern_list(Kind::kAny, list);
}

Expr Pool::raw_all(const std::vector<Expr>& of) {
  std::vector<Expr> list;
  flatten(Kind::kAll, of, &list);
  for (size_t i = 0; i < list.size(); ++i) count_step();
  if (!list.empty() && list.front() == kNone) return kNone;
  std::erase_if(list, [&](Expr e) { return nodes_[e].kind == Kind::kNot && nodes_[e].a == kNone; });
  for (const Expr e : list) {
    if (nodes_[e].kind == Kind::kNot && std::binary_search(list.begin(), list.end(), nodes_[e].a)) {
      return kNone;
    }
  }
  if (list.empty()) return intern({.kind = Kind::kNot, .a = kNone});
  if (list.front() == kEmpty) {
    const bool is_empty =
        std::all_of(list.begin(), list.end(), [&](Expr e) { return nullable(e); });
    return is_empty ? kEmpty : kNone;
  }
  if (list.size() == 1) return list.front();
  return intern_list(Kind::kAll, list);
}

Expr Pool::all(const std::vector<Expr>& of) {
  for (const Expr e : of) TROIKA_ASSERT(!calls_rules(e));
  return alive(raw_all(of));
}

Expr Pool::no(Expr a) {
  TROIKA_ASSERT(!calls_rules(a));
  if (nodes_[a].kind == Kind::kNot) return nodes_[a].a;
  return alive(intern({.kind = Kind::kNot, .a = a}));
}

Expr Pool::repeat(Expr a, int least, int most) {
  TROIKA_ASSERT(least >= 0 && (most == kMany || most >= least));
  if (most == 0 || a == kEmpty) return kEmpty;
  if (a == kNone) return least == 0 ? kEmpty : kNone;
  if (least == 1 && most == 1) return a;
  if (least == 0 && most == 1) return optional(a);
  const Node inner = nodes_[a];
  const bool is_star = inner.kind == Kind::kRepeat && inner.least == 0 && inner.most == kMany;
  if (is_star) return a;
  return intern(
      {.kind = Kind::kRepeat, .flags = inner.flags, .a = a, .least = least, .most = most});
}

Rule Pool::add_rule(std::string name) {
  count_step();
  rules_.push_back({std::move(name)});
  return static_cast<Rule>(rules_.size() - 1);
}

void Pool::set_rule(Rule rule, Expr body) { rules_[rule].body = body; }

Expr Pool::call(Rule rule) { return intern({.kind = Kind::kRef, .flags = kHasRef, .a = rule}); }

}  // namespace troika::grammar
