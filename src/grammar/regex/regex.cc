#include "grammar/regex/regex.h"

#include <algorithm>
#include <array>
#include <deque>
#include <unordered_map>

#include "base/error.h"
#include "grammar/readers.h"
#include "grammar/regex/regex_tree.h"

namespace troika::grammar {
namespace {

using Tree = RegexTree;
using TreeKind = RegexTree::Kind;

constexpr const char* kAheadElsewhere =
    "in the regular expression: looking ahead is supported at the start of the text only, behind "
    "'^'.";

// Says at which ends of a part any text may stand.
struct Open {
  bool start = false, end = false;
};

// Brings ^ and $ to the ends of alternatives. There they say that no other text may stand around,
// and what looks ahead from the start says what the whole text must fit besides.
//
// Where any text may stand, a part is compiled to fewer texts than it fits: the text around can be
// what a longer one has more. So [a-z]{1,255} in the middle of any text is one letter, not 255
// states of counting.
class RegexCompiler {
 public:
  RegexCompiler(const WriteCharacter& write, bool is_searched, Pool* pool)
      : write_(write),
        pool_(*pool),
        is_searched_(is_searched),
        any_(is_searched ? pool_.star(write_(CharacterSet::all())) : Pool::kEmpty) {}

  Expr top(const Tree& tree) { return anchored({&tree}, false, false); }

 private:
  using Row = std::vector<const Tree*>;
  Row row_of(const Tree& tree) {
    Row parts;
    parts.reserve(tree.parts.size());
    for (const Tree& part : tree.parts) {
      pool_.count_step();
      parts.push_back(&part);
    }
    return parts;
  }
  // Takes away what a row begins with that fits no text by itself: `has_start` is set where '^' is
  // among it. Returns what the whole text must fit besides.
  std::vector<Expr> take_front(Row* row, bool* has_start);
  Expr anchored(Row row, bool has_start, bool has_end);
  Expr spread(const Row& row, size_t at, bool has_start, bool has_end);
  Expr compiled(const Row& row, Open open);
  Expr compiled(const Tree& tree, Open open);
  Expr shorten(const Tree& tree, Open open);
  Expr plain(const Tree& tree);

