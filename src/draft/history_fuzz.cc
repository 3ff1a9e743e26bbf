// Checks that any bytes are read as a history of known tokens, or refused with a sentence.
//
// An odd first byte says that the rest is the file. Else it is texts, each a length and its tokens,
// of which a file with right checksums is made first: no invented bytes would have those.
#include <algorithm>
#include <cstdint>
#include <cstring>

#include "base/error.h"
#include "base/hash.h"
#include "draft/history.h"

namespace {

using troika::draft::Texts;
using troika::draft::Token;

constexpr int kVocab = 4096;
constexpr uint64_t kTokenizer = 0x5eed;

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

template <typename T>
std::string bytes_in(const T& value) {
  return {reinterpret_cast<const char*>(&value), sizeof(value)};
}

bool are_tokens(const std::vector<Token>& text) {
  return std::all_of(text.begin(), text.end(), [](Token t) { return t >= 0 && t < kVocab; });
}

// Returns texts of up to 255 tokens, of which each takes two bytes and may be below 0.
Texts made_up(std::span<const uint8_t> bytes) {
  Texts texts;
  while (!bytes.empty() && bytes[0] > 0) {
    const size_t n = std::min<size_t>(bytes[0], (bytes.size() - 1) / sizeof(int16_t));
    if (n == 0) break;
    std::vector<Token> text;
    for (size_t i = 0; i < n; ++i) {
      int16_t token = 0;
      std::memcpy(&token, bytes.data() + 1 + i * sizeof(token), sizeof(token));
      text.push_back(token);
    }
    texts.push_back(std::move(text));
    bytes = bytes.subspan(1 + n * sizeof(int16_t));
  }
  return texts;
}

std::string file_of(const Texts& texts) {
  std::string file = "TROIKAHI" + bytes_in(uint32_t{1}) + bytes_in(uint32_t{0});
  file += bytes_in(kTokenizer);
  file += bytes_in(troika::hash_of(file));
  for (const std::vector<Token>& text : texts) {
    const std::string count = bytes_in(static_cast<uint32_t>(text.size()));
    const std::string tokens(reinterpret_cast<const char*>(text.data()),
                             text.size() * sizeof(Token));
    file += count + bytes_in(uint32_t{0}) + bytes_in(troika::hash_of(count + tokens)) + tokens;
  }
  return file;
}

Texts read(std::span<const std::byte> bytes) {
  const troika::draft::HistoryFile file("fuzzed", kTokenizer, kVocab);
  size_t n_valid = 0;
  std::string problem;
  Texts texts = file.parse(bytes, &n_valid, &problem);
  TROIKA_ASSERT(n_valid <= bytes.size());
  TROIKA_ASSERT(n_valid == bytes.size() || !problem.empty());
  TROIKA_ASSERT(std::all_of(texts.begin(), texts.end(), are_tokens));
  return texts;
}

void draft_from(Texts texts) {
  const auto known = std::make_shared<const Texts>(std::move(texts));
  troika::draft::HistorySource source(known);
  for (const std::vector<Token>& text : *known) {
    source.reset();
    source.observe(std::span(text).first(text.size() / 2 + 1));
    troika::draft::Tree tree;
    source.propose(31, &tree);
    TROIKA_ASSERT(tree.size() <= 31);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::span<const uint8_t> rest = std::span(data, size).subspan(1);
  if (data[0] % 2 == 1) {
    try {
      draft_from(read(std::as_bytes(rest)));
    } catch (const troika::Error&) {
    }
    return 0;
  }
  Texts wanted = made_up(rest);
  const Texts texts = read(bytes_of(file_of(wanted)));
  // What follows a text with an unknown token is dropped with it.
  wanted.erase(std::find_if_not(wanted.begin(), wanted.end(), are_tokens), wanted.end());
  TROIKA_ASSERT(texts == wanted);
  draft_from(texts);
  return 0;
}
