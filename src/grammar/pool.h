// A pool holds grammars as expressions over bytes, made of regular operators and calls of rules.
// Equal expressions are stored once, so an expression's number stands for the language of all that
// may still follow, and a step with one byte (a derivative) leads to another number. The state of a
// text in a grammar is such a number alone: its chain of concatenations is the stack of open rules.
//
// Only the expression kNone has an empty language, so a state that is not kNone can be completed.
// Every function throws Error if it takes too many expressions or steps.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "grammar/byte_set.h"
#include "grammar/expr_index.h"
#include "grammar/fresh_pages.h"
#include "grammar/limits.h"

namespace troika::grammar {

using Expr = uint32_t;
using Rule = uint32_t;

enum class Kind : uint8_t { kNone, kEmpty, kBytes, kConcat, kAny, kAll, kNot, kRepeat, kRef };

class Pool {
 public:
  static constexpr Expr kNone = 0;              // accepts no text
  static constexpr Expr kEmpty = 1;             // accepts the empty text alone
  static constexpr int kMany = -1;              // sets no limit to repetitions
  static constexpr Expr kUnknown = 0xffffffff;  // is no expression

  explicit Pool(const Limits& limits);

  // These functions build expressions. all() and no() REQUIRE that their operands call no rules.
  Expr bytes(const ByteSet& set);
  Expr literal(std::string_view text, Expr then = kEmpty);
  Expr concat(Expr a, Expr b);
  Expr any(const std::vector<Expr>& of);  // accepts what at least one of them accepts
  Expr any(Expr a, Expr b) { return any(std::vector<Expr>{a, b}); }
  Expr all(const std::vector<Expr>& of);  // accepts what all of them accept
  Expr no(Expr a);                        // accepts all other strings of bytes
  Expr repeat(Expr a, int least, int most);
  Expr star(Expr a) { return repeat(a, 0, kMany); }
  Expr optional(Expr a) { return any(kEmpty, a); }

  Rule add_rule(std::string name);
  void set_rule(Rule rule, Expr body);
  Expr call(Rule rule);
  const std::string& rule_name(Rule rule) const { return rules_[rule].name; }

  // Ends the building: drops rules that no text fits, and rewrites rules that begin with
  // themselves. It is called once, after the last rule and before the first step. Returns what
  // `start` has become.
  Expr seal(Expr start);

  // These functions ask about expressions.
  bool nullable(Expr e) const { return nodes_[e].nullable > 0; }
  Expr step(Expr e, uint8_t byte);
  // Returns the byte with which every text of e begins; -1 if there are several, or if e accepts
  // nothing more.
  int only_byte(Expr e);
  // Returns one byte of each class of e, so that a caller can look at all of e's steps.
  std::span<const uint8_t> representatives(Expr e);
  std::span<const uint8_t> representatives(Expr e, Expr f);  // for e and f together
  bool calls_rules(Expr e) const { return (nodes_[e].flags & kHasRef) != 0; }

  struct Shape {
    Kind kind;
    Expr a, b;
    int least, most;
  };
  Shape shape(Expr e) const;
  std::span<const Expr> parts(Expr e) const;  // for kAny and kAll

  // Counts a step of work that makes no expression, as readers of texts do it. Throws TooMuchWork
  // where no step is left.
  void count_step();
  // Allows n steps until it is called again.
  void allow_steps(uint64_t n) { n_steps_left_ = n; }
  size_t n_expressions() const { return nodes_.size(); }
  size_t n_partitions() const { return partitions_.size(); }
  // Returns about how many bytes the expressions and their transitions take.
  size_t bytes() const;

 private:
  friend class RuleWriter;
  static constexpr uint8_t kHasRef = 1;
  struct Node {
    Kind kind;
    uint8_t flags = 0;
    int8_t nullable = -1;  // 0 or 1; -1 where it is not known before seal()
    int8_t is_alive = -1;  // 1 if it has a text, 0 if not, -1 if nobody looked
    uint32_t epoch = 0;    // the epoch of its table; tables of older epochs are gone
    uint32_t a = 0,
             b = 0;  // operands; of kBytes the set; of kAny and kAll the parts' place and number
    int least = 0, most = 0;
    uint32_t partition = 0;  // its partition of bytes into classes; 0: not known
    uint32_t table = 0;      // where its steps lie in tables_; 0: nowhere
  };
  struct RuleBody {
    std::string name;
    Expr body = kNone;
    bool nullable = false;
  };
  // The steps from one expression. Bytes of the same class lead to the same state.
  struct Table {
    const uint8_t* class_of;  // (256)
    const Expr* next;         // by class; kUnknown where the step is not known, or was forgotten
    int n_classes;
  };

  Expr intern(const Node& node);
  Expr add_node(uint64_t hash, const Node& node);
  void count_found(size_t n);
  Expr intern_list(Kind kind, std::span<const Expr> parts);
  bool compute_nullable(const Node& node) const;
  void flatten(Kind kind, const std::vector<Expr>& from, std::vector<Expr>* to) const;
  void join_bytes(std::vector<Expr>* parts);
  void join_tails(std::vector<Expr>* parts);
  void join_heads(std::vector<Expr>* parts);
  Expr raw_all(const std::vector<Expr>& of);
  Expr alive(Expr e);
  // Says whether an expression may accept no text without being kNone.
  bool is_open(Expr e) const {
    return nodes_[e].kind == Kind::kAll || nodes_[e].kind == Kind::kNot;
  }
  bool surely_has_text(Expr e) const;
  bool has_text(Expr e);
  std::optional<bool> search_text(Expr start, size_t most);
  bool is_empty_by_two(Expr e);
  bool has_example(Expr e);
  std::string example_of(Expr start);
  Expr raw_step(Expr e, uint8_t byte);
  Table table(Expr e);
  bool knows_step(Expr e, uint8_t byte) const;
  std::vector<Expr> step_ways(Expr e, uint8_t byte);
  Expr step_all(Expr e, uint8_t byte);
  Expr open_step(Expr e, uint8_t byte);
  uint32_t partition_of(Expr e);
  uint32_t joined_partition(Expr e);
  void add_fronts(Expr e, std::vector<Expr>* to) const;
  void forget_tables();
  uint32_t refine(uint32_t p, uint32_t q);
  uint32_t intern_partition(const std::string& classes);

  Limits limits_;
  std::vector<Node, FreshPages<Node>> nodes_;
  std::vector<Expr, FreshPages<Expr>> lists_;
  ExprIndex index_;
  std::vector<ByteSet> sets_;
  std::unordered_map<uint64_t, std::vector<uint32_t>> set_index_;
  std::vector<RuleBody> rules_;
  struct Partition {
    std::string class_of;  // (256)
    std::string representatives;
  };
  std::vector<Partition> partitions_;
  std::unordered_map<std::string, uint32_t> partition_index_;
  std::unordered_map<uint64_t, uint32_t> refined_;
  std::vector<Expr, FreshPages<Expr>> tables_;
  uint32_t epoch_ = 0;
  uint64_t n_steps_left_;
  size_t n_found_ = 0;  // counts expressions that were found again and make no whole step yet
  int depth_ = 0;
  bool is_sealed_ = false;
};

}  // namespace troika::grammar
