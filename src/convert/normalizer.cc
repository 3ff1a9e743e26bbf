#include "convert/normalizer.h"

#include "base/os_error.h"

namespace troika::convert {
namespace {

constexpr std::string_view kSpaceMark = "\xe2\x96\x81";  // U+2581 stands for a space
// Limits the steps that are told; tokenizers have a handful.
constexpr size_t kMostTold = 32;

bool writes_spaces(const Json& step, const std::string& type) {
  if (type == "Prepend") return text_member(step, "prepend") == kSpaceMark;
  const Json* pattern = member(step, "pattern");
  return type == "Replace" && pattern != nullptr && text_member(*pattern, "String") == " " &&
         text_member(step, "content") == kSpaceMark;
}

void add_foreign(const Json& step, JsonTokenizer kind, std::vector<std::string>* types) {
  if (types->size() > kMostTold) return;
  const std::string type = text_member(step, "type").value_or("");
  const Json* inner = member(step, "normalizers");
  if (type == "Sequence" && inner != nullptr && inner->is_array()) {
    // The reader bounds how deep sequences are nested.
    for (const Json& next : *inner) add_foreign(next, kind, types);
    return;
  }
  const bool is_done = kind == JsonTokenizer::kSentencePiece && writes_spaces(step, type);
  if (type == "NFC" || is_done) return;
  if (types->size() == kMostTold) {
    types->emplace_back("and others");
  } else {
    types->push_back(type.empty() ? "a step without a type" : troika::quoted(type));
  }
}

}  // namespace

std::vector<std::string> foreign_normalizers(const Json& json, JsonTokenizer kind) {
  std::vector<std::string> types;
  if (const Json* normalizer = member(json, "normalizer")) add_foreign(*normalizer, kind, &types);
  return types;
}

}  // namespace troika::convert
