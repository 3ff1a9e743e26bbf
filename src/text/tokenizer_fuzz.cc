// Checks that any bytes are encoded without a crash, and that byte-level BPE gives them back.
#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "text/byte_letters.h"
#include "text/stream.h"
#include "text/tokenizer.h"
#include "text/utf8.h"

namespace {

using troika::text::empty_vocabulary;
using troika::text::make_tokenizer;
using troika::text::Token;
using troika::text::Tokenizer;
using troika::text::TokenType;
using troika::text::Vocabulary;
using troika::text::VocabularyKind;

Vocabulary small_bpe(const char* pre) {
  Vocabulary v = empty_vocabulary(VocabularyKind::kBpe, pre);
  v.add_bos = false;
  for (int byte = 0; byte < 256; ++byte) {
    v.tokens.push_back(troika::text::letter_of_byte(static_cast<uint8_t>(byte)));
  }
  v.merges = {"a b", "ab c", "Ġ a", "Ġ Ġ", "ĠĠ ĠĠ", "1 2", "Ã ©", "' s", "a a", "aa aa"};
  for (const std::string& merge : v.merges) {
    const size_t space = merge.find(' ', 1);
    v.tokens.push_back(merge.substr(0, space) + merge.substr(space + 1));
  }
  v.types.assign(v.tokens.size(), TokenType::kNormal);
  for (const char* name : {"<|end|>", "<|x|>", "<|"}) {
    v.tokens.push_back(name);
    v.types.push_back(name[2] == 'e' ? TokenType::kControl : TokenType::kUserDefined);
  }
  return v;
}

Vocabulary small_spm() {
  Vocabulary v = empty_vocabulary(VocabularyKind::kSpm, "");
  v.tokens = {"<unk>", "<s>", "</s>"};
  v.types = {TokenType::kUnknown, TokenType::kControl, TokenType::kControl};
  const std::string digits = "0123456789ABCDEF";
  for (int byte = 0; byte < 256; ++byte) {
    v.tokens.push_back(std::string("<0x") + digits[byte / 16] + digits[byte % 16] + ">");
    v.types.push_back(TokenType::kByte);
  }
  for (const char* token : {"▁", "a", "b", "ab", "▁a", "▁▁", "é", "aa", "aaaa"}) {
    v.tokens.push_back(token);
    v.types.push_back(TokenType::kNormal);
  }
  v.scores.assign(v.tokens.size(), 0.0f);
  return v;
}

std::vector<std::unique_ptr<Tokenizer>> make_all() {
  std::vector<std::unique_ptr<Tokenizer>> all;
  for (const char* pre :
       {"gpt-2", "llama-bpe", "qwen35", "deepseek-llm", "deepseek-v3", "gpt-4o", "falcon", "viking",
        "default", "smollm", "tekken", "deepseek-coder", "laguna"}) {
    all.push_back(make_tokenizer(small_bpe(pre)));
  }
  all.push_back(make_tokenizer(small_spm()));
  return all;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const auto all = make_all();
  if (size == 0) return 0;
  const bool parse_special = data[0] & 1;
  const Tokenizer& tokenizer = *all[(data[0] >> 1) % all.size()];
  const std::string text(reinterpret_cast<const char*>(data) + 1, size - 1);
  const auto tokens =
      tokenizer.encode(text, {.add_special = false, .parse_special = parse_special});
  TROIKA_ASSERT(tokens.size() <= text.size() + 4);
  const std::string decoded = tokenizer.decode(tokens, true);
  const bool is_bpe = tokenizer.vocabulary().kind == VocabularyKind::kBpe;
  // SentencePiece does not give all texts back: it reads U+2581 as a space, and adds a space behind
  // special tokens.
  if (is_bpe) TROIKA_ASSERT(decoded == text);
  troika::text::TextStream stream(tokenizer, {.stops = {"ab"}, .render_special = true});
  std::string streamed;
  for (Token token : tokens) streamed += stream.push(token);
  streamed += stream.finish();
  TROIKA_ASSERT(troika::text::replace_invalid_utf8(streamed) == streamed);
  TROIKA_ASSERT(streamed.find("ab") == std::string::npos);
  return 0;
}
