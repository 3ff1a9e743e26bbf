// Takes the steps of a pool: finds what an expression becomes behind a byte (Brzozowski's
// derivatives), and keeps the results by classes of bytes.
#include <algorithm>
#include <unordered_set>

#include "base/error.h"
#include "grammar/pool.h"
#include "grammar/pool_depth.h"

namespace troika::grammar {

uint32_t Pool::intern_partition(const std::string& classes) {
  const auto known = partition_index_.find(classes);
  if (known != partition_index_.end()) return known->second;
  if (partitions_.size() >= limits_.n_partitions) {
    throw TooLarge(
        "The grammar tells bytes apart in too many ways. Make its sets of characters fewer.");
  }
  Partition partition{classes, {}};
  for (size_t b = 0; b < classes.size(); ++b) {
    const auto c = static_cast<uint8_t>(classes[b]);
    if (c == partition.representatives.size()) partition.representatives += static_cast<char>(b);
  }
  const auto p = static_cast<uint32_t>(partitions_.size());
  partitions_.push_back(std::move(partition));
  partition_index_.emplace(classes, p);
  return p;
}

// Returns the coarsest partition that refines both. Classes are numbered in the order of their
// first bytes, so that equal partitions are stored once.
uint32_t Pool::refine(uint32_t p, uint32_t q) {
  if (p == q) return p;
  if (p > q) std::swap(p, q);
  const uint64_t key = uint64_t{p} << 32 | q;
  const auto found = refined_.find(key);
  if (found != refined_.end()) return found->second;
  count_step();
  std::unordered_map<int, char> numbers;
  std::string classes(256, '\0');
  for (size_t b = 0; b < 256; ++b) {
    const int pair = static_cast<uint8_t>(partitions_[p].class_of[b]) << 8 |
                     static_cast<uint8_t>(partitions_[q].class_of[b]);
    classes[b] = numbers.emplace(pair, static_cast<char>(numbers.size())).first->second;
  }
  const uint32_t refined = intern_partition(classes);
  constexpr size_t kMostKept = size_t{1} << 20;
  if (refined_.size() >= kMostKept) refined_.clear();
  refined_.emplace(key, refined);
  return refined;
}

// Adds the parts of an expression with which its texts may begin, as far as their partitions are
// not known.
void Pool::add_fronts(Expr e, std::vector<Expr>* to) const {
  const Node& node = nodes_[e];
  const auto add = [&](Expr part) {
    if (nodes_[part].partition == 0) to->push_back(part);
  };
  switch (node.kind) {
    case Kind::kNone:
    case Kind::kEmpty:
    case Kind::kBytes:
      break;
    case Kind::kConcat:
      add(node.a);
      if (nullable(node.a)) add(node.b);
      break;
    case Kind::kAny:
    case Kind::kAll:
      for (const Expr part : parts(e)) add(part);
      break;
    case Kind::kNot:
    case Kind::kRepeat:
      add(node.a);
      break;
    case Kind::kRef:
      add(rules_[node.a].body);
      break;
  }
}

// Returns the partition of an expression. REQUIRES: those of its fronts are known.
uint32_t Pool::joined_partition(Expr e) {
  const Node node = nodes_[e];
  const auto of = [&](Expr part) { return nodes_[part].partition - 1; };
  switch (node.kind) {
    case Kind::kNone:
    case Kind::kEmpty:
      break;
    case Kind::kBytes: {
      std::string classes(256, '\0');
      const ByteSet& set = sets_[node.a];
      for (int b = 0; b < 256; ++b) {
        const auto byte = static_cast<uint8_t>(b);
        classes[byte] = set.has(byte) == set.has(0) ? '\0' : '\1';
      }
      return intern_partition(classes);
    }
    case Kind::kConcat:
      return nullable(node.a) ? refine(of(node.a), of(node.b)) : of(node.a);
    case Kind::kAny:
    case Kind::kAll: {
      uint32_t p = 0;
      for (uint32_t i = 0; i < node.b; ++i) p = refine(p, of(lists_[node.a + i]));
      return p;
    }
    case Kind::kNot:
    case Kind::kRepeat:
      return of(node.a);
    case Kind::kRef:
      return of(rules_[node.a].body);
  }
  return 0;
}

// A list takes the place of recursion, because rules may stand at each other's beginnings to any
// depth. It ends, because no expression stands at its own: seal() has rewritten such rules.
uint32_t Pool::partition_of(Expr e) {
  std::vector<Expr> open;
  if (nodes_[e].partition == 0) open.push_back(e);
  while (!open.empty()) {
    const Expr at = open.back();
    const size_t n_open = open.size();
    if (nodes_[at].partition == 0) add_fronts(at, &open);
    if (open.size() > n_open) continue;
    open.pop_back();
    if (nodes_[at].partition != 0) continue;
    count_step();
    nodes_[at].partition = joined_partition(at) + 1;
  }
  return nodes_[e].partition - 1;
}

std::span<const uint8_t> Pool::representatives(Expr e) {
  const std::string& bytes = partitions_[partition_of(e)].representatives;
  return {reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()};
}

std::span<const uint8_t> Pool::representatives(Expr e, Expr f) {
  const uint32_t p = refine(partition_of(e), partition_of(f));
  const std::string& bytes = partitions_[p].representatives;
  return {reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()};
}

// Drops all tables. A step that is asked for again is made again.
void Pool::forget_tables() {
  ++epoch_;
  tables_.assign(1, kUnknown);
}

Pool::Table Pool::table(Expr e) {
  const uint32_t partition = partition_of(e);
  const auto n = static_cast<int>(partitions_[partition].representatives.size());
  if (nodes_[e].table == 0 || nodes_[e].epoch != epoch_) {
    count_step();
    // The second half holds steps of which nobody knows yet whether they leave a text.
    const size_t size = static_cast<size_t>(n) * (is_open(e) ? 2 : 1);
    if ((tables_.size() + size) * sizeof(Expr) > limits_.table_bytes) forget_tables();
    nodes_[e].epoch = epoch_;
    nodes_[e].table = static_cast<uint32_t>(tables_.size());
    tables_.resize(tables_.size() + size, kUnknown);
  }
  return {reinterpret_cast<const uint8_t*>(partitions_[partition].class_of.data()),
          tables_.data() + nodes_[e].table, n};
}

Expr Pool::step(Expr e, uint8_t byte) {
  const Node& node = nodes_[e];
  switch (node.kind) {
    case Kind::kNone:
    case Kind::kEmpty:
      return kNone;
    case Kind::kBytes:
      return sets_[node.a].has(byte) ? kEmpty : kNone;
    case Kind::kConcat:
      if (nodes_[node.a].kind == Kind::kBytes) {
        return sets_[nodes_[node.a].a].has(byte) ? node.b : kNone;
      }
      break;
    case Kind::kRef:
      return step(rules_[node.a].body, byte);
    default:
      break;
  }
  const Table known = table(e);
  const uint8_t c = known.class_of[byte];
  if (known.next[c] != kUnknown) return known.next[c];
  const DepthGuard guard(&depth_);
  count_step();
  const Expr next = raw_step(e, byte);
  table(e);  // makes the table again if the steps in between dropped all tables
  tables_[nodes_[e].table + c] = next;
  return next;
}

int Pool::only_byte(Expr e) {
  const std::span<const uint8_t> bytes = representatives(e);
  const std::string of_classes(bytes.begin(), bytes.end());
  int only = -1;
  for (size_t c = 0; c < of_classes.size(); ++c) {
    const auto byte = static_cast<uint8_t>(of_classes[c]);
    if (step(e, byte) == kNone) continue;
    const std::string& class_of = partitions_[partition_of(e)].class_of;
    const auto n = std::count(class_of.begin(), class_of.end(), static_cast<char>(c));
    if (only >= 0 || n > 1) return -1;
    only = byte;
  }
  return only;
}

Expr Pool::raw_step(Expr e, uint8_t byte) {
  const Node node = nodes_[e];
  switch (node.kind) {
    case Kind::kConcat: {
      const Expr through = concat(step(node.a, byte), node.b);
      return nullable(node.a) ? any(through, step(node.b, byte)) : through;
    }
    case Kind::kAny:
      return any(step_ways(e, byte));
    case Kind::kAll:
      return alive(open_step(e, byte));
    case Kind::kNot:
      return no(step(node.a, byte));
    case Kind::kRepeat: {
      const int most = node.most == kMany ? kMany : node.most - 1;
      return concat(step(node.a, byte), repeat(node.a, std::max(node.least - 1, 0), most));
    }
    default:
      return kNone;
  }
}

bool Pool::knows_step(Expr e, uint8_t byte) const {
  const Node& node = nodes_[e];
  if (node.table == 0 || node.epoch != epoch_) return false;
  const auto c = static_cast<uint8_t>(partitions_[node.partition - 1].class_of[byte]);
  return tables_[node.table + c] != kUnknown;
}

// Returns the steps of all ways. Ways may be choices again, as those of members are that need not
// be there: any number of them stand within each other. From some depth on, such a choice is opened
// in place of being asked for a step of its own.
std::vector<Expr> Pool::step_ways(Expr e, uint8_t byte) {
  constexpr int kDeep = 64;
  std::vector<Expr> steps, open = {e};
  std::unordered_set<Expr> seen;
  while (!open.empty()) {
    const Node node = nodes_[open.back()];
    open.pop_back();
    for (uint32_t i = 0; i < node.b; ++i) {
      Expr way = lists_[node.a + i];
      if (depth_ > kDeep) {
        while (nodes_[way].kind == Kind::kRef) way = rules_[nodes_[way].a].body;
      }
      if (depth_ <= kDeep || nodes_[way].kind != Kind::kAny || knows_step(way, byte)) {
        steps.push_back(step(way, byte));
      } else if (seen.insert(way).second) {
        count_step();
        open.push_back(way);
      }
    }
  }
  return steps;
}

// Returns the step of an intersection, without looking whether the result has a text.
Expr Pool::step_all(Expr e, uint8_t byte) {
  const Node node = nodes_[e];
  std::vector<Expr> list;
  list.reserve(node.b);
  for (uint32_t i = 0; i < node.b; ++i) {
    list.push_back(step(lists_[node.a + i], byte));
    if (list.back() == kNone) return kNone;
  }
  return raw_all(list);
}

// Returns the step of an open expression, without looking whether the result has a text.
Expr Pool::open_step(Expr e, uint8_t byte) {
  Table known = table(e);
  const uint8_t c = known.class_of[byte];
  if (known.next[known.n_classes + c] != kUnknown) return known.next[known.n_classes + c];
  const Expr next = nodes_[e].kind == Kind::kAll
                        ? step_all(e, byte)
                        : intern({.kind = Kind::kNot, .a = step(nodes_[e].a, byte)});
  known = table(e);  // makes the table again if the steps in between dropped all tables
  tables_[nodes_[e].table + static_cast<size_t>(known.n_classes) + c] = next;
  return next;
}

}  // namespace troika::grammar
