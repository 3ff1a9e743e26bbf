#include "grammar/token_trie.h"

#include <algorithm>
#include <numeric>

#include "text/utf8.h"

namespace troika::grammar {
namespace {

// Limits the characters of a short token. Most tokens are not longer, and strings are rarely so
// close to their greatest length that a short token would not fit.
constexpr int kShort = 16;

// Counts the plain characters that the bytes are; returns 0 if they are something else.
int plain_characters(std::string_view bytes) {
  int n = 0;
  while (!bytes.empty()) {
    const text::Utf8Char c = text::decode_utf8(bytes);
    if (!c.valid || !is_plain(c.code)) return 0;
    bytes.remove_prefix(c.bytes);
    ++n;
  }
  return n;
}

size_t common_bytes(std::string_view a, std::string_view b) {
  return static_cast<size_t>(
      std::mismatch(a.begin(), a.begin() + std::min(a.size(), b.size()), b.begin()).first -
      a.begin());
}

struct TokenText {
  std::string_view bytes;
  Token token;
};

// REQUIRES that the pieces are sorted. Nodes of tokens with equal bytes stand side by side.
Trie make_trie(const std::vector<TokenText>& pieces, int n_tokens, int most_plain) {
  Trie trie;
  trie.most_plain = most_plain;
  trie.tokens.resize(n_tokens);
  std::vector<uint32_t> open;  // the nodes on the way to the last node
  const auto close = [&](size_t n_kept) {
    for (; open.size() > n_kept; open.pop_back()) {
      trie.nodes[open.back()].end = static_cast<uint32_t>(trie.nodes.size());
    }
  };
  std::string_view last;
  for (const TokenText& piece : pieces) {
    size_t common = common_bytes(last, piece.bytes);
    if (common == piece.bytes.size()) --common;
    close(common);
    for (size_t i = common; i < piece.bytes.size(); ++i) {
      open.push_back(static_cast<uint32_t>(trie.nodes.size()));
      const bool is_last = i + 1 == piece.bytes.size();
      const bool ends = is_last || (static_cast<uint8_t>(piece.bytes[i + 1]) & 0xc0) != 0x80;
      trie.nodes.push_back({static_cast<uint8_t>(piece.bytes[i]), ends,
                            static_cast<uint16_t>(i + 1), 0, text::kNoToken});
    }
    trie.nodes.back().token = piece.token;
    trie.tokens.add(piece.token);
    last = piece.bytes;
  }
  close(0);
  return trie;
}

}  // namespace

bool is_plain(uint32_t code) { return code >= 0x20 && code != '"' && code != '\\' && code != 0x7f; }

TokenTrie::TokenTrie(const text::Tokenizer& tokenizer, bool has_control)
    : n_tokens_(tokenizer.n_tokens()), ends_(tokenizer.n_tokens()) {
  begins_.push_back(0);
  for (const Token token : tokenizer.ends()) ends_.add(token);
  for (Token token = 0; token < n_tokens_; ++token) {
    const std::string_view piece =
        ends_.has(token) ? std::string_view() : tokenizer.piece(token, has_control);
    // Longer tokens are left out, as a node's depth has 16 bits. No vocabulary has such tokens.
    if (piece.size() <= UINT16_MAX) pieces_ += piece;
    begins_.push_back(static_cast<uint32_t>(pieces_.size()));
  }
  std::vector<TokenText> of[3];
  int longest = kShort;
  for (Token token = 0; token < n_tokens_; ++token) {
    const std::string_view piece = bytes(token);
    if (piece.empty()) continue;
    n_most_bytes_ = std::max(n_most_bytes_, static_cast<int>(piece.size()));
    const int n_plain = plain_characters(piece);
    longest = std::max(longest, n_plain);
    of[n_plain == 0 ? 2 : n_plain <= kShort ? 0 : 1].push_back({piece, token});
  }
  const int most_plain[3] = {kShort, longest, 0};
  for (int i = 0; i < 3; ++i) {
    std::sort(of[i].begin(), of[i].end(), [](const TokenText& a, const TokenText& b) {
      return a.bytes != b.bytes ? a.bytes < b.bytes : a.token < b.token;
    });
    tries_.push_back(make_trie(of[i], n_tokens_, most_plain[i]));
  }
}

std::string_view TokenTrie::bytes(Token token) const {
  const uint32_t begin = begins_[static_cast<size_t>(token)];
  return std::string_view(pieces_).substr(begin, begins_[static_cast<size_t>(token) + 1] - begin);
}

void TokenTrie::write(std::string_view text, std::vector<Token>* tokens) const {
  while (!text.empty()) {
    Token best = text::kNoToken;
    size_t n_best = 0;
    for (const Trie& trie : tries_) {
      size_t depth = 0;
      for (uint32_t i = 0; i < trie.nodes.size() && depth < text.size();) {
        const Trie::Node& node = trie.nodes[i];
        if (node.depth != depth + 1) break;
        if (node.byte != static_cast<uint8_t>(text[depth])) {
          i = node.end;
          continue;
        }
        ++depth;
        ++i;
        if (node.token == text::kNoToken || depth <= n_best) continue;
        best = node.token;
        n_best = depth;
      }
    }
    if (best == text::kNoToken) return;
    tokens->push_back(best);
    text.remove_prefix(n_best);
  }
}

}  // namespace troika::grammar
