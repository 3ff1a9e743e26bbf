// Makes vocabularies for tests: small ones, and those of the data folder that are no GGUF files.
#pragma once

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "text/byte_letters.h"
#include "text/vocabulary.h"

namespace troika::test {

// Returns the path of a file or folder of real data, or nothing where TROIKA_DATA is not set.
inline std::optional<std::string> data_path(const std::string& name) {
  const char* folder = std::getenv("TROIKA_DATA");
  if (folder == nullptr || *folder == '\0') return std::nullopt;
  return std::string(folder) + "/" + name;
}

inline std::string read_text(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw std::runtime_error("cannot read " + path);
  return {std::istreambuf_iterator<char>(in), {}};
}

// Returns <unk> <s> </s>, the 256 bytes, then the given tokens, of which the first has the highest
// score.
inline text::Vocabulary spm_vocabulary(const std::vector<std::string>& tokens) {
  using text::TokenType;
  text::Vocabulary v = text::empty_vocabulary(text::VocabularyKind::kSpm, "");
  v.tokens = {"<unk>", "<s>", "</s>"};
  v.types = {TokenType::kUnknown, TokenType::kControl, TokenType::kControl};
  const std::string digits = "0123456789ABCDEF";
  for (int byte = 0; byte < 256; ++byte) {
    v.tokens.push_back(std::string("<0x") + digits[byte / 16] + digits[byte % 16] + ">");
    v.types.push_back(TokenType::kByte);
  }
  v.scores.assign(v.tokens.size(), 0.0f);
  for (const std::string& token : tokens) {
    v.scores.push_back(-static_cast<float>(v.tokens.size()));
    v.tokens.push_back(token);
    v.types.push_back(TokenType::kNormal);
  }
  return v;
}

// Returns the 256 bytes (the token of a byte is its value), a token for each merge, then "<|end|>"
// as a control token.
inline text::Vocabulary bpe_vocabulary(const std::vector<std::string>& merges,
                                       const std::string& pre) {
  using text::TokenType;
  text::Vocabulary v = text::empty_vocabulary(text::VocabularyKind::kBpe, pre);
  v.add_bos = false;
  for (int byte = 0; byte < 256; ++byte) {
    v.tokens.push_back(text::letter_of_byte(static_cast<uint8_t>(byte)));
  }
  v.merges = merges;
  for (const std::string& merge : merges) {
    const size_t space = merge.find(' ', 1);
    v.tokens.push_back(merge.substr(0, space) + merge.substr(space + 1));
  }
  v.types.assign(v.tokens.size(), TokenType::kNormal);
  v.eos = static_cast<text::Token>(v.tokens.size());
  v.tokens.push_back("<|end|>");
  v.types.push_back(TokenType::kControl);
  return v;
}

inline void set_token(text::Vocabulary* v, size_t id, const std::string& token,
                      text::TokenType type) {
  if (v->tokens.size() <= id) {
    v->tokens.resize(id + 1);
    v->types.resize(id + 1, text::TokenType::kUnused);
  }
  v->tokens[id] = token;
  v->types[id] = type;
}

// Reads vocab.json and merges.txt of Hugging Face.
inline text::Vocabulary vocabulary_from_vocab_json(const std::string& folder,
                                                   const std::string& pre) {
  text::Vocabulary v = text::empty_vocabulary(text::VocabularyKind::kBpe, pre);
  v.add_bos = false;
  const auto json = nlohmann::json::parse(read_text(folder + "/vocab.json"));
  for (const auto& [token, id] : json.items()) {
    set_token(&v, id.get<size_t>(), token, text::TokenType::kNormal);
  }
  std::ifstream merges(folder + "/merges.txt");
  for (std::string line; std::getline(merges, line);) {
    if (!line.empty() && !line.starts_with("#version")) v.merges.push_back(line);
  }
  return v;
}

// Reads a tokenizer.json of Hugging Face with byte-level BPE.
inline text::Vocabulary vocabulary_from_tokenizer_json(const std::string& path,
                                                       const std::string& pre) {
  text::Vocabulary v = text::empty_vocabulary(text::VocabularyKind::kBpe, pre);
  v.add_bos = false;
  const auto json = nlohmann::json::parse(read_text(path));
  for (const auto& [token, id] : json.at("model").at("vocab").items()) {
    set_token(&v, id.get<size_t>(), token, text::TokenType::kNormal);
  }
  for (const auto& merge : json.at("model").at("merges")) {
    v.merges.push_back(merge.is_string()
                           ? merge.get<std::string>()
                           : merge.at(0).get<std::string>() + " " + merge.at(1).get<std::string>());
  }
  for (const auto& added : json.at("added_tokens")) {
    set_token(&v, added.at("id").get<size_t>(), added.at("content").get<std::string>(),
              added.at("special").get<bool>() ? text::TokenType::kControl
                                              : text::TokenType::kUserDefined);
  }
  return v;
}

}  // namespace troika::test
