#include "tests/support/tiny_tokenizer.h"

#include <cstdio>
#include <set>
#include <stdexcept>
#include <utility>
#include <vector>

namespace troika::test_support {
namespace {

enum TokenType : int32_t { kNormal = 1, kUnknown = 2, kControl = 3, kUnused = 5, kByte = 6 };

struct Vocabulary {
  std::vector<std::string> tokens;
  std::vector<int32_t> types;
  void add(const std::string& token, TokenType type) {
    tokens.push_back(token);
    types.push_back(type);
  }
};

// Returns pairs of pieces that merge, most frequent first. Each part is a letter, the mark of a
// space, or the result of an earlier pair. Pairs of common English come first, then all pairs of
// letters.
std::vector<std::pair<std::string, std::string>> merges(const std::string& space) {
  std::vector<std::pair<std::string, std::string>> pairs = {
      {space, "t"},       {"h", "e"},          {space, "a"}, {"i", "n"},          {space, "s"},
      {space, "w"},       {space + "t", "he"}, {"n", "d"},   {"r", "e"},          {"e", "r"},
      {"o", "n"},         {"in", "g"},         {"e", "d"},   {space + "a", "nd"}, {"o", "u"},
      {space, "b"},       {space, "h"},        {"i", "t"},   {space + "t", "o"},  {"a", "t"},
      {space, "o"},       {space, "f"},        {space, "c"}, {"i", "s"},          {"l", "l"},
      {space + "w", "a"}, {space + "wa", "s"}, {"a", "r"},   {"o", "r"},          {"e", "n"},
      {space, "m"},       {space, "l"},        {space, "p"}, {space, "d"},        {"l", "e"}};
  const std::set<std::pair<std::string, std::string>> common(pairs.begin(), pairs.end());
  for (char first = 'a'; first <= 'z'; ++first) {
    for (char second : std::string("aeioulrnst")) {
      const std::pair<std::string, std::string> pair(std::string(1, first), std::string(1, second));
      if (common.count(pair) == 0) pairs.push_back(pair);
    }
  }
  return pairs;
}

// Returns a code point below 2048 in UTF-8.
std::string utf8(unsigned code) {
  if (code < 128) return std::string(1, static_cast<char>(code));
  return {static_cast<char>(0xc0 | (code >> 6)), static_cast<char>(0x80 | (code & 63))};
}

// Returns the printable characters that stand for bytes in byte-level BPE.
std::vector<std::string> byte_characters() {
  std::vector<std::string> characters;
  unsigned next = 256;
  for (unsigned byte = 0; byte < 256; ++byte) {
    const bool printable = (byte >= 33 && byte <= 126) || (byte >= 161 && byte != 173);
    characters.push_back(utf8(printable ? byte : next++));
  }
  return characters;
}

void add_common_keys(GgufBytes& file, const Vocabulary& vocabulary, const std::string& model) {
  file.add_string("tokenizer.ggml.model", model);
  file.add_strings("tokenizer.ggml.tokens", vocabulary.tokens);
  file.add_int32s("tokenizer.ggml.token_type", vocabulary.types);
}

}  // namespace

void add_spm_tokenizer(GgufBytes& file, size_t n_tokens) {
  Vocabulary vocabulary;
  vocabulary.add("<unk>", kUnknown);
  vocabulary.add("<s>", kControl);
  vocabulary.add("</s>", kControl);
  for (int byte = 0; byte < 256; ++byte) {
    char name[8];
    std::snprintf(name, sizeof name, "<0x%02X>", byte);
    vocabulary.add(name, kByte);
  }
  const std::string space = "\u2581";
  vocabulary.add(space, kNormal);
  for (char letter : std::string("etaoinshrdlucmfwypvbgkjqxzETAOINSHRDLUCMFWYPVBGKJQXZ0123456789"
                                 ".,!?'\"-:;")) {
    vocabulary.add(std::string(1, letter), kNormal);
  }
  const size_t first_character = 3 + 256, first_merge = vocabulary.tokens.size();
  if (first_merge > n_tokens) throw std::runtime_error("the vocabulary is too small");
  for (const auto& [first, second] : merges(space)) {
    if (vocabulary.tokens.size() < n_tokens) vocabulary.add(first + second, kNormal);
  }
  while (vocabulary.tokens.size() < n_tokens) {
    vocabulary.add("<unused" + std::to_string(vocabulary.tokens.size()) + ">", kUnused);
  }
  // The earlier piece wins where two merges are possible. Single characters come last.
  std::vector<float> scores(n_tokens, 0.0f);
  for (size_t i = first_character; i < n_tokens; ++i) {
    scores[i] = i < first_merge ? -1000.0f - i : -static_cast<float>(i);
  }
  add_common_keys(file, vocabulary, "llama");
  file.add_floats("tokenizer.ggml.scores", scores);
  file.add_uint32("tokenizer.ggml.bos_token_id", 1);
  file.add_uint32("tokenizer.ggml.eos_token_id", 2);
  file.add_uint32("tokenizer.ggml.unknown_token_id", 0);
  file.add_bool("tokenizer.ggml.add_bos_token", true);
}

void add_bpe_tokenizer(GgufBytes& file, size_t n_tokens, const std::string& pre, bool add_bos) {
  constexpr size_t kSpecials = 3;
  if (n_tokens < 256 + kSpecials) throw std::runtime_error("the vocabulary is too small");
  const std::vector<std::string> characters = byte_characters();
  Vocabulary vocabulary;
  for (const std::string& character : characters) vocabulary.add(character, kNormal);
  std::vector<std::string> merge_lines;
  for (const auto& [first, second] : merges(characters[' '])) {
    if (vocabulary.tokens.size() + kSpecials == n_tokens) break;
    vocabulary.add(first + second, kNormal);
    merge_lines.push_back(first + " " + second);
  }
  while (vocabulary.tokens.size() + kSpecials < n_tokens) {
    vocabulary.add("[PAD" + std::to_string(vocabulary.tokens.size()) + "]", kUnused);
  }
  const uint32_t end_of_text = static_cast<uint32_t>(vocabulary.tokens.size());
  for (const char* special : {"<|endoftext|>", "<|im_start|>", "<|im_end|>"}) {
    vocabulary.add(special, kControl);
  }
  add_common_keys(file, vocabulary, "gpt2");
  file.add_string("tokenizer.ggml.pre", pre);
  file.add_strings("tokenizer.ggml.merges", merge_lines);
  file.add_uint32("tokenizer.ggml.bos_token_id", end_of_text);
  file.add_uint32("tokenizer.ggml.eos_token_id", end_of_text);
  file.add_bool("tokenizer.ggml.add_bos_token", add_bos);
}

}  // namespace troika::test_support
