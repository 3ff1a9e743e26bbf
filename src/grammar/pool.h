// Grammars as expressions over bytes: regular operators, and calls of rules. Equal expressions are
// one, so an expression's number stands for the language of everything that may still follow, and
// one step with a byte (a derivative) leads to another number. A state of a text under a grammar is
// such a number and nothing else: its chain of concatenations is the stack of open rules.
//
// All expressions but none() have a language that is not empty: a state that is not none() can be
// completed. Whatever takes too many expressions or steps throws Error.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "grammar/byte_set.h"
#include "grammar/expr_index.h"
#include "grammar/limits.h"

namespace troika::grammar {

using Expr = uint32_t;
using Rule = uint32_t;

enum class Kind : uint8_t { kNone, kEmpty, kBytes, kConcat, kAny, kAll, kNot, kRepeat, kRef };

class Pool {
 public:
  static constexpr Expr kNone = 0;   // no text
  static constexpr Expr kEmpty = 1;  // the empty text
  static constexpr int kMany = -1;   // no limit of repetitions

  explicit Pool(const Limits& limits);

  // Building. Both REQUIRE of `all` and `no` that no rule is called within.
  Expr bytes(const ByteSet& set);
  Expr literal(std::string_view text, Expr then = kEmpty);
  Expr concat(Expr a, Expr b);
  Expr any(const std::vector<Expr>& of);  // one of them
  Expr any(Expr a, Expr b) { return any(std::vector<Expr>{a, b}); }
  Expr all(const std::vector<Expr>& of);  // what all of them accept
  Expr no(Expr a);                        // all other strings of bytes
  Expr repeat(Expr a, int least, int most);
  Expr star(Expr a) { return repeat(a, 0, kMany); }
  Expr optional(Expr a) { return any(kEmpty, a); }

  Rule add_rule(std::string name);
  void set_rule(Rule rule, Expr body);
  Expr call(Rule rule);
  const std::string& rule_name(Rule rule) const { return rules_[rule].name; }

  // To be called once, behind the last rule and before the first step: rules that no text fits are
  // dropped, and those that begin with themselves are written anew. Returns what `start` has
  // become.
  Expr seal(Expr start);

  // Asking.
  bool nullable(Expr e) const { return nodes_[e].nullable > 0; }
  Expr step(Expr e, uint8_t byte);
  // The byte with which every text of e begins; -1: there are several, or e accepts nothing more.
  int only_byte(Expr e);
  // Bytes of the same class lead to the same state.
  struct Table {
    const uint8_t* class_of;  // (256)
    const Expr* next;  // by class; kUnknown where nobody asked yet, or where it was forgotten
    int n_classes;
  };
  static constexpr Expr kUnknown = 0xffffffff;
  Table table(Expr e);
  // A byte of each class of e, for whoever looks at all transitions.
  std::span<const uint8_t> representatives(Expr e);
  std::span<const uint8_t> representatives(Expr e, Expr f);  // of both
  bool calls_rules(Expr e) const { return (nodes_[e].flags & kHasRef) != 0; }

  struct Shape {
    Kind kind;
    Expr a, b;
    int least, most;
  };
  Shape shape(Expr e) const;
  std::span<const Expr> parts(Expr e) const;  // of kAny and kAll

  // So many further steps may be taken before the next call of this.
  void allow_steps(uint64_t n) { n_steps_left_ = n; }
  size_t n_expressions() const { return nodes_.size(); }

 private:
  friend class RuleWriter;
  static constexpr uint8_t kHasRef = 1;
  struct Node {
    Kind kind;
    uint8_t flags = 0;
    int8_t nullable = -1;  // 0, 1; -1: not known before the rules are sealed
    int8_t is_alive = -1;  // kAll: 0 no text, 1 some, -1: nobody looked
    uint32_t epoch = 0;    // in which the table was made; those of others are forgotten
    uint32_t a = 0,
             b = 0;  // operands; kBytes: the set; kAny, kAll: where their parts lie, how many
    int least = 0, most = 0;
    uint32_t partition = 0;  // of bytes into classes, 0: not known
    uint32_t table = 0;      // where its transitions lie, 0: none
  };
  struct RuleBody {
    std::string name;
    Expr body = kNone;
    bool nullable = false;
  };
  class Depth;

  void count_step();
  Expr intern(const Node& node);
  Expr add_node(uint64_t hash, const Node& node);
  Expr intern_list(Kind kind, std::span<const Expr> parts);
  bool compute_nullable(const Node& node) const;
  void flatten(Kind kind, const std::vector<Expr>& from, std::vector<Expr>* to) const;
  void join_bytes(std::vector<Expr>* parts);
  void join_tails(std::vector<Expr>* parts);
  void join_heads(std::vector<Expr>* parts);
  Expr raw_all(const std::vector<Expr>& of);
  Expr alive(Expr e);
  bool has_text(Expr e);
  Expr raw_step(Expr e, uint8_t byte);
  Expr step_all(Expr e, uint8_t byte);
  Expr open_step(Expr e, uint8_t byte);
  uint32_t partition_of(Expr e);
  void forget_tables();
  uint32_t refine(uint32_t p, uint32_t q);
  uint32_t intern_partition(const std::string& classes);
  bool keeps_table(Expr e) const;

  Limits limits_;
  std::vector<Node> nodes_;
  std::vector<Expr> lists_;
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
  std::vector<Expr> tables_;
  uint32_t epoch_ = 0;
  uint64_t n_steps_left_;
  int depth_ = 0;
  bool is_sealed_ = false;
};

}  // namespace troika::grammar
