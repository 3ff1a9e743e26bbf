#include "engine/constrain/constraint.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/clock.h"
#include "base/error.h"

namespace troika::engine {
namespace {

// A draft never has more tokens than this many bytes can give.
constexpr size_t kMostForcedBytes = 256;
// Is the chance that a forced token is right. The model may write the same text in other tokens,
// and its last token may reach beyond the text; the drafter corrects the chance by experience.
constexpr float kChance = 0.97f;
constexpr float kLastChance = 0.5f;
// Is the most work on a mask while others wait: some milliseconds. Most masks take no work, since
// what they ask for is known.
constexpr uint64_t kLittleWork = 20'000;

[[noreturn]] void throw_left() {
  throw Error("The answer left its grammar, because somebody changed it. Begin the answer anew.");
}

// Sets all logits but those of the set to minus infinity. A vocabulary may have fewer tokens than
// there are logits.
void forbid_others(const grammar::TokenSet& allowed, std::span<float> logits) {
  constexpr float kNever = -std::numeric_limits<float>::infinity();
  size_t first = 0;
  for (const uint64_t word : allowed.words()) {
    const size_t n = std::min<size_t>(64, logits.size() - first);
    float* const of_word = logits.data() + first;
    first += n;
    if (word == ~uint64_t{0}) continue;
    if (word == 0) {
      std::fill_n(of_word, n, kNever);
      continue;
    }
    for (size_t i = 0; i < n; ++i) {
      if (((word >> i) & 1) == 0) of_word[i] = kNever;
    }
  }
  std::fill(logits.begin() + static_cast<std::ptrdiff_t>(first), logits.end(), kNever);
}

}  // namespace

// A mask that is made elsewhere. Until it is done, only that work touches the members that are not
// atomic.
struct Constraint::Awaited {
  explicit Awaited(const grammar::Matcher& from) : matcher(from) { matcher.take_time(); }

  void work() {
    if (!is_wanted.load(std::memory_order_relaxed)) return;
    try {
      for (const Token token : behind) {
        if (!matcher.advance(token)) throw_left();
      }
      matcher.allowed(&allowed);
    } catch (...) {
      error = std::current_exception();
    }
    is_done.store(true, std::memory_order_release);
  }

