#include "text/spm.h"

#include <array>
#include <functional>
#include <map>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/error.h"
#include "base/hash.h"
#include "text/merge.h"
#include "text/utf8.h"
#include "text/word_cache.h"

namespace troika::text {
namespace {

constexpr std::string_view kSpace = "\xe2\x96\x81";  // U+2581, how a space is written in tokens

std::string replace_all(std::string_view text, std::string_view from, std::string_view to) {
  std::string out;
  out.reserve(text.size());
  for (size_t at = 0;;) {
    const size_t found = text.find(from, at);
    out += text.substr(at, found - at);
    if (found == std::string_view::npos) return out;
    out += to;
    at = found + from.size();
  }
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

// Returns the byte that "<0xHH>" names, or -1.
int byte_of_name(std::string_view name) {
  if (name.size() != 6 || !name.starts_with("<0x") || name[5] != '>') return -1;
  const int high = hex_digit(name[3]);
  const int low = hex_digit(name[4]);
  return high < 0 || low < 0 ? -1 : high * 16 + low;
}

// Says whether a space stands in the token after something that is no space.
bool has_inner_space(std::string_view token) {
  while (token.starts_with(kSpace)) token.remove_prefix(kSpace.size());
  return token.find(kSpace) != std::string_view::npos;
}

class SpmTokenizer final : public Tokenizer {
 public:
  explicit SpmTokenizer(Vocabulary vocabulary);

 private:
  void encode_text(std::string_view text, bool first, std::vector<Token>* out) const override;

  // Maps the text of an unused token that was joined from parts to the bytes of its left part.
  using Splits = std::map<std::string, size_t, std::less<>>;
  void encode_word(std::string_view word, Merger* merger, std::vector<Token>* out) const;
  void append(std::string_view text, const Splits& splits, std::vector<Token>* out) const;
  void append_bytes(std::string_view text, std::vector<Token>* out) const;
  Token lookup(std::string_view text) const;
  void add_tokens();
  void rank_scores();

  std::unordered_map<std::string_view, Token, HashOfNames>
      ids_;                           // has tokens that may be the reading of a text
  std::vector<uint32_t> priorities_;  // one for each token; the highest score has 0
  std::array<Token, 256> bytes_;
  size_t max_token_bytes_ = 0;
  // Says that no token reaches over the beginning of a word, so that words can be tokenized one by
  // one.
  bool words_are_separate_ = true;
};

SpmTokenizer::SpmTokenizer(Vocabulary vocabulary) : Tokenizer(std::move(vocabulary)) {
  bytes_.fill(kNoToken);
  add_tokens();
  for (const Token byte : bytes_) {
    if (byte == kNoToken && this->vocabulary().unk == kNoToken) leave_bytes_out();
  }
  rank_scores();
  // A few vocabularies have the bytes as plain tokens of one byte.
  for (int byte = 0; byte < 256; ++byte) {
    const char c = static_cast<char>(byte);
    if (bytes_[byte] == kNoToken) bytes_[byte] = lookup({&c, 1});
  }
}

void SpmTokenizer::add_tokens() {
  const Vocabulary& v = this->vocabulary();
  ids_.reserve(v.tokens.size());
  for (Token id = 0; id < n_tokens(); ++id) {
    const std::string& text = v.tokens[id];
    const int byte = byte_of_name(text);
    if (byte >= 0 && v.types[id] == TokenType::kByte) {
      add_piece(std::string(1, static_cast<char>(byte)));
    } else {
      add_piece(replace_all(text, kSpace, " "));
    }
    if (byte >= 0 && bytes_[byte] == kNoToken) bytes_[byte] = id;
    // Control tokens and bytes are never the reading of a text.
    if (is_control(id) || v.types[id] == TokenType::kByte || text.empty()) continue;
    ids_.emplace(text, id);
    max_token_bytes_ = std::max(max_token_bytes_, text.size());
    if (has_inner_space(text)) words_are_separate_ = false;
  }
}

void SpmTokenizer::rank_scores() {
  const std::vector<float>& scores = vocabulary().scores;
  std::vector<float> distinct = scores;
  std::sort(distinct.begin(), distinct.end(), std::greater<>());
  distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
  priorities_.reserve(scores.size());
  for (float score : scores) {
    const auto it = std::lower_bound(distinct.begin(), distinct.end(), score, std::greater<>());
    priorities_.push_back(static_cast<uint32_t>(it - distinct.begin()));
  }
}

Token SpmTokenizer::lookup(std::string_view text) const {
  const auto it = ids_.find(text);
  return it == ids_.end() ? kNoToken : it->second;
}

void SpmTokenizer::encode_text(std::string_view text, bool first, std::vector<Token>* out) const {
  std::string escaped = replace_all(text, " ", kSpace);
  const bool is_there =
      vocabulary().space_rule != SpaceRule::kEachText && escaped.starts_with(kSpace);
  if (first && vocabulary().add_space_prefix && !is_there) escaped.insert(0, kSpace);
  Merger merger;
  if (!words_are_separate_) {
    encode_word(escaped, &merger, out);
    return;
  }
  WordCache cache;
  const std::string_view all = escaped;
  for (size_t begin = 0; begin < all.size();) {
    size_t letters = begin;
    while (all.substr(letters).starts_with(kSpace)) letters += kSpace.size();
    const size_t end = std::min(all.find(kSpace, letters), all.size());
    cache.append(all.substr(begin, end - begin), out,
                 [&](std::string_view word) { encode_word(word, &merger, out); });
    begin = end;
  }
}

void SpmTokenizer::encode_word(std::string_view word, Merger* merger,
                               std::vector<Token>* out) const {
  merger->clear();
  for (size_t at = 0; at < word.size();) {
    const uint8_t bytes = decode_utf8(word.substr(at)).bytes;
    merger->add(static_cast<uint32_t>(at), bytes, lookup(word.substr(at, bytes)));
    at += bytes;
  }
  Splits splits;
  merger->run([&](const Symbol& left, const Symbol& right) -> Join {
    const size_t bytes = size_t{left.size} + right.size;
    if (bytes > max_token_bytes_) return {};
    const std::string_view text = word.substr(left.begin, bytes);
    const Token token = lookup(text);
    if (token == kNoToken) return {};
    if (vocabulary().types[token] == TokenType::kUnused) splits[std::string(text)] = left.size;
    return {priorities_[token], token};
  });
  const std::vector<Symbol>& symbols = merger->symbols();
  for (int32_t i = 0; i >= 0; i = symbols[i].next) {
    append(word.substr(symbols[i].begin, symbols[i].size), splits, out);
  }
}

// Appends the tokens of a text. Unused tokens may serve as a step on the way to a longer one, but
// not as a result: they are split into what they were joined from. What waits is no stack of calls,
// because a vocabulary may make it as deep as the text is long.
void SpmTokenizer::append(std::string_view text, const Splits& splits,
                          std::vector<Token>* out) const {
  std::vector<std::string_view> waiting = {text};
  while (!waiting.empty()) {
    const std::string_view next = waiting.back();
    waiting.pop_back();
    const Token token = lookup(next);
    if (token == kNoToken) {
      append_bytes(next, out);
      continue;
    }
    const auto split =
        vocabulary().types[token] == TokenType::kUnused ? splits.find(next) : splits.end();
    if (split == splits.end()) {
      out->push_back(token);
      continue;
    }
    waiting.push_back(next.substr(split->second));
    waiting.push_back(next.substr(0, split->second));
  }
}

void SpmTokenizer::append_bytes(std::string_view text, std::vector<Token>* out) const {
  for (char c : text) {
    const Token byte = bytes_[static_cast<uint8_t>(c)];
    if (byte != kNoToken) {
      out->push_back(byte);
    } else if (vocabulary().unk != kNoToken) {
      out->push_back(vocabulary().unk);  // stands once for the whole character
      return;
    }
  }
}

}  // namespace

std::unique_ptr<Tokenizer> make_spm_tokenizer(Vocabulary vocabulary) {
  return std::make_unique<SpmTokenizer>(std::move(vocabulary));
}

}  // namespace troika::text
