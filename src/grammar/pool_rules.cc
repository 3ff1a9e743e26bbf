// Prepares the rules of a pool once: finds those that accept the empty text and those that accept
// no text at all, and rewrites rules that begin with themselves, as a step of such a rule never
// ends.
#include <algorithm>
#include <map>
#include <set>

#include "base/error.h"
#include "grammar/pool.h"
#include "grammar/pool_depth.h"

namespace troika::grammar {

class RuleWriter {
 public:
  explicit RuleWriter(Pool* pool) : pool_(*pool) {}

  void find_nullable();
  Expr drop_dead(Expr start);
  void shorten_chains();
  void remove_left_recursion();

 private:
  using Node = Pool::Node;
  Node node(Expr e) const { return pool_.nodes_[e]; }
  bool has_ref(Expr e) const { return pool_.calls_rules(e); }
  bool is_productive(const Node& node, const std::vector<bool>& expressions) const;
  Expr without(Expr e, const std::vector<bool>& alive, std::map<Expr, Expr>* done);
  // The rules of a cycle, and the answers of begins_with().
  struct Cycle {
    std::set<Rule> rules;
    std::map<Expr, bool> begins;
  };
  std::vector<Rule> fronts(Expr e);
  void add_fronts(Expr e, std::vector<Rule>* rules);
  void visit(Rule rule);
  void rewrite(const std::vector<Rule>& cycle);
  Expr behind(Expr e, Rule rule);
  Expr elsewhere(Expr e, Cycle* cycle);
  bool begins_with(Expr e, Cycle* cycle);
  bool compute_begins_with(const Node& n, Cycle* cycle);

