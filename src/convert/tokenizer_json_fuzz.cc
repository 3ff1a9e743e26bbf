// Checks that any bytes are either refused with an Error, or are a tokenizer.json of which a
// vocabulary is made that agrees with itself.
#include <cstdint>
#include <string_view>

#include "base/error.h"
#include "convert/normalizer.h"
#include "convert/tokenizer_json.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace troika::convert;
  constexpr uint64_t kVocab = 300;
  try {
    const Json json = parse_json({reinterpret_cast<const char*>(data), size}, "fuzz");
    (void)foreign_normalizers(json, kind_of(json, "fuzz"));
    (void)has_template(json);
    const TokenFile file = {"fuzz", kVocab};
    const troika::text::Vocabulary v = read_tokenizer_json(json, file, "");
    TROIKA_ASSERT(!v.tokens.empty() && v.tokens.size() <= file.most_tokens());
    TROIKA_ASSERT(v.types.size() == v.tokens.size());
    TROIKA_ASSERT(v.strips_right.size() <= v.tokens.size());
    TROIKA_ASSERT(v.scores.size() ==
                  (v.kind == troika::text::VocabularyKind::kSpm ? v.tokens.size() : 0));
    troika::text::check_vocabulary(v, "fuzz");
  } catch (const troika::Error&) {
  }
  return 0;
}
