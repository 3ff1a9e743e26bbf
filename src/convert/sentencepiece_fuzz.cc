// Checks that any bytes are either refused with an Error, or are a model of SentencePiece with a
// score and a type for each token.
#include <cstdint>
#include <span>

#include "base/error.h"
#include "convert/sentencepiece.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const auto bytes = std::as_bytes(std::span(data, size));
    const troika::text::Vocabulary v =
        troika::convert::read_sentencepiece(bytes, "fuzz").vocabulary;
    TROIKA_ASSERT(!v.tokens.empty());
    TROIKA_ASSERT(v.scores.size() == v.tokens.size() && v.types.size() == v.tokens.size());
    for (const std::string& token : v.tokens) {
      TROIKA_ASSERT(token.size() <= troika::convert::kMostTokenBytes);
    }
    troika::text::check_vocabulary(v, "fuzz");
  } catch (const troika::Error&) {
  }
  return 0;
}
