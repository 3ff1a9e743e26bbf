// A small vocabulary for tests and fuzz targets: <unk> <s> </s>, the 256 bytes, then the pieces.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "grammar/token_trie.h"

namespace troika::grammar {

inline constexpr Token kMadeUpEnd = 2;
inline constexpr Token made_up_byte(uint8_t byte) { return 3 + byte; }

inline std::shared_ptr<const TokenTrie> made_up_tokens(const std::vector<std::string>& pieces) {
  using text::TokenType;
  text::Vocabulary v = text::empty_vocabulary(text::VocabularyKind::kSpm, "");
  v.tokens = {"<unk>", "<s>", "</s>"};
  v.types = {TokenType::kUnknown, TokenType::kControl, TokenType::kControl};
  v.eos = kMadeUpEnd;
  const std::string digits = "0123456789ABCDEF";
  for (size_t byte = 0; byte < 256; ++byte) {
    v.tokens.push_back(std::string("<0x") + digits[byte / 16] + digits[byte % 16] + ">");
    v.types.push_back(TokenType::kByte);
  }
  v.tokens.insert(v.tokens.end(), pieces.begin(), pieces.end());
  v.types.resize(v.tokens.size(), TokenType::kNormal);
  v.scores.assign(v.tokens.size(), 0.0f);
  return std::make_shared<const TokenTrie>(*text::make_tokenizer(v));
}

}  // namespace troika::grammar
