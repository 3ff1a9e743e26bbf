// A set of tokens as bits.
#pragma once

#include <bit>
#include <cstdint>
#include <vector>

#include "text/vocabulary.h"

namespace troika::grammar {

using text::Token;

class TokenSet {
 public:
  explicit TokenSet(int n_tokens = 0) { resize(n_tokens); }
  // Empties the set and makes room for this many tokens.
  void resize(int n_tokens) {
    n_tokens_ = n_tokens;
    words_.assign((static_cast<size_t>(n_tokens) + 63) / 64, 0);
  }
  int n_tokens() const { return n_tokens_; }
  void add(Token token) { words_[word(token)] |= bit(token); }
  void remove(Token token) { words_[word(token)] &= ~bit(token); }
  bool has(Token token) const {
    return token >= 0 && token < n_tokens_ && (words_[word(token)] & bit(token)) != 0;
  }
  // Adds the tokens of another set. REQUIRES: both have room for the same number of tokens.
  void add_all(const TokenSet& other) {
    for (size_t i = 0; i < words_.size(); ++i) words_[i] |= other.words_[i];
  }
  int size() const {
    int n = 0;
    for (const uint64_t w : words_) n += std::popcount(w);
    return n;
  }
  const std::vector<uint64_t>& words() const { return words_; }
  bool operator==(const TokenSet&) const = default;

 private:
  static size_t word(Token token) { return static_cast<size_t>(token) >> 6; }
  static uint64_t bit(Token token) { return uint64_t{1} << (static_cast<size_t>(token) & 63); }

  int n_tokens_ = 0;
  std::vector<uint64_t> words_;
};

}  // namespace troika::grammar