  Pool& pool_;
  std::vector<uint32_t> looked_at_;  // (expressions), the search for fronts that saw each last
  uint32_t n_searches_ = 0;
  // The state of a rule in Tarjan's search for cycles.
  struct Visit {
    int number = -1, low = 0;
    bool is_open = false;
  };
  std::vector<Visit> visits_;
  std::vector<Rule> open_;
  int n_visits_ = 0;
};

// Finds the expressions that accept the empty text. Operands have smaller numbers than the
// expressions they stand in, so one pass would do but for the bodies of rules.
void RuleWriter::find_nullable() {
  for (bool changed = true; changed;) {
    changed = false;
    for (Expr e = 0; e < pool_.nodes_.size(); ++e) {
      if (!has_ref(e)) continue;
      pool_.count_step();
      Node& n = pool_.nodes_[e];
      if (n.nullable > 0) continue;
      if (n.kind == Kind::kRef) {
        Pool::RuleBody& rule = pool_.rules_[n.a];
        rule.nullable = rule.nullable || pool_.nullable(rule.body);
      }
      n.nullable = pool_.compute_nullable(n) ? 1 : 0;
      changed |= n.nullable > 0;
    }
  }
}

bool RuleWriter::is_productive(const Node& n, const std::vector<bool>& expressions) const {
  switch (n.kind) {
    case Kind::kConcat:
      return expressions[n.a] && expressions[n.b];
    case Kind::kAny: {
      const auto first = pool_.lists_.begin() + n.a;
      return std::any_of(first, first + n.b, [&](Expr e) { return expressions[e]; });
    }
    case Kind::kRepeat:
      return n.least == 0 || expressions[n.a];
    case Kind::kRef:
      return expressions[pool_.rules_[n.a].body];
    default:
      return true;
  }
}

Expr RuleWriter::drop_dead(Expr start) {
  std::vector<bool> rules(pool_.rules_.size()), expressions(pool_.nodes_.size());
  for (bool changed = true; changed;) {
    changed = false;
    for (Expr e = 0; e < expressions.size(); ++e) {
      pool_.count_step();
      if (expressions[e]) continue;
      if (e == Pool::kNone || !is_productive(pool_.nodes_[e], expressions)) continue;
      expressions[e] = changed = true;
    }
  }
  for (size_t r = 0; r < rules.size(); ++r) rules[r] = expressions[pool_.rules_[r].body];
  if (std::find(rules.begin(), rules.end(), false) == rules.end()) return start;
  std::map<Expr, Expr> done;
  for (Pool::RuleBody& rule : pool_.rules_) rule.body = without(rule.body, rules, &done);
  return without(start, rules, &done);
}

// Returns the expression without its calls of rules that no text fits.
Expr RuleWriter::without(Expr e, const std::vector<bool>& rules, std::map<Expr, Expr>* done) {
  if (!has_ref(e)) return e;
  const auto found = done->find(e);
  if (found != done->end()) return found->second;
  const DepthGuard guard(&pool_.depth_);
  const Node n = node(e);
  Expr kept = e;
  if (n.kind == Kind::kRef) {
    kept = rules[n.a] ? e : Pool::kNone;
  } else if (n.kind == Kind::kConcat) {
    kept = pool_.concat(without(n.a, rules, done), without(n.b, rules, done));
  } else if (n.kind == Kind::kRepeat) {
    kept = pool_.repeat(without(n.a, rules, done), n.least, n.most);
  } else {
    std::vector<Expr> list;
    for (uint32_t i = 0; i < n.b; ++i) list.push_back(without(pool_.lists_[n.a + i], rules, done));
    kept = pool_.any(list);
  }
  done->emplace(e, kept);
  return kept;
}

// Returns the rules with which a text of the expression may begin, in their order. Only whole
// bodies are asked, and no parts' answers are kept: those of a long row of optional parts are long,
// too.
std::vector<Rule> RuleWriter::fronts(Expr e) {
  looked_at_.resize(pool_.nodes_.size());
  ++n_searches_;
  std::vector<Rule> rules;
  add_fronts(e, &rules);
  std::sort(rules.begin(), rules.end());
  return rules;
}

void RuleWriter::add_fronts(Expr e, std::vector<Rule>* rules) {
  pool_.count_step();
  if (!has_ref(e) || looked_at_[e] == n_searches_) return;
  looked_at_[e] = n_searches_;
  const DepthGuard guard(&pool_.depth_);
  const Node n = node(e);
  if (n.kind == Kind::kRef) {
    rules->push_back(n.a);
  } else if (n.kind == Kind::kConcat) {
    add_fronts(n.a, rules);
    if (pool_.nullable(n.a)) add_fronts(n.b, rules);
  } else if (n.kind == Kind::kRepeat) {
    add_fronts(n.a, rules);
  } else if (n.kind == Kind::kAny) {
    for (uint32_t i = 0; i < n.b; ++i) add_fronts(pool_.lists_[n.a + i], rules);
  }
}

// Gives rules that only call another rule the body at the end of such calls, so that no step has to
// follow them. No such chain leads round, because no text would fit its rules.
void RuleWriter::shorten_chains() {
  std::vector<Rule> chain;
  for (Rule first = 0; first < pool_.rules_.size(); ++first) {
    Expr body = pool_.rules_[first].body;
    chain.assign(1, first);
    while (pool_.nodes_[body].kind == Kind::kRef) {
      pool_.count_step();
      chain.push_back(pool_.nodes_[body].a);
      body = pool_.rules_[chain.back()].body;
    }
    for (const Rule rule : chain) pool_.rules_[rule].body = body;
  }
}

void RuleWriter::remove_left_recursion() {
  visits_.resize(pool_.rules_.size());
  for (Rule rule = 0; rule < visits_.size(); ++rule) {
    if (visits_[rule].number < 0) visit(rule);
  }
}

void RuleWriter::visit(Rule rule) {
  const DepthGuard guard(&pool_.depth_);
  visits_[rule] = {n_visits_, n_visits_, true};
  ++n_visits_;
  open_.push_back(rule);
  const std::vector<Rule> next = fronts(pool_.rules_[rule].body);
  for (const Rule other : next) {
    if (visits_[other].number < 0) visit(other);
    if (!visits_[other].is_open) continue;
    visits_[rule].low = std::min(visits_[rule].low, visits_[other].low);
  }
  if (visits_[rule].low != visits_[rule].number) return;
  // The search begins at the end, so that it takes no longer than the cycle is.
  const auto first = std::find(open_.rbegin(), open_.rend(), rule).base() - 1;
  const std::vector<Rule> cycle(first, open_.end());
  open_.erase(first, open_.end());
  for (const Rule other : cycle) visits_[other].is_open = false;
  if (cycle.size() > 1 || std::binary_search(next.begin(), next.end(), rule)) rewrite(cycle);
}

// Rewrites the rules of a cycle so that none begins with itself. Each rule is Xi = Xj Aij | ... |
// Bi. The bodies of earlier rules are put in place of their calls, and X = X A | B becomes B A*.
// Then each rule begins with later rules only. Most of a table may be kNone, so each row keeps a
// list of what it has: the work that is left makes expressions, which count themselves.
void RuleWriter::rewrite(const std::vector<Rule>& cycle) {
  Cycle members{{cycle.begin(), cycle.end()}, {}};
  const size_t n = cycle.size();
  for (size_t i = 0; i < n * n; ++i)
    pool_.count_step();  // they are counted before they take memory
  std::vector<std::vector<Expr>> a(n, std::vector<Expr>(n));
  std::vector<std::vector<size_t>> later(n);  // says for which j > i there is an Aij
  std::vector<Expr> b(n);
  std::map<Rule, size_t> places;
  for (size_t i = 0; i < n; ++i) places[cycle[i]] = i;
  for (size_t i = 0; i < n; ++i) {
    const Expr body = pool_.rules_[cycle[i]].body;
    b[i] = elsewhere(body, &members);
    for (const Rule front : fronts(body)) {
      const auto place = places.find(front);
      if (place != places.end()) a[i][place->second] = behind(body, front);
    }
  }
  for (size_t i = 0; i < n; ++i) {
    for (size_t k = 0; k < i; ++k) {
      const Expr tail = a[i][k];
      if (tail == Pool::kNone) continue;
      for (const size_t j : later[k]) {
        a[i][j] = pool_.any(a[i][j], pool_.concat(a[k][j], tail));
      }
      b[i] = pool_.any(b[i], pool_.concat(b[k], tail));
    }
    const Expr again = pool_.star(a[i][i]);
    for (size_t j = i + 1; j < n; ++j) {
      if (a[i][j] == Pool::kNone) continue;
      a[i][j] = pool_.concat(a[i][j], again);
      later[i].push_back(j);
    }
    b[i] = pool_.concat(b[i], again);
  }
  for (size_t i = 0; i < n; ++i) {
    std::vector<Expr> body = {b[i]};
    for (const size_t j : later[i]) {
      body.push_back(pool_.concat(pool_.call(cycle[j]), a[i][j]));
    }
    pool_.rules_[cycle[i]].body = pool_.any(body);
  }
}

// Returns what follows the rule in those texts of the expression that begin with it.
Expr RuleWriter::behind(Expr e, Rule rule) {
  pool_.count_step();  // a body is walked once for each rule of its cycle that it begins with
  if (!has_ref(e)) return Pool::kNone;
  const DepthGuard guard(&pool_.depth_);
  const Node n = node(e);
  switch (n.kind) {
    case Kind::kRef:
      return n.a == rule ? Pool::kEmpty : Pool::kNone;
    case Kind::kConcat: {
      const Expr through = pool_.concat(behind(n.a, rule), n.b);
      return pool_.nullable(n.a) ? pool_.any(through, behind(n.b, rule)) : through;
    }
    case Kind::kAny: {
      std::vector<Expr> list;
      for (uint32_t i = 0; i < n.b; ++i) list.push_back(behind(pool_.lists_[n.a + i], rule));
      return pool_.any(list);
    }
    case Kind::kRepeat: {
      const int most = n.most == Pool::kMany ? Pool::kMany : n.most - 1;
      return pool_.concat(behind(n.a, rule), pool_.repeat(n.a, std::max(n.least - 1, 0), most));
    }
    default:
      return Pool::kNone;
  }
}

// Says whether a text of the expression may begin with a rule of the cycle.
bool RuleWriter::begins_with(Expr e, Cycle* cycle) {
  if (!has_ref(e)) return false;
  const auto found = cycle->begins.find(e);
  if (found != cycle->begins.end()) return found->second;
  const DepthGuard guard(&pool_.depth_);
  pool_.count_step();
  return cycle->begins[e] = compute_begins_with(node(e), cycle);
}

bool RuleWriter::compute_begins_with(const Node& n, Cycle* cycle) {
  switch (n.kind) {
    case Kind::kRef:
      return cycle->rules.count(n.a) > 0;
    case Kind::kConcat:
      return begins_with(n.a, cycle) || (pool_.nullable(n.a) && begins_with(n.b, cycle));
    case Kind::kRepeat:
      return begins_with(n.a, cycle);
    case Kind::kAny:
      for (uint32_t i = 0; i < n.b; ++i) {
        if (begins_with(pool_.lists_[n.a + i], cycle)) return true;
      }
      return false;
    default:
      return false;
  }
}

// Returns the expression without the texts that begin with a rule of the cycle.
Expr RuleWriter::elsewhere(Expr e, Cycle* cycle) {
  pool_.count_step();
  if (!begins_with(e, cycle)) return e;
  const DepthGuard guard(&pool_.depth_);
  const auto refuse = [&] {
    throw Error("The rule '" + pool_.rule_name(*cycle->rules.begin()) +
                "' begins with itself behind something that may be empty. Write it so that it "
                "begins with something else, or with itself directly.");
  };
  const Node n = node(e);
  switch (n.kind) {
    case Kind::kRef:
      return Pool::kNone;
    case Kind::kConcat:
      if (pool_.nullable(n.a) && begins_with(n.b, cycle)) refuse();
      return pool_.concat(elsewhere(n.a, cycle), n.b);
    case Kind::kAny: {
      std::vector<Expr> list;
      for (uint32_t i = 0; i < n.b; ++i) list.push_back(elsewhere(pool_.lists_[n.a + i], cycle));
      return pool_.any(list);
    }
    case Kind::kRepeat: {
      if (pool_.nullable(n.a)) refuse();
      const int most = n.most == Pool::kMany ? Pool::kMany : n.most - 1;
      const Expr once =
          pool_.concat(elsewhere(n.a, cycle), pool_.repeat(n.a, std::max(n.least - 1, 0), most));
      return n.least == 0 ? pool_.optional(once) : once;
    }
    default:
      return e;
  }
}

Expr Pool::seal(Expr start) {
  TROIKA_ASSERT(!is_sealed_);
  RuleWriter writer(this);
  writer.find_nullable();
  is_sealed_ = true;
  start = writer.drop_dead(start);
  writer.shorten_chains();
  writer.remove_left_recursion();
  return start;
}

}  // namespace troika::grammar
