// The bytes of a vocabulary's tokens as flat tries, for grammars to walk. Made once for a
// vocabulary; any number of grammars share it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "grammar/token_set.h"
#include "text/tokenizer.h"

namespace troika::grammar {

// Whether a character may stand in a JSON string as it is; tokens of such characters alone are most
// of a vocabulary, and mostly all of them are allowed or none.
bool is_plain(uint32_t code);

struct Trie {
  struct Node {
    uint8_t byte;
    bool ends_character;  // in tries of plain tokens
    uint16_t depth;       // 1 for the first byte of a token
    uint32_t end;         // the node behind the last one below this
    Token token;          // kNoToken: only the beginning of others
  };
  std::vector<Node> nodes;  // each in front of those below it
  TokenSet tokens;          // all of them
  // No token of a plain trie has more characters. 0: tokens are not plain.
  int most_plain = 0;
};

class TokenTrie {
 public:
  // Tokens without bytes and end tokens stand in no trie, and control tokens only where a text may
  // have their names.
  explicit TokenTrie(const text::Tokenizer& tokenizer, bool has_control = false);

  int n_tokens() const { return n_tokens_; }
  int n_most_bytes() const { return n_most_bytes_; }
  // Plain tokens that are short, plain ones that are long, and all others.
  const std::vector<Trie>& tries() const { return tries_; }
  std::string_view bytes(Token token) const;
  bool is_end(Token token) const { return ends_.has(token); }
  const TokenSet& ends() const { return ends_; }
  // The longest tokens with which these bytes can be written, one after the other.
  void write(std::string_view bytes, std::vector<Token>* tokens) const;

 private:
  int n_tokens_;
  int n_most_bytes_ = 0;
  TokenSet ends_;
  std::string pieces_;
  std::vector<uint32_t> begins_;  // one more than tokens
  std::vector<Trie> tries_;
};

}  // namespace troika::grammar
