#include "tune/proof/text_parts.h"

#include <fmt/format.h>

#include <string_view>

#include "base/error.h"
#include "text/utf8.h"

namespace troika::tune {
namespace {

constexpr size_t kLeastTokens = 64;
constexpr const char* kSpaces = " \n";
// A cut moves to a space by at most this part of the bytes before it. Texts in languages without
// spaces have them only where paragraphs end, and one that went back so far could lose nearly all.
constexpr size_t kNearPart = 16;

// Returns the place where a character begins at or before n.
size_t between_characters(std::string_view text, size_t n) {
  return n - text::incomplete_utf8_tail(text.substr(0, n));
}

}  // namespace

void check_length(size_t n_tokens) {
  if (n_tokens >= kLeastTokens) return;
  throw Error(
      fmt::format("A text of {} tokens is too short to calibrate with; {} are needed at "
                  "least, some thousands are good.",
                  n_tokens, kLeastTokens));
}

std::string beginning_of_text(const text::Tokenizer& tokenizer, const std::string& text,
                              size_t n_tokens) {
  const size_t n_all =
      tokenizer.encode(text, {.add_special = false, .parse_special = false}).size();
  check_length(n_all);
  if (n_all <= n_tokens) return text;
  const auto share = static_cast<double>(n_tokens) / static_cast<double>(n_all);
  const auto n_bytes = static_cast<size_t>(share * static_cast<double>(text.size()));
  const size_t space = text.find_last_of(kSpaces, n_bytes);
  const bool is_near = space != std::string::npos && n_bytes - space <= n_bytes / kNearPart;
  return text.substr(0, is_near ? space : between_characters(text, n_bytes));
}

std::pair<std::string, std::string> halves(const std::string& text) {
  const size_t half = text.size() / 2;
  const size_t space = text.find_first_of(kSpaces, half);
  const bool is_near = space != std::string::npos && space - half <= half / kNearPart;
  const size_t middle = is_near ? space : between_characters(text, half);
  return {text.substr(0, middle), text.substr(middle)};
}

}  // namespace troika::tune
