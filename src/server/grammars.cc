#include "server/grammars.h"

#include <algorithm>

namespace troika::server {
namespace {

constexpr size_t kMostKept = 16;
// Others wait meanwhile, some milliseconds: most grammars take less.
constexpr uint64_t kLittleWork = 50'000;

// With the first mask: whoever computes answers has no time for it.
std::shared_ptr<grammar::Grammar> made(const Grammars::Make& make,
                                       std::shared_ptr<const grammar::TokenTrie> tokens,
                                       const grammar::Limits& limits) {
  std::shared_ptr<grammar::Grammar> grammar = make(std::move(tokens), limits);
  grammar->make_first_mask();
  return grammar;
}

}  // namespace

std::shared_ptr<const grammar::TokenTrie> Grammars::tokens(bool has_control) {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::shared_ptr<const grammar::TokenTrie>& tokens = tokens_[has_control ? 1 : 0];
  if (tokens == nullptr) tokens = std::make_shared<grammar::TokenTrie>(tokenizer_, has_control);
  return tokens;
}

bool Grammars::has(const std::string& key, Kept* found) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto it =
      std::find_if(kept_.begin(), kept_.end(), [&](const Kept& kept) { return kept.key == key; });
  if (it == kept_.end()) return false;
  kept_.splice(kept_.begin(), kept_, it);
  *found = kept_.front();
  return true;
}

void Grammars::keep(Kept kept) {
  const std::lock_guard<std::mutex> lock(mutex_);
  kept_.push_front(std::move(kept));
  if (kept_.size() > kMostKept) kept_.pop_back();
}

std::shared_ptr<grammar::Grammar> Grammars::compile(const std::string& text,
                                                    grammar::Format format) {
  return find(std::to_string(static_cast<int>(format)) + text, false,
              [text, format](auto tokens, const grammar::Limits& limits) {
                return grammar::compile(text, format, std::move(tokens), {.limits = limits});
              });
}

std::shared_ptr<grammar::Grammar> Grammars::find(const std::string& key, bool has_control,
                                                 const Make& make) {
  Kept kept;
  if (has(key, &kept)) {
    if (kept.grammar == nullptr) throw Error(kept.why);
    return kept.grammar;
  }
  grammar::Limits little;
  little.n_compile_steps = kLittleWork;
  try {
    kept.grammar = made(make, tokens(has_control), little);
  } catch (const grammar::TooMuchWork&) {
    throw TakesLonger{key, has_control, make};
  }
  kept.key = key;
  keep(kept);
  return kept.grammar;
}

void Grammars::make(const TakesLonger& wanted) {
  Kept kept;
  if (has(wanted.key, &kept)) return;  // somebody else has asked for it
  kept.key = wanted.key;
  try {
    kept.grammar = made(wanted.make, tokens(wanted.has_control), {});
  } catch (const Error& error) {
    kept.why = error.what();
  }
  keep(std::move(kept));
}

}  // namespace troika::server
