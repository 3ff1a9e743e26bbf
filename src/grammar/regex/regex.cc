#include "grammar/regex/regex.h"

#include <algorithm>

#include "base/error.h"
#include "grammar/readers.h"
#include "grammar/regex/regex_tree.h"

namespace troika::grammar {
namespace {

using Tree = RegexTree;
using TreeKind = RegexTree::Kind;

// Brings ^ and $ to the ends of alternatives. There they say that no other text may stand around.
class RegexCompiler {
 public:
  RegexCompiler(const WriteCharacter& write, bool is_searched, Pool* pool)
      : write_(write), pool_(*pool) {
    if (is_searched) any_ = pool_.star(write_(CharacterSet::all()));
  }

  Expr top(const Tree& tree) { return anchored({&tree}, false, false); }

 private:
  using Row = std::vector<const Tree*>;
  Expr anchored(Row row, bool has_start, bool has_end);
  Expr spread(const Row& row, size_t at, bool has_start, bool has_end);
  Expr plain(const Tree& tree);

  const WriteCharacter& write_;
  Pool& pool_;
  Expr any_ = Pool::kEmpty;  // what may stand before and behind
  int n_ways_ = 0;
};

// Compiles a row of which the part `at` holds anchors. Each alternative of that part, put in its
// place, makes a row of its own.
Expr RegexCompiler::spread(const Row& row, size_t at, bool has_start, bool has_end) {
  constexpr int kMostWays = 1000;
  if (++n_ways_ > kMostWays) throw Error("in the regular expression: '^' and '$' stand too deep.");
  const Tree& part = *row[at];
  const auto with = [&](const Row& parts) {
    Row wider(row.begin(), row.begin() + static_cast<ptrdiff_t>(at));
    wider.insert(wider.end(), parts.begin(), parts.end());
    wider.insert(wider.end(), row.begin() + static_cast<ptrdiff_t>(at) + 1, row.end());
    return anchored(std::move(wider), has_start, has_end);
  };
  Row parts;
  for (const Tree& p : part.parts) parts.push_back(&p);
  if (part.kind == TreeKind::kSequence) return with(parts);
  std::vector<Expr> ways;
  if (part.kind == TreeKind::kChoice) {
    for (const Tree* p : parts) ways.push_back(with({p}));
  } else if (part.kind == TreeKind::kRepeat && part.most == 1) {
    ways.push_back(with(parts));
    if (part.least == 0) ways.push_back(with({}));
  } else {
    throw Error("in the regular expression: '^' or '$' within a repetition is not supported.");
  }
  return pool_.any(ways);
}

Expr RegexCompiler::anchored(Row row, bool has_start, bool has_end) {
  while (!row.empty() && row.front()->kind == TreeKind::kStart) {
    has_start = true;
    row.erase(row.begin());
  }
  while (!row.empty() && row.back()->kind == TreeKind::kEnd) {
    has_end = true;
    row.pop_back();
  }
  const auto is_open = [](const Tree* t) { return t->has_anchor; };
  const auto open = std::find_if(row.begin(), row.end(), is_open);
  if (open != row.end()) {
    if ((*open)->kind == TreeKind::kStart || (*open)->kind == TreeKind::kEnd) {
      throw Error(
          "in the regular expression: '^' behind or '$' in front of something is not "
          "supported.");
    }
    return spread(row, static_cast<size_t>(open - row.begin()), has_start, has_end);
  }
  Expr e = has_end ? Pool::kEmpty : any_;
  for (size_t i = row.size(); i > 0; --i) e = pool_.concat(plain(*row[i - 1]), e);
  return has_start ? e : pool_.concat(any_, e);
}

Expr RegexCompiler::plain(const Tree& tree) {
  switch (tree.kind) {
    case TreeKind::kSet:
      // Looking a set up is work that is counted here, because a set that is known already adds no
      // expression that would be counted.
      for (size_t i = 0; i < tree.set.ranges().size(); ++i) pool_.count_step();
      return write_(tree.set);
    case TreeKind::kRepeat:
      return pool_.repeat(plain(tree.parts.front()), tree.least, tree.most);
    case TreeKind::kChoice: {
      std::vector<Expr> ways;
      for (const Tree& part : tree.parts) ways.push_back(plain(part));
      return pool_.any(ways);
    }
    default: {
      Expr e = Pool::kEmpty;
      for (size_t i = tree.parts.size(); i > 0; --i) e = pool_.concat(plain(tree.parts[i - 1]), e);
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