  grammar::Matcher matcher;
  std::vector<Token> behind;  // tokens that the matcher must follow first
  grammar::TokenSet allowed;
  std::exception_ptr error;
  std::atomic<bool> is_done = false;
  std::atomic<bool> is_wanted = true;
};

Constraint::Constraint(std::shared_ptr<grammar::Grammar> grammar, size_t n_prompt,
                       Elsewhere elsewhere)
    : matcher_(std::move(grammar)), n_prompt_(n_prompt), elsewhere_(std::move(elsewhere)) {
  if (elsewhere_) matcher_.hurry(kLittleWork);
  if (matcher_.grammar().tokens().ends().size() > 0) return;
  throw Error(
      "The model's vocabulary has no token that ends an answer, so that an answer under a grammar "
      "could never end. Use a model whose file names an end token.");
}

Constraint::~Constraint() {
  if (awaited_ != nullptr) awaited_->is_wanted.store(false, std::memory_order_relaxed);
}

// Lets the matcher follow a text: takes back what is no longer there, and goes on with what came.
void Constraint::follow(std::span<const Token> text) {
  TROIKA_ASSERT(text.size() >= n_prompt_);
  const std::span<const Token> answer = text.subspan(n_prompt_);
  const auto common = static_cast<size_t>(
      std::mismatch(answer_.begin(), answer_.end(), answer.begin(), answer.end()).first -
      answer_.begin());
  matcher_.back(matcher_.n_tokens() - static_cast<int>(common));
  answer_.resize(common);
  if (mask_place_ > common) mask_place_ = kNoMask;
  for (const Token token : answer.subspan(common)) {
    if (!matcher_.advance(token)) throw_left();
    answer_.push_back(token);
  }
}

// Makes the mask behind the history, unless it is there already.
void Constraint::make_mask(std::span<const Token> history) {
  if (error_) std::rethrow_exception(error_);
  follow(history);
  if (mask_place_ == answer_.size()) return;
  mask_place_ = kNoMask;
  matcher_.allowed(&allowed_);
  mask_place_ = answer_.size();
}

void Constraint::ask_elsewhere(std::span<const Token> history) {
  const auto awaited = std::make_shared<Awaited>(matcher_);
  const std::span<const Token> behind = history.subspan(n_prompt_ + answer_.size());
  awaited->behind.assign(behind.begin(), behind.end());
  elsewhere_([awaited] { awaited->work(); });
  awaited_ = awaited;
}

// Takes the matcher and its mask back from work that was done elsewhere.
void Constraint::take_awaited() {
  const std::shared_ptr<Awaited> done = std::exchange(awaited_, nullptr);
  error_ = done->error;
  if (error_) return;
  matcher_ = std::move(done->matcher);
  matcher_.hurry(kLittleWork);
  answer_.insert(answer_.end(), done->behind.begin(), done->behind.end());
  allowed_ = std::move(done->allowed);
  mask_place_ = answer_.size();
}

// Returns true also where the mask fails: `apply` says why.
bool Constraint::is_ready(std::span<const Token> history) {
  if (!elsewhere_) return true;
  if (awaited_ != nullptr) {
    if (!awaited_->is_done.load(std::memory_order_acquire)) return false;
    take_awaited();
  }
  if (error_) return true;
  try {
    try {
      make_mask(history);
      return true;
    } catch (const grammar::TooMuchWork&) {
      ask_elsewhere(history);
      return false;
    }
  } catch (...) {  // memory may have run out; no other answer must end for that
    error_ = std::current_exception();
    return true;
  }
}

void Constraint::apply(std::span<const Token> history, std::span<float> logits) {
  const RealClock clock;
  const double start_us = clock.now_us();
  make_mask(history);
  forbid_others(allowed_, logits);
  const double us = clock.now_us() - start_us;
  ++statistics_.n_masks;
  statistics_.sum_us += us;
  statistics_.longest_us = std::max(statistics_.longest_us, us);
}

void Constraint::begin(std::span<const Token> text) { follow(text); }

// Lets the matcher follow a guess. Returns false where that takes more work than allowed: an answer
// needs no guess.
bool Constraint::enter(Token token) {
  try {
    return matcher_.advance(token);
  } catch (const Error&) {
    return false;
  }
}

void Constraint::leave() { matcher_.back(1); }

void Constraint::forced(std::span<const Token> text, std::vector<Token>* tokens) {
  tokens->clear();
  follow(text);
  try {
    matcher_.grammar().tokens().write(matcher_.forced(kMostForcedBytes), tokens);
  } catch (const Error&) {
    tokens->clear();
  }
}

ForcedSource::ForcedSource(std::shared_ptr<Constraint> constraint)
    : constraint_(std::move(constraint)) {}

void ForcedSource::reserve(int most_text, int most_nodes) {
  text_.reserve(static_cast<size_t>(most_text));
  tokens_.reserve(std::max(static_cast<size_t>(most_nodes), kMostForcedBytes));
}

void ForcedSource::observe(std::span<const Token> tokens) {
  text_.insert(text_.end(), tokens.begin(), tokens.end());
}

void ForcedSource::propose(int most, draft::Tree* tree) {
  constraint_->forced(text_, &tokens_);
  if (tokens_.empty()) return;
  const auto n = std::min(tokens_.size() - 1, static_cast<size_t>(most));
  const int last = tree->add_chain(draft::kRoot, std::span(tokens_).first(n), kChance);
  if (n < static_cast<size_t>(most)) tree->add(last, tokens_.back(), kLastChance);
}

}  // namespace troika::engine