  const WriteCharacter& write_;
  Pool& pool_;
  const bool is_searched_;
  const Expr any_;  // what may stand before and behind
  int n_ways_ = 0;
  // What parts have become, by the ends at which they are open.
  std::array<std::unordered_map<const Tree*, Expr>, 4> known_;
};

// Compiles a row of which the part `at` holds anchors. Each alternative of that part, put in its
// place, makes a row of its own.
Expr RegexCompiler::spread(const Row& row, size_t at, bool has_start, bool has_end) {
  constexpr int kMostWays = 1000;
  if (++n_ways_ > kMostWays) throw Error("in the regular expression: '^' and '$' stand too deep.");
  const Tree& part = *row[at];
  const auto with = [&](const Row& parts) {
    for (size_t i = 0; i < row.size() + parts.size(); ++i) pool_.count_step();
    Row wider(row.begin(), row.begin() + static_cast<ptrdiff_t>(at));
    wider.insert(wider.end(), parts.begin(), parts.end());
    wider.insert(wider.end(), row.begin() + static_cast<ptrdiff_t>(at) + 1, row.end());
    return anchored(std::move(wider), has_start, has_end);
  };
  const Row parts = row_of(part);
  if (part.kind == TreeKind::kSequence) return with(parts);
  std::vector<Expr> ways;
  if (part.kind == TreeKind::kChoice) {
    for (const Tree* p : parts) ways.push_back(with({p}));
  } else if (part.kind == TreeKind::kRepeat && part.most == 1) {
    ways.push_back(with(parts));
    if (part.least == 0) ways.push_back(with({}));
  } else {
    throw Error(
        "in the regular expression: '^', '$' or what looks ahead within a repetition is not "
        "supported.");
  }
  return pool_.any(ways);
}

std::vector<Expr> RegexCompiler::take_front(Row* row, bool* has_start) {
  const auto front_end = std::find_if(row->begin(), row->end(), [](const Tree* t) {
    return t->kind != TreeKind::kStart && !looks_ahead(*t);
  });
  const Row front(row->begin(), front_end);
  row->erase(row->begin(), front_end);
  std::vector<const Tree*> ahead;
  for (const Tree* const part : front) {
    *has_start |= part->kind == TreeKind::kStart;
    if (looks_ahead(*part)) ahead.push_back(part);
  }
  if (!ahead.empty() && is_searched_ && !*has_start) throw Error(kAheadElsewhere);
  std::vector<Expr> besides;
  for (const Tree* const part : ahead) {
    // Anything may stand behind what is ahead, even if the whole text must fit.
    const Expr begins =
        RegexCompiler(write_, true, &pool_).anchored({&part->parts.front()}, true, false);
    besides.push_back(part->kind == TreeKind::kAhead ? begins : pool_.no(begins));
  }
  return besides;
}

Expr RegexCompiler::anchored(Row row, bool has_start, bool has_end) {
  std::vector<Expr> besides = take_front(&row, &has_start);
  if (!besides.empty()) {
    // The rest begins at the start as the front does.
    besides.push_back(anchored(std::move(row), has_start, has_end));
    return pool_.all(besides);
  }
  while (!row.empty() && row.back()->kind == TreeKind::kEnd) {
    has_end = true;
    row.pop_back();
  }
  const auto is_open = [](const Tree* t) { return t->has_anchor; };
  const auto open = std::find_if(row.begin(), row.end(), is_open);
  if (open != row.end()) {
    if (looks_ahead(**open)) throw Error(kAheadElsewhere);
    if ((*open)->kind == TreeKind::kStart || (*open)->kind == TreeKind::kEnd) {
      throw Error(
          "in the regular expression: '^' behind or '$' in front of something is not "
          "supported.");
    }
    return spread(row, static_cast<size_t>(open - row.begin()), has_start, has_end);
  }
  const Open ends = {.start = is_searched_ && !has_start, .end = is_searched_ && !has_end};
  const Expr inner = compiled(row, ends);
  if (inner == Pool::kEmpty) return ends.start || ends.end ? any_ : inner;
  const Expr behind = pool_.concat(inner, ends.end ? any_ : Pool::kEmpty);
  return pool_.concat(ends.start ? any_ : Pool::kEmpty, behind);
}

// Returns an expression that fits the same as the row where any text stands at its open ends.
Expr RegexCompiler::compiled(const Row& row, Open open) {
  std::deque<const Tree*> rest;
  const auto add_front = [&](const Row& parts) {
    for (size_t i = parts.size(); i > 0; --i) rest.push_front(parts[i - 1]);
  };
  for (size_t i = 0; i < row.size(); ++i) pool_.count_step();
  add_front(row);
  // What may be empty at an open end is left out, so that the ends of what is left are open.
  while (open.start && !rest.empty()) {
    const Tree* const first = rest.front();
    if (first->kind != TreeKind::kSequence && compiled(*first, {.start = true}) != Pool::kEmpty) {
      break;
    }
    rest.pop_front();
    if (first->kind == TreeKind::kSequence) add_front(row_of(*first));
  }
  while (open.end && !rest.empty()) {
    const Tree* const last = rest.back();
    if (last->kind != TreeKind::kSequence && compiled(*last, {.end = true}) != Pool::kEmpty) break;
    rest.pop_back();
    if (last->kind != TreeKind::kSequence) continue;
    const Row parts = row_of(*last);
    rest.insert(rest.end(), parts.begin(), parts.end());
  }
  Expr e = Pool::kEmpty;
  for (size_t i = rest.size(); i > 0; --i) {
    const Open ends = {.start = open.start && i == 1, .end = open.end && i == rest.size()};
    e = pool_.concat(compiled(*rest[i - 1], ends), e);
  }
  return e;
}

// Compiles each part once for each way in which its ends are open: parts within repetitions are
// asked for again and again.
Expr RegexCompiler::compiled(const Tree& tree, Open open) {
  pool_.count_step();
  const size_t way = (open.start ? 1 : 0) + (open.end ? 2 : 0);
  const auto known = known_[way].find(&tree);
  if (known != known_[way].end()) return known->second;
  const Expr e = way == 0 ? plain(tree) : shorten(tree, open);
  return known_[way][&tree] = e;
}

// An expression that fits the empty text too is replaced by the empty text: the text around can be
// all that it fits.
Expr RegexCompiler::shorten(const Tree& tree, Open open) {
  Expr e = Pool::kEmpty;
  if (tree.kind == TreeKind::kSequence) {
    e = compiled(row_of(tree), open);
  } else if (tree.kind == TreeKind::kChoice) {
    std::vector<Expr> ways;
    ways.reserve(tree.parts.size());
    for (const Tree& part : tree.parts) ways.push_back(compiled(part, open));
    e = pool_.any(ways);
  } else if (tree.kind == TreeKind::kRepeat && tree.least == 1) {
    e = compiled(tree.parts.front(), open);
  } else if (tree.kind == TreeKind::kRepeat && tree.least > 1) {
    const Tree& part = tree.parts.front();
    const int n_whole = tree.least - (open.start ? 1 : 0) - (open.end ? 1 : 0);
    if (open.end) e = compiled(part, {.end = true});
    if (n_whole > 0) e = pool_.concat(pool_.repeat(compiled(part, {}), n_whole, n_whole), e);
    if (open.start) e = pool_.concat(compiled(part, {.start = true}), e);
  } else if (tree.kind == TreeKind::kSet) {
    e = compiled(tree, {});
  }
  return pool_.nullable(e) ? Pool::kEmpty : e;
}

Expr RegexCompiler::plain(const Tree& tree) {
  switch (tree.kind) {
    case TreeKind::kSet:
      // Looking a set up is work that is counted here, because a set that is known already adds no
      // expression that would be counted.
      for (size_t i = 0; i < tree.set.ranges().size(); ++i) pool_.count_step();
      return write_(tree.set);
    case TreeKind::kRepeat:
      return pool_.repeat(compiled(tree.parts.front(), {}), tree.least, tree.most);
    case TreeKind::kChoice: {
      std::vector<Expr> ways;
      for (const Tree& part : tree.parts) ways.push_back(compiled(part, {}));
      return pool_.any(ways);
    }
    default: {
      Expr e = Pool::kEmpty;
      for (size_t i = tree.parts.size(); i > 0; --i) {
        e = pool_.concat(compiled(tree.parts[i - 1], {}), e);
      }
      return e;
    }
  }
}

}  // namespace

Expr whole_regex(std::string_view regex, const WriteCharacter& write, const Limits& limits,
                 Pool* pool) {
  return RegexCompiler(write, false, pool).top(parse_regex(regex, limits, pool));
}

Expr found_regex(std::string_view regex, const WriteCharacter& write, const Limits& limits,
                 Pool* pool) {
  return RegexCompiler(write, true, pool).top(parse_regex(regex, limits, pool));
}

Expr read_regex(std::string_view text, const Limits& limits, Pool* pool) {
  const auto write = [pool](const CharacterSet& set) { return utf8_character(pool, set); };
  return whole_regex(text, write, limits, pool);
}

}  // namespace troika::grammar
