#include "forge/synth_tokenizer.h"

#include <fmt/format.h>

#include <functional>
#include <string>
#include <vector>

#include "base/error.h"
#include "text/byte_letters.h"
#include "text/vocabulary.h"

namespace troika::forge {
namespace {

using text::TokenType;

constexpr std::string_view kLetters = "etaoinshrdlucmwfgypbvkjxqz";
constexpr int kLongestPiece = 4;

struct Vocabulary {
  std::vector<std::string> tokens;
  std::vector<int32_t> types;
  std::vector<float> scores;
  std::vector<std::string> merges;

  void add(std::string token, TokenType type, float score = 0.0F) {
    tokens.push_back(std::move(token));
    types.push_back(static_cast<int32_t>(type));
    scores.push_back(score);
  }
};

// Visits pairs (left, letter) whose concatenation is a new piece: shorter pieces come first, and
// `space` or a letter stands in front. Every left part is a letter, `space` or an earlier piece, so
// that a tokenizer that merges neighbours finds each piece. Stops when `visit` returns false.
void for_each_piece(std::string_view space,
                    const std::function<bool(const std::string& left, char letter)>& visit) {
  std::vector<std::string> shorter = {std::string(space)};
  for (const char letter : kLetters) shorter.emplace_back(1, letter);
  for (int length = 2; length <= kLongestPiece; ++length) {
    std::vector<std::string> longer;
    for (const std::string& left : shorter) {
      for (const char letter : kLetters) {
        if (!visit(left, letter)) return;
        longer.push_back(left + letter);
      }
    }
    shorter = std::move(longer);
  }
}

void pad(Vocabulary& vocabulary, size_t n_tokens) {
  TROIKA_ASSERT(vocabulary.tokens.size() <= n_tokens);
  while (vocabulary.tokens.size() < n_tokens) {
    vocabulary.add(fmt::format("[PAD{}]", vocabulary.tokens.size()), TokenType::kUnused);
  }
}

void add_sentence_piece(const model::KnownModel& model, gguf::Writer& writer) {
  const std::string space = "\xe2\x96\x81";  // U+2581 stands for a space
  const bool is_gemma = model.architecture == "gemma";
  Vocabulary v;
  if (is_gemma) v.add("<pad>", TokenType::kControl);
  if (is_gemma) v.add("<eos>", TokenType::kControl);
  if (is_gemma) v.add("<bos>", TokenType::kControl);
  v.add("<unk>", TokenType::kUnknown);
  if (!is_gemma) v.add("<s>", TokenType::kControl);
  if (!is_gemma) v.add("</s>", TokenType::kControl);
  for (int byte = 0; byte < 256; ++byte) v.add(fmt::format("<0x{:02X}>", byte), TokenType::kByte);
  // A piece with a higher score merges earlier. Single characters need no merge and come last.
  constexpr float kCharacterScore = -1e6F;
  v.add(space, TokenType::kNormal, kCharacterScore);
  for (char c = '!'; c <= '~'; ++c) v.add(std::string(1, c), TokenType::kNormal, kCharacterScore);
  float score = 0.0F;
  for_each_piece(space, [&](const std::string& left, char letter) {
    if (v.tokens.size() >= model.n_vocab) return false;
    v.add(left + letter, TokenType::kNormal, score);
    score -= 1.0F;
    return true;
  });
  pad(v, model.n_vocab);

  writer.add_string("tokenizer.ggml.model", "llama");
  writer.add_string("tokenizer.ggml.pre", "default");
  writer.add_strings("tokenizer.ggml.tokens", v.tokens);
  writer.add_floats("tokenizer.ggml.scores", v.scores);
  writer.add_int32s("tokenizer.ggml.token_type", v.types);
  writer.add_uint32("tokenizer.ggml.bos_token_id", is_gemma ? 2 : 1);
  writer.add_uint32("tokenizer.ggml.eos_token_id", is_gemma ? 1 : 2);
  writer.add_uint32("tokenizer.ggml.unknown_token_id", is_gemma ? 3 : 0);
  if (is_gemma) writer.add_uint32("tokenizer.ggml.padding_token_id", 0);
  writer.add_bool("tokenizer.ggml.add_bos_token", true);
  writer.add_bool("tokenizer.ggml.add_eos_token", false);
  writer.add_bool("tokenizer.ggml.add_space_prefix", !is_gemma);
}

struct BpeSpecials {
  std::vector<const char*> tokens;
  size_t bos;  // an index into tokens
  size_t eos;
  bool add_bos;
};

BpeSpecials specials_of(std::string_view pre) {
  if (pre == "qwen2") return {{"<|endoftext|>", "<|im_start|>", "<|im_end|>"}, 0, 2, false};
  if (pre == "llama-bpe") {
    return {{"<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>",
             "<|eot_id|>"},
            0,
            1,
            true};
  }
  if (pre == "smollm") return {{"<|endoftext|>", "<|im_start|>", "<|im_end|>"}, 1, 2, false};
  return {{"<|endoftext|>"}, 0, 0, false};
}

void add_byte_level_bpe(const model::KnownModel& model, gguf::Writer& writer) {
  const BpeSpecials specials = specials_of(model.pre);
  const size_t n_regular = model.n_vocab - specials.tokens.size();
  Vocabulary v;
  for (int byte = 0; byte < 256; ++byte) {
    v.add(text::letter_of_byte(static_cast<uint8_t>(byte)), TokenType::kNormal);
  }
  for_each_piece(text::letter_of_byte(' '), [&](const std::string& left, char letter) {
    if (v.tokens.size() >= n_regular) return false;
    v.add(left + letter, TokenType::kNormal);
    v.merges.push_back(fmt::format("{} {}", left, letter));
    return true;
  });
  pad(v, n_regular);
  for (const char* token : specials.tokens) v.add(token, TokenType::kControl);

  writer.add_string("tokenizer.ggml.model", "gpt2");
  writer.add_string("tokenizer.ggml.pre", model.pre);
  writer.add_strings("tokenizer.ggml.tokens", v.tokens);
  writer.add_int32s("tokenizer.ggml.token_type", v.types);
  writer.add_strings("tokenizer.ggml.merges", v.merges);
  writer.add_uint32("tokenizer.ggml.bos_token_id", static_cast<uint32_t>(n_regular + specials.bos));
  writer.add_uint32("tokenizer.ggml.eos_token_id", static_cast<uint32_t>(n_regular + specials.eos));
  writer.add_bool("tokenizer.ggml.add_bos_token", specials.add_bos);
}

}  // namespace

void add_synth_tokenizer(const model::KnownModel& model, gguf::Writer& writer) {
  if (model.tokenizer == "llama") {
    add_sentence_piece(model, writer);
  } else {
    TROIKA_ASSERT(model.tokenizer == "gpt2");
    add_byte_level_bpe(model, writer);
  }
}

}  // namespace troika::forge
