#include "grammar/masks.h"

#include <algorithm>
#include <set>
#include <string_view>

#include "grammar/characters.h"

namespace troika::grammar {
namespace {

// Masks for which fewer nodes were visited are made again rather than kept.
constexpr size_t kWorthKeeping = 400;

CharacterSet plain_set() {
  CharacterSet out;
  for (uint32_t code = 0; code < 0x80; ++code) {
    if (!is_plain(code)) out.add(code, code);
  }
  return out.inverted();
}

}  // namespace

Masks::Masks(Pool* pool, const TokenTrie& tokens, size_t most_bytes)
    : pool_(*pool),
      tokens_(tokens),
      most_bytes_(most_bytes),
      plain_(utf8_character(pool, plain_set())),
      stack_(static_cast<size_t>(tokens.n_most_bytes()) + 1) {}

// Says whether the expression accepts each plain character. Then every beginning of a plain
// character is also a beginning of the expression's texts.
bool Masks::accepts_plain(Expr character) {
  if (character >= accepts_plain_.size()) accepts_plain_.resize(pool_.n_expressions(), -1);
  if (accepts_plain_[character] >= 0) return accepts_plain_[character] > 0;
  bool accepts = true;
  std::set<std::pair<Expr, Expr>> seen = {{character, plain_}};
  std::vector<std::pair<Expr, Expr>> open(seen.begin(), seen.end());
  while (accepts && !open.empty()) {
    const auto [e, plain] = open.back();
    open.pop_back();
    const std::span<const uint8_t> bytes = pool_.representatives(e, plain);
    const std::vector<uint8_t> all(bytes.begin(), bytes.end());
    for (const uint8_t byte : all) {
      const Expr next_plain = pool_.step(plain, byte);
      if (next_plain == Pool::kNone) continue;
      const Expr next = pool_.step(e, byte);
      accepts &= next != Pool::kNone && (!pool_.nullable(next_plain) || pool_.nullable(next));
      if (!accepts) break;
      if (seen.emplace(next, next_plain).second) open.emplace_back(next, next_plain);
    }
  }
  accepts_plain_[character] = accepts ? 1 : 0;
  return accepts;
}

int Masks::find_n_plain(Expr state) {
  const int n = count_plain(state);
  if (state >= n_plain_.size()) n_plain_.resize(pool_.n_expressions(), -1);
  n_plain_[state] = n;
  return n;
}

// Returns a number of plain characters that may follow the state, whichever they are. The true
// number may be greater.
int Masks::count_plain(Expr state) {
  const Pool::Shape shape = pool_.shape(state);
  switch (shape.kind) {
    case Kind::kConcat:
      return n_plain(shape.a);
    case Kind::kRepeat:
      if (!accepts_plain(shape.a)) return 0;
      return shape.most == Pool::kMany ? kEndless : shape.most;
    case Kind::kAny: {
      int most = 0;
      for (const Expr part : pool_.parts(state)) {
        const Kind kind = pool_.shape(part).kind;
        if (kind == Kind::kConcat || kind == Kind::kRepeat) most = std::max(most, n_plain(part));
        if (most == kEndless) break;
      }
      return most;
    }
    default:
      return 0;
  }
}

// Guesses from the most usual bytes whether most tokens are allowed, so that it costs less to begin
// with all tokens and take away those that are not.
bool Masks::is_mostly_plain(const Trie& trie, Expr state) {
  constexpr std::string_view kUsual = " etaoS1";
  int n = 0;
  for (const char c : kUsual) {
    const Expr next = pool_.step(state, static_cast<uint8_t>(c));
    n += n_plain(next) >= trie.most_plain ? 1 : 0;
  }
  return n > static_cast<int>(kUsual.size()) / 2;
}

void Masks::walk(const Trie& trie, Expr state, TokenSet* set) {
  const bool is_plain = trie.most_plain > 0;
  if (is_plain && n_plain(state) >= trie.most_plain) {
    set->add_all(trie.tokens);
    return;
  }
  const bool is_taken_away = is_plain && is_mostly_plain(trie, state);
  if (is_taken_away) set->add_all(trie.tokens);
  const std::vector<Trie::Node>& nodes = trie.nodes;
  stack_[0] = state;
  for (uint32_t i = 0; i < nodes.size();) {
    const Trie::Node& node = nodes[i];
    ++n_visited_;
    const Expr next = pool_.step(stack_[node.depth - 1u], node.byte);
    const bool is_all =
        next != Pool::kNone && is_plain && node.ends_character && n_plain(next) >= trie.most_plain;
    if (is_all || next == Pool::kNone) {
      if (is_all != is_taken_away) {
        for (uint32_t j = i; j < node.end; ++j) {
          if (nodes[j].token == text::kNoToken) continue;
          is_all ? set->add(nodes[j].token) : set->remove(nodes[j].token);
        }
      }
      i = node.end;
      continue;
    }
    if (node.token != text::kNoToken) set->add(node.token);
    stack_[node.depth] = next;
    ++i;
  }
}

void Masks::allowed(Expr state, TokenSet* set) {
  const auto found = kept_.find(state);
  if (found != kept_.end()) {
    *set = found->second;
    return;
  }
  set->resize(tokens_.n_tokens());
  n_visited_ = 0;
  for (const Trie& trie : tokens_.tries()) walk(trie, state, set);
  if (n_visited_ < kWorthKeeping) return;
  const size_t bytes = set->words().size() * sizeof(uint64_t);
  if (n_kept_bytes_ + bytes > most_bytes_) {
    kept_.clear();
    n_kept_bytes_ = 0;
  }
  if (bytes > most_bytes_) return;
  kept_.emplace(state, *set);
  n_kept_bytes_ += bytes;
}

}  // namespace troika::grammar
