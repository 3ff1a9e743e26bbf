#include "text/bpe.h"

#include <fmt/format.h>

#include <array>
#include <deque>
#include <unordered_map>

#include "base/error.h"
#include "base/hash.h"
#include "base/os_error.h"
#include "text/byte_letters.h"
#include "text/merge.h"
#include "text/pair_table.h"
#include "text/splitter.h"
#include "text/word_cache.h"

namespace troika::text {
namespace {

class BpeTokenizer final : public Tokenizer {
 public:
  explicit BpeTokenizer(Vocabulary vocabulary);

 private:
  // Gives every string that occurs in merges a number: its token, or one behind the tokens.
  class Names;

  void encode_text(std::string_view text, bool first, std::vector<Token>* out) const override;
  void encode_word(std::string_view word, Merger* merger, std::vector<Token>* out) const;
  void append_bytes(std::string_view bytes, std::vector<Token>* out) const;
  // Says whether the token's text is written in the letters of bytes. Tokens that somebody added by
  // hand are plain text, and are searched for in the text beforehand.
  bool is_spelled(Token id) const {
    return !is_control(id) && vocabulary().types[id] != TokenType::kUserDefined &&
           !vocabulary().tokens[id].empty();
  }
  void add_pieces();
  void add_merges();

  Splitter splitter_;
  PairTable merges_;
  std::array<Token, 256> bytes_;
  // Has the bytes of every token, with ignore_merges.
  std::unordered_map<std::string, Token, HashOfNames> words_;
};

class BpeTokenizer::Names {
 public:
  explicit Names(const BpeTokenizer& tokenizer) : next_(tokenizer.n_tokens()) {
    const std::vector<std::string>& tokens = tokenizer.vocabulary().tokens;
    ids_.reserve(tokens.size());
    for (Token id = 0; id < tokenizer.n_tokens(); ++id) {
      if (tokenizer.is_spelled(id)) ids_.emplace(tokens[id], id);
    }
  }

  Token id(std::string_view name) {
    const auto it = ids_.find(name);
    if (it != ids_.end()) return it->second;
    others_.emplace_back(name);
    return ids_.emplace(others_.back(), next_++).first->second;
  }

 private:
  Token next_;
  std::deque<std::string> others_;  // keeps the strings where they are
  std::unordered_map<std::string_view, Token, HashOfNames> ids_;
};

BpeTokenizer::BpeTokenizer(Vocabulary vocabulary)
    : Tokenizer(std::move(vocabulary)), splitter_(find_splitter(this->vocabulary().pre)) {
  add_pieces();
  add_merges();
}

void BpeTokenizer::add_pieces() {
  const Vocabulary& v = vocabulary();
  for (Token id = 0; id < n_tokens(); ++id) {
    std::string bytes;
    const bool spelled = is_spelled(id) && bytes_from_letters(v.tokens[id], &bytes);
    add_piece(spelled ? bytes : v.tokens[id]);
    if (splitter_.ignore_merges && spelled) words_.emplace(std::move(bytes), id);
  }
}

void BpeTokenizer::add_merges() {
  const std::vector<std::string>& merges = vocabulary().merges;
  Names names(*this);
  for (int byte = 0; byte < 256; ++byte) {
    bytes_[byte] = names.id(letter_of_byte(static_cast<uint8_t>(byte)));
  }
  const bool has_replacement =
      is_token(bytes_[0xef]) || is_token(bytes_[0xbf]) || is_token(bytes_[0xbd]);
  if (vocabulary().unk == kNoToken && !has_replacement) leave_bytes_out();
  merges_.reserve(merges.size());
  for (size_t i = 0; i < merges.size(); ++i) {
    // The search skips the first character, because the first half of a merge may begin with a
    // space.
    const size_t space = merges[i].find(' ', 1);
    if (space == std::string::npos || space + 1 == merges[i].size()) {
      throw Error(
          fmt::format("Merge {} of the tokenizer, {}, is not two parts with a space "
                      "between them. The file is damaged; download it again.",
                      i, troika::quoted(merges[i])));
    }
    const std::string left = merges[i].substr(0, space);
    const std::string right = merges[i].substr(space + 1);
    const Join join{static_cast<uint32_t>(i), names.id(left + right)};
    merges_.insert(names.id(left), names.id(right), join);
  }
}

void BpeTokenizer::encode_text(std::string_view text, bool, std::vector<Token>* out) const {
  Merger merger;
  WordCache cache;
  for (std::string_view word : split(splitter_, text)) {
    cache.append(word, out, [&](std::string_view w) { encode_word(w, &merger, out); });
  }
}

void BpeTokenizer::encode_word(std::string_view word, Merger* merger,
                               std::vector<Token>* out) const {
  if (splitter_.ignore_merges) {
    const auto whole = words_.find(std::string(word));
    if (whole != words_.end()) {
      out->push_back(whole->second);
      return;
    }
  }
  merger->clear();
  for (size_t i = 0; i < word.size(); ++i) {
    merger->add(static_cast<uint32_t>(i), 1, bytes_[static_cast<uint8_t>(word[i])]);
  }
  merger->run([&](const Symbol& left, const Symbol& right) {
    return merges_.find(left.token, right.token);
  });
  const std::vector<Symbol>& symbols = merger->symbols();
  for (int32_t i = 0; i >= 0; i = symbols[i].next) {
    if (is_token(symbols[i].token)) {
      out->push_back(symbols[i].token);
    } else {
      append_bytes(word.substr(symbols[i].begin, symbols[i].size), out);
    }
  }
}

void BpeTokenizer::append_bytes(std::string_view bytes, std::vector<Token>* out) const {
  for (char c : bytes) {
    const Token id = bytes_[static_cast<uint8_t>(c)];
    if (is_token(id)) {
      out->push_back(id);
    } else if (vocabulary().unk != kNoToken) {
      out->push_back(vocabulary().unk);
    } else {
      // Vocabularies lack bytes that UTF-8 never has, so the text was not UTF-8.
      for (const uint8_t replacement : {0xef, 0xbf, 0xbd}) {
        if (is_token(bytes_[replacement])) out->push_back(bytes_[replacement]);
      }
    }
  }
}

}  // namespace

std::unique_ptr<Tokenizer> make_bpe_tokenizer(Vocabulary vocabulary) {
  return std::make_unique<BpeTokenizer>(std::move(vocabulary));
}

}  // namespace troika::text
