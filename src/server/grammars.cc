#include "server/grammars.h"

#include <algorithm>

namespace troika::server {
namespace {

constexpr size_t kMostKept = 16;

}  // namespace

std::shared_ptr<grammar::Grammar> Grammars::compile(const std::string& text,
                                                    grammar::Format format) {
  return find(std::to_string(static_cast<int>(format)) + text, false,
              [&](const auto& tokens) { return grammar::compile(text, format, tokens); });
}

std::shared_ptr<grammar::Grammar> Grammars::find(const std::string& key, bool has_control,
                                                 const Make& make) {
  const auto found =
      std::find_if(kept_.begin(), kept_.end(), [&](const Kept& kept) { return kept.key == key; });
  if (found != kept_.end()) {
    kept_.splice(kept_.begin(), kept_, found);
    return kept_.front().grammar;
  }
  std::shared_ptr<const grammar::TokenTrie>& tokens = tokens_[has_control ? 1 : 0];
  if (tokens == nullptr) tokens = std::make_shared<grammar::TokenTrie>(tokenizer_, has_control);
  kept_.push_front({key, make(tokens)});
  if (kept_.size() > kMostKept) kept_.pop_back();
  return kept_.front().grammar;
}

}  // namespace troika::server
