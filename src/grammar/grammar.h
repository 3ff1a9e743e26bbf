// Grammars that answers are held to: compile one for a vocabulary, then let a matcher follow an
// answer and say which tokens may come next. See docs/grammar.md.
#pragma once

#include <atomic>
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
  // Says that the known values of JSON Schema's "format" bind. If not, "format" is only a remark,
  // which is all that the standard asks for.
  bool formats_bind = true;
};

// A compiled grammar, which any number of matchers share. What one matcher finds out about the
// grammar is kept for all of them, so matchers of several threads take turns.
class Grammar {
 public:
  // Such a function writes the grammar as an expression, perhaps with the functions of readers.h.
  using Build = std::function<Expr(Pool* pool)>;
  Grammar(const Build& build, std::shared_ptr<const TokenTrie> tokens, const Limits& limits);

  const TokenTrie& tokens() const { return *tokens_; }
  size_t n_expressions() const;
  // Returns about how many bytes the grammar takes, with what matchers have found out. They may
  // wait for each other.
  size_t bytes() const;
  // Says that matchers have used up half of the states that compiling had left. They are never
  // given back, so whoever keeps grammars for later answers compiles this one anew, lest an answer
  // ends because of what others have found out.
  bool is_worn() const { return is_worn_.load(std::memory_order_relaxed); }
  // Makes the first mask, with the steps that compiling has left. It is called before any matcher
  // is made, by a thread that has more time than those that ask matchers. Throws Error.
  void make_first_mask();

 private:
  friend class Matcher;
  void set_wear();

  std::shared_ptr<const TokenTrie> tokens_;
  Limits limits_;
  mutable std::mutex mutex_;
  Pool pool_;
  Masks masks_;
  Expr start_ = Pool::kNone;
  // The expressions and partitions of the pool from which on it is worn.
  size_t worn_expressions_ = 0, worn_partitions_ = 0;
  std::atomic<bool> is_worn_ = false;
};

// Compiles a grammar's text. Throws Error for a text that is not of the format, that takes more
// than the limits, or that asks for something unsupported, whose place the error names.
std::shared_ptr<Grammar> compile(std::string_view text, Format format,
                                 std::shared_ptr<const TokenTrie> tokens,
                                 const CompileOptions& options = {});

// Compiles a grammar that is built of several parts.
std::shared_ptr<Grammar> compile(const Grammar::Build& build,
                                 std::shared_ptr<const TokenTrie> tokens,
                                 const Limits& limits = {});

// Follows one answer through its grammar. A function that throws Error leaves the matcher as it
// was.
class Matcher {
 public:
  explicit Matcher(std::shared_ptr<Grammar> grammar);

  const Grammar& grammar() const { return *grammar_; }
  // Lets no later call take more than n_most_steps steps, or wait for another matcher of the
  // grammar. A call that would do so throws TooMuchWork, and what it found out so far is kept.
  void hurry(uint64_t n_most_steps);
  // Ends hurry(): calls may take long again, and wait for other matchers.
  void take_time();
  // Sets the tokens that may come next: those after which the text can still be completed, and,
  // where the text may end, the vocabulary's end tokens.
  void allowed(TokenSet* set);
  bool is_allowed(Token token);
  // Goes on with a token. Returns false and changes nothing if the token may not come.
  bool advance(Token token);
  // Takes the last tokens back. REQUIRES: 0 <= n_tokens <= this->n_tokens().
  void back(int n_tokens);
  int n_tokens() const { return static_cast<int>(states_.size()) - 1; }
  bool may_end() const;
  // Returns the bytes that must come next, but no more than `most_bytes`.
  std::string forced(size_t most_bytes);

 private:
  static constexpr Expr kEnded = Pool::kUnknown;  // the state behind an end token
  // Holds the grammar for one call, behind which it may be worn.
  class Turn {
   public:
    Turn(Grammar& grammar, std::unique_lock<std::mutex> lock)
        : grammar_(grammar), lock_(std::move(lock)) {}
    ~Turn() {
      const Pool& pool = grammar_.pool_;
      const bool is_worn = pool.n_expressions() >= grammar_.worn_expressions_ ||
                           pool.n_partitions() >= grammar_.worn_partitions_;
      if (is_worn) grammar_.is_worn_ = true;
    }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

   private:
    Grammar& grammar_;
    std::unique_lock<std::mutex> lock_;
  };
  Turn take_turn() const;
  Expr state_behind(Token token);

  std::shared_ptr<Grammar> grammar_;
  uint64_t n_most_steps_;
  bool waits_ = true;
  std::vector<Expr> states_;  // the state before the first token, then behind each token
};

}  // namespace troika::grammar
