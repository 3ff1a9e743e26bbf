#include "server/desk/grammars.h"

#include <algorithm>
#include <iterator>

namespace troika::server {
namespace {

constexpr size_t kMostKept = 16;
// Limits the steps for which other requests wait: they take some milliseconds. Most grammars take
// less.
constexpr uint64_t kLittleWork = 50'000;

// Makes a grammar with its first mask, as the thread that computes answers has no time for that.
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

// Returns the grammar with this key; null if nobody asked for it lately, or if the answers that
// followed it have worn it.
Grammars::KeptPtr Grammars::kept(const std::string& key) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto it =
      std::find_if(kept_.begin(), kept_.end(), [&](const KeptPtr& one) { return one->key == key; });
  if (it == kept_.end()) return nullptr;
  if ((*it)->grammar != nullptr && (*it)->grammar->is_worn()) {
    kept_.erase(it);
    return nullptr;
  }
  kept_.splice(kept_.begin(), kept_, it);
  const KeptPtr found = kept_.front();
  forget_beyond_limits();
  return found;
}

Grammars::KeptPtr Grammars::keep(Kept kept) {
  const std::lock_guard<std::mutex> lock(mutex_);
  auto added = std::make_shared<const Kept>(std::move(kept));
  kept_.push_front(added);
  forget_beyond_limits();
  return added;
}

// Forgets the grammars that were asked for longest ago, beyond a number and a sum of bytes. Those
// that a request waits for stay, however many other grammars come, so that they need not be made
// again. Those that answers follow go with these, so nobody waits for a matcher here.
void Grammars::forget_beyond_limits() {
  size_t n = 0, bytes = 0;
  for (auto it = kept_.begin(); it != kept_.end();) {
    const Kept& one = **it;
    const bool is_wanted = it->use_count() > 1;
    const bool is_followed = one.grammar.use_count() > 1;
    if (!is_wanted && !is_followed) {
      bytes += one.key.size() + one.why.size();
      if (one.grammar != nullptr) bytes += one.grammar->bytes();
    }
    const bool is_beyond = ++n > kMostKept || bytes > most_bytes_;
    it = is_beyond && !is_wanted ? kept_.erase(it) : std::next(it);
  }
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
  if (const KeptPtr known = kept(key); known != nullptr) {
    if (known->grammar == nullptr) throw Error(known->why);
    return known->grammar;
  }
  grammar::Limits little;
  little.n_compile_steps = kLittleWork;
  Kept found{key, nullptr, ""};
  try {
    found.grammar = made(make, tokens(has_control), little);
  } catch (const grammar::TooMuchWork&) {
    throw TakesLonger{key, has_control, make};
  }
  return keep(std::move(found))->grammar;
}

Grammars::KeptPtr Grammars::make(const TakesLonger& wanted) {
  // another request has made the same grammar meanwhile
  if (KeptPtr known = kept(wanted.key); known != nullptr) return known;
  Kept found{wanted.key, nullptr, ""};
  try {
    found.grammar = made(wanted.make, tokens(wanted.has_control), {});
  } catch (const Error& error) {
    found.why = error.what();
  }
  return keep(std::move(found));
}

}  // namespace troika::server
