// Finds what a tokenizer.json does to texts before it splits them.
#pragma once

#include <string>
#include <vector>

#include "convert/tokenizer_json.h"

namespace troika::convert {

// Returns the kinds of steps that this program does not do, as the file names them, quoted. Two are
// no such steps: those by which a tokenizer of SentencePiece writes spaces, and NFC, which most
// texts have already. Where there are more than can be told, the last says so.
std::vector<std::string> foreign_normalizers(const Json& json, JsonTokenizer kind);

}  // namespace troika::convert
