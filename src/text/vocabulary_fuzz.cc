// Checks that the bytes of any model file either are refused with an Error, or have a tokenizer
// that encodes texts and gives pieces of all its tokens.
#include <cstdint>
#include <span>

#include "base/error.h"
#include "gguf/file.h"
#include "text/tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace troika;  // NOLINT(google-build-using-namespace)
  try {
    const gguf::File file = gguf::File::parse(std::as_bytes(std::span(data, size)), "fuzz");
    const auto tokenizer = text::make_tokenizer(file);
    for (const bool parse_special : {false, true}) {
      const auto tokens = tokenizer->encode("<|x|> a ab  12 \xe4\xb8\xad</s>\n\xff",
                                            {.parse_special = parse_special});
      for (const text::Token token : tokens) TROIKA_ASSERT(tokenizer->is_token(token));
    }
    size_t n_bytes = 0;
    for (text::Token token = 0; token < tokenizer->n_tokens(); ++token) {
      n_bytes += tokenizer->piece(token, true).size() + (tokenizer->is_end(token) ? 1 : 0);
    }
    // Pieces are parts of the file, at most as long as what stands there for them.
    TROIKA_ASSERT(n_bytes <= size);
  } catch (const Error&) {
  }
  return 0;
}
