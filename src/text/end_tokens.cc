#include <algorithm>
#include <array>
#include <set>
#include <string_view>

#include "text/vocabulary.h"

namespace troika::text {
namespace {

// No text of a person looks like these by accident. A token of this name is an end token, whatever
// type the file gives it.
constexpr std::array<std::string_view, 16> kCertainEnds = {
    "<|eot_id|>",  "<|im_end|>",    "<|end|>",       "<|return|>",
    "<|call|>",    "<end_of_turn>", "<|endoftext|>", "<|end_of_text|>",
    "<|eom_id|>",  "<|flush|>",     "<|calls|>",     "<end_of_utterance>",
    "<|fim_pad|>", "<|fim_repo|>",  "<|file_sep|>",  "<｜end▁of▁sentence｜>"};

// These are ends only where the file says that they are control tokens: they could be text. The
// last ones stand behind what fills a gap in code; a model of chats that pads with one of them
// never writes it.
constexpr std::array<std::string_view, 15> kPossibleEnds = {
    "</s>",  "<EOT>",         "_<EOT>",     "[EOT]",      "[EOS]",
    "<eos>", "<|repo_name|>", "[e~[",       "<fim_pad>",  "<fim-pad>",
    "<PAD>", "[PAD]",         "<reponame>", "<fim-repo>", "<REPO>"};

template <size_t N>
bool contains(const std::array<std::string_view, N>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

std::vector<Token> end_tokens(const Vocabulary& v) {
  std::set<Token> ends;
  bool has_return = false;
  bool has_call = false;
  Token end = kNoToken;
  for (size_t i = 0; i < v.tokens.size(); ++i) {
    const std::string_view name = v.tokens[i];
    const bool possible = v.types[i] == TokenType::kControl && contains(kPossibleEnds, name);
    if (!possible && !contains(kCertainEnds, name)) continue;
    ends.insert(static_cast<Token>(i));
    has_return |= name == "<|return|>" || name == "<|flush|>";
    has_call |= name == "<|call|>" || name == "<|calls|>";
    if (name == "<|end|>") end = static_cast<Token>(i);
  }
  // Where an answer has channels, <|end|> closes one of them and the answer goes on.
  if (has_return && has_call) ends.erase(end);
  for (Token id : {v.eos, v.eot, v.eom, v.fim_pad, v.fim_repository, v.fim_separator}) {
    if (id != kNoToken) ends.insert(id);
  }
  return {ends.begin(), ends.end()};
}

void repair_types(Vocabulary* v) {
  for (size_t i = 0; i < v->tokens.size() && i < v->types.size(); ++i) {
    if (contains(kCertainEnds, v->tokens[i])) v->types[i] = TokenType::kControl;
  }
}

}  // namespace troika::text
