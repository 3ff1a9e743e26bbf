#include "grammar/grammar.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "grammar/readers.h"

namespace troika::grammar {
namespace {

Expr read(std::string_view text, Format format, const CompileOptions& options, Pool* pool) {
  if (text.size() > options.limits.n_text_bytes) {
    throw Error(fmt::format("The grammar is {} bytes long; at most {} are read.", text.size(),
                            options.limits.n_text_bytes));
  }
  switch (format) {
    case Format::kGbnf:
      return read_gbnf(text, options.limits, pool);
    case Format::kRegex:
      return read_regex(text, options.limits, pool);
    case Format::kJsonSchema:
      return read_json_schema(text, options.limits, options.formats_bind, pool);
  }
  return Pool::kNone;
}

}  // namespace

Grammar::Grammar(const Build& build, std::shared_ptr<const TokenTrie> tokens, const Limits& limits)
    : tokens_(std::move(tokens)),
      limits_(limits),
      pool_(limits),
      masks_(&pool_, *tokens_, limits.mask_bytes) {
  start_ = pool_.seal(build(&pool_));
  if (start_ == Pool::kNone) throw Error("No text fits the grammar: it asks for what cannot be.");
  set_wear();
}

// Sets from where on the grammar is worn: at half of what is left now.
void Grammar::set_wear() {
  worn_expressions_ = (pool_.n_expressions() + limits_.n_expressions) / 2;
  worn_partitions_ = (pool_.n_partitions() + limits_.n_partitions) / 2;
}

size_t Grammar::n_expressions() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return pool_.n_expressions();
}

size_t Grammar::bytes() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return pool_.bytes() + masks_.bytes();
}

void Grammar::make_first_mask() {
  const std::lock_guard<std::mutex> lock(mutex_);
  TokenSet set;
  masks_.allowed(start_, &set);
  set_wear();
}

std::shared_ptr<Grammar> compile(std::string_view text, Format format,
                                 std::shared_ptr<const TokenTrie> tokens,
                                 const CompileOptions& options) {
  return compile([&](Pool* pool) { return read(text, format, options, pool); }, std::move(tokens),
                 options.limits);
}

std::shared_ptr<Grammar> compile(const Grammar::Build& build,
                                 std::shared_ptr<const TokenTrie> tokens, const Limits& limits) {
  return std::make_shared<Grammar>(build, std::move(tokens), limits);
}

Matcher::Matcher(std::shared_ptr<Grammar> grammar)
    : grammar_(std::move(grammar)), n_most_steps_(grammar_->limits_.n_mask_steps) {
  states_.push_back(grammar_->start_);
}

void Matcher::hurry(uint64_t n_most_steps) {
  n_most_steps_ = std::min(n_most_steps, grammar_->limits_.n_mask_steps);
  waits_ = false;
}

void Matcher::take_time() {
  n_most_steps_ = grammar_->limits_.n_mask_steps;
  waits_ = true;
}

// Locks the grammar for one call, which gets a new allowance of steps.
Matcher::Turn Matcher::take_turn() const {
  std::unique_lock<std::mutex> lock(grammar_->mutex_, std::defer_lock);
  if (waits_) {
    lock.lock();
  } else if (!lock.try_lock()) {
    throw TooMuchWork("Somebody else asks the grammar now. Ask again.");
  }
  grammar_->pool_.allow_steps(n_most_steps_);
  return Turn(*grammar_, std::move(lock));
}

void Matcher::allowed(TokenSet* set) {
  const auto turn = take_turn();
  const Expr state = states_.back();
  if (state == kEnded) {
    set->resize(grammar_->tokens().n_tokens());
    return;
  }
  grammar_->masks_.allowed(state, set);
  if (grammar_->pool_.nullable(state)) set->add_all(grammar_->tokens().ends());
}

Expr Matcher::state_behind(Token token) {
  const TokenTrie& tokens = grammar_->tokens();
  Expr state = states_.back();
  if (state == kEnded || token < 0 || token >= tokens.n_tokens()) return Pool::kNone;
  if (tokens.is_end(token)) return grammar_->pool_.nullable(state) ? kEnded : Pool::kNone;
  const std::string_view bytes = tokens.bytes(token);
  if (bytes.empty()) return Pool::kNone;
  for (const char byte : bytes) {
    state = grammar_->pool_.step(state, static_cast<uint8_t>(byte));
    if (state == Pool::kNone) break;
  }
  return state;
}

bool Matcher::is_allowed(Token token) {
  const auto turn = take_turn();
  return state_behind(token) != Pool::kNone;
}

bool Matcher::advance(Token token) {
  const auto turn = take_turn();
  const Expr state = state_behind(token);
  if (state == Pool::kNone) return false;
  states_.push_back(state);
  return true;
}

void Matcher::back(int n_tokens) {
  TROIKA_ASSERT(n_tokens >= 0 && n_tokens <= this->n_tokens());
  states_.resize(states_.size() - static_cast<size_t>(n_tokens));
}

bool Matcher::may_end() const {
  const auto turn = take_turn();
  return states_.back() != kEnded && grammar_->pool_.nullable(states_.back());
}

std::string Matcher::forced(size_t most_bytes) {
  const auto turn = take_turn();
  Pool& pool = grammar_->pool_;
  std::string bytes;
  Expr state = states_.back();
  while (state != kEnded && bytes.size() < most_bytes && !pool.nullable(state)) {
    const int byte = pool.only_byte(state);
    if (byte < 0) break;
    bytes += static_cast<char>(byte);
    state = pool.step(state, static_cast<uint8_t>(byte));
  }
  return bytes;
}

}  // namespace troika::grammar
