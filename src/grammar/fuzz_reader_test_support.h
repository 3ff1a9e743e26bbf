// Holds the check that the fuzz targets of all readers share.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/error.h"
#include "grammar/grammar.h"
#include "grammar/made_up_vocabulary_test_support.h"

namespace troika::grammar {

// Checks that any bytes are refused with an Error, or are a grammar that stays within the limits,
// whose masks agree with each token's own answer, and none of whose states is a dead end.
inline void fuzz_reader(std::string_view text, Format format) {
  static const auto tokens =
      made_up_tokens({"ab", "\"}", "{\"", "\":", "12", "\xe4\xb8", "aaaaaaaaaaaaaaaaaa"});
  CompileOptions options;
  options.limits = {.n_text_bytes = 4096,
                    .n_expressions = 20'000,
                    .table_bytes = size_t{1} << 20,
                    .mask_bytes = 4096,
                    .n_compile_steps = 200'000,
                    .n_mask_steps = 20'000,
                    .n_nested = 50};
  try {
    Matcher matcher(compile(text, format, tokens, options));
    for (uint32_t i = 0; i < 24; ++i) {
      TokenSet set;
      matcher.allowed(&set);
      Token next = text::kNoToken;
      uint32_t n_until = i * 37 % 19;
      for (Token token = 0; token < set.n_tokens(); ++token) {
        if (set.has(token) != matcher.is_allowed(token)) std::abort();
        if (!set.has(token) || tokens->is_end(token)) continue;
        if (next == text::kNoToken || n_until > 0) next = token, n_until -= n_until > 0 ? 1 : 0;
      }
      if (set.size() == 0) std::abort();
      if (next == text::kNoToken) break;
      const std::string forced = matcher.forced(8);
      if (!matcher.advance(next)) std::abort();
      const std::string_view bytes = tokens->bytes(next);
      const size_t n = std::min(bytes.size(), forced.size());
      if (bytes.substr(0, n) != forced.substr(0, n)) std::abort();
    }
    matcher.back(matcher.n_tokens());
  } catch (const Error&) {
  }
}

}  // namespace troika::grammar
