// Grammars that answers are held to: compile one for a vocabulary, then let a matcher follow an
// answer and say which tokens may come next. See docs/grammar.md.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "grammar/limits.h"
#include "grammar/masks.h"
#include "grammar/pool.h"
#include "grammar/token_trie.h"

namespace troika::grammar {

enum class Format : uint8_t { kGbnf, kRegex, kJsonSchema };

struct CompileOptions {
  Limits limits{};
  // JSON Schema: whether "format" binds (where it is known) or only tells people something, which
  // is all that the standard wants unless somebody asks for more.
  bool formats_bind = true;
};

// A compiled grammar. What does not change is shared, and what is found out about it while it is
// used is kept for all: matchers of several threads take turns.
class Grammar {
 public:
  // Writes the grammar as an expression, perhaps with what the functions of readers.h read.
  using Build = std::function<Expr(Pool* pool)>;
  Grammar(const Build& build, std::shared_ptr<const TokenTrie> tokens, const Limits& limits);

  const TokenTrie& tokens() const { return *tokens_; }
  size_t n_expressions() const;
  // Makes the first mask, with the steps that compiling has left. To be called before any matcher
  // is made, by whoever has more time than those who ask matchers. Throws Error.
  void make_first_mask();

 private:
  friend class Matcher;
  std::shared_ptr<const TokenTrie> tokens_;
  Limits limits_;
  mutable std::mutex mutex_;
  Pool pool_;
  Masks masks_;
  Expr start_ = Pool::kNone;
};

// Throws Error for a text that is none of the format, that asks for something unsupported, which it
// names with its place, or that takes more than the limits.
std::shared_ptr<Grammar> compile(std::string_view text, Format format,
                                 std::shared_ptr<const TokenTrie> tokens,
                                 const CompileOptions& options = {});

// Reads what is built of several parts.
std::shared_ptr<Grammar> compile(const Grammar::Build& build,
                                 std::shared_ptr<const TokenTrie> tokens,
                                 const Limits& limits = {});

// Where one answer is in its grammar. What throws Error leaves it as it was.
class Matcher {
 public:
  explicit Matcher(std::shared_ptr<Grammar> grammar);

  const Grammar& grammar() const { return *grammar_; }
  // From now on nothing takes more than so many steps, nor waits for another matcher of the same
  // grammar: where it would, TooMuchWork is thrown, and what was found out so far is kept.
  void hurry(uint64_t n_most_steps);
  // As at the beginning: what takes long may, and other matchers are waited for.
  void take_time();
  // The tokens that may come next: those after which the text can still be completed, and where it
  // may end also the vocabulary's end tokens.
  void allowed(TokenSet* set);
  bool is_allowed(Token token);
  // The token comes. False: it must not, and nothing changes.
  bool advance(Token token);
  // The last tokens did not come. REQUIRES: 0 <= n_tokens <= this->n_tokens().
  void back(int n_tokens);
  int n_tokens() const { return static_cast<int>(states_.size()) - 1; }
  bool may_end() const;
  // The bytes that must come next, at most so many.
  std::string forced(size_t most_bytes);

 private:
  static constexpr Expr kEnded = Pool::kUnknown;  // behind an end token
  std::unique_lock<std::mutex> take_turn() const;
  Expr state_behind(Token token);

  std::shared_ptr<Grammar> grammar_;
  uint64_t n_most_steps_;
  bool waits_ = true;
  std::vector<Expr> states_;  // before the first token, then behind each
};

}  // namespace troika::grammar
