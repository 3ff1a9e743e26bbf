// Holds the bytes of a vocabulary's tokens as flat tries, which grammars walk. They are made once
// for a vocabulary, and any number of grammars share them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "grammar/token_set.h"
#include "text/tokenizer.h"

namespace troika::grammar {

// Says whether a character is plain: it may stand in a JSON string as it is. Most tokens of a
// vocabulary have plain characters only, and mostly all of those tokens are allowed or none is.
bool is_plain(uint32_t code);

struct Trie {
  struct Node {
    uint8_t byte;
    bool ends_character;  // says, in tries of plain tokens, that a character ends here
    uint16_t depth;       // 1 for the first byte of a token
    uint32_t end;         // the number of the node behind the last one below this
    Token token;          // kNoToken where the node only begins other tokens
  };
  std::vector<Node> nodes;  // each node stands in front of those below it
  TokenSet tokens;          // all tokens of the trie
  // The most characters of a token if all tokens are plain; 0 if they are not.
  int most_plain = 0;
};

class TokenTrie {
 public:
  // Tokens without bytes and end tokens stand in no trie, and control tokens only where a text may
  // have their names.
  explicit TokenTrie(const text::Tokenizer& tokenizer, bool has_control = false);

  int n_tokens() const { return n_tokens_; }
  int n_most_bytes() const { return n_most_bytes_; }
  // Returns three tries: short plain tokens, long plain tokens, and all other tokens.
  const std::vector<Trie>& tries() const { return tries_; }
  std::string_view bytes(Token token) const;
  bool is_end(Token token) const { return ends_.has(token); }
  const TokenSet& ends() const { return ends_; }
  // Writes the bytes as tokens, each the longest that fits behind the ones before.
  void write(std::string_view bytes, std::vector<Token>* tokens) const;

 private:
  int n_tokens_;
  int n_most_bytes_ = 0;
  TokenSet ends_;
  std::string pieces_;
  std::vector<uint32_t> begins_;  // where tokens begin in `pieces_`; one more than tokens
  std::vector<Trie> tries_;
};

}  // namespace troika::grammar
