#include "draft/calibrated.h"

#include <algorithm>
#include <cmath>

#include "draft/top_tokens.h"

namespace troika::draft {
namespace {

// At most this many earlier places of a token in the text are looked at, the last ones first.
constexpr int kMostPlaces = 16;
// Each of these places shows one token and what the model wanted there.
constexpr size_t kMostShown = kMostPlaces * (1 + LikelyNext::kMost);
// Lists the weights of a place, by how many tokens up to it agree with the text.
constexpr float kWeights[] = {0.0f, 1.0f, 8.0f, 40.0f};
// Is the share of a place's weight that goes to what really followed there; the rest goes to what
// the model wanted there.
constexpr float kLiteralShare = 0.5f;
// Is the weight of followers that no place shows: as much as one place has that agrees in one token
// only.
constexpr float kEscape = 1.0f;
// A less likely guess costs more than it gives.
constexpr float kLeastPathChance = 0.01f;

}  // namespace

LikelyNext likely_next(int position, std::span<const float> logits) {
  TopToken top[LikelyNext::kMost];
  LikelyNext likely;
  likely.position = position;
  likely.n = static_cast<int>(find_top_tokens(logits, top));
  // Shares are taken of these few: a sum over the whole vocabulary would cost more than it tells.
  float sum = 0.0f;
  for (int i = 0; i < likely.n; ++i) {
    likely.tokens[i] = top[i].token;
    likely.chances[i] = i == 0 ? 1.0f : std::exp(top[i].logit - top[0].logit);
    if (!(likely.chances[i] >= 0.0f)) likely.chances[i] = 0.0f;  // infinite logits give no number
    sum += likely.chances[i];
  }
  for (int i = 0; i < likely.n; ++i) likely.chances[i] /= sum;
  return likely;
}

void CalibratedSource::reserve(int most_text, int most_nodes) {
  const auto n = static_cast<size_t>(most_text);
  text_.reserve(n);
  before_.reserve(n);
  ends_.reserve(n);
  likely_at_.reserve(n);
  likely_.reserve(n);
  followers_.reserve(kMostShown);
  heap_.reserve(kMostShown * (static_cast<size_t>(most_nodes) + 1));
}

void CalibratedSource::reset() {
  text_.clear();
  before_.clear();
  ends_.clear();
  likely_at_.clear();
  likely_.clear();
}

void CalibratedSource::observe(std::span<const Token> tokens) {
  for (const Token token : tokens) {
    int& end = ends_[static_cast<uint32_t>(token)];
    before_.push_back(end - 1);
    text_.push_back(token);
    end = static_cast<int>(text_.size());
  }
}

void CalibratedSource::set_likely(size_t position, const LikelyNext& likely) {
  if (likely_at_.size() <= position) likely_at_.resize(position + 1, -1);
  int& index = likely_at_[position];
  if (index < 0) {
    index = static_cast<int>(likely_.size());
    likely_.push_back(likely);
  } else {
    likely_[static_cast<size_t>(index)] = likely;
  }
}

void CalibratedSource::calibrate(std::span<const LikelyNext> likely) {
  for (const LikelyNext& next : likely) {
    if (next.position < 0 || static_cast<size_t>(next.position) >= text_.size()) continue;
    set_likely(static_cast<size_t>(next.position), next);
  }
}

void CalibratedSource::learn(const Verdict& verdict) {
  if (verdict.logits == nullptr || text_.empty()) return;
  const auto n_vocab = static_cast<size_t>(verdict.n_vocab);
  size_t position = text_.size() - 1;
  const auto keep = [&](size_t row) {
    const std::span<const float> logits(verdict.logits + row * n_vocab, n_vocab);
    set_likely(position, likely_next(static_cast<int>(position), logits));
    ++position;
  };
  keep(0);
  for (const int node : verdict.path) keep(static_cast<size_t>(node) + 1);
}

void CalibratedSource::add_follower(Token token, float mass) {
  for (Follower& follower : followers_) {
    if (follower.token != token) continue;
    follower.mass += mass;
    return;
  }
  followers_.push_back({token, mass});
}

// Finds what may follow a node, or the text where the node is kRoot.
void CalibratedSource::expand(const Tree& tree, int node, float path_chance) {
  Token context[kContext];
  int n_context = 0;
  int at = node;
  for (; at != kRoot && n_context < kContext; at = tree[at].parent) {
    context[n_context++] = tree[at].token;
  }
  for (size_t back = 1; back <= text_.size() && n_context < kContext; ++back) {
    context[n_context++] = text_[text_.size() - back];
  }
  const int* const end = ends_.find(static_cast<uint32_t>(context[0]));
  if (end == nullptr) return;
  int place = *end - 1;
  // What follows the text's end is not known, so the place before it is used.
  if (static_cast<size_t>(place) + 1 == text_.size()) place = before_[static_cast<size_t>(place)];
  followers_.clear();
  float sum = kEscape;
  for (int i = 0; i < kMostPlaces && place >= 0; ++i) {
    const auto p = static_cast<size_t>(place);
    int n_equal = 1;
    while (n_equal < n_context && static_cast<size_t>(n_equal) <= p &&
           text_[p - static_cast<size_t>(n_equal)] == context[n_equal]) {
      ++n_equal;
    }
    const float weight = kWeights[n_equal];
    const int index = p < likely_at_.size() ? likely_at_[p] : -1;
    const float literal = index >= 0 ? kLiteralShare : 1.0f;
    add_follower(text_[p + 1], weight * literal);
    if (index >= 0) {
      const LikelyNext& likely = likely_[static_cast<size_t>(index)];
      for (int k = 0; k < likely.n; ++k) {
        add_follower(likely.tokens[k], weight * (1.0f - literal) * likely.chances[k]);
      }
    }
    sum += weight;
    place = before_[p];
  }
  for (const Follower& follower : followers_) {
    const float chance = follower.mass / sum;
    if (path_chance * chance < kLeastPathChance) continue;
    heap_.push_back({path_chance * chance, chance, node, follower.token});
    std::push_heap(heap_.begin(), heap_.end());
  }
}

void CalibratedSource::propose(int most, Tree* tree) {
  if (likely_.empty() || text_.empty()) return;
  heap_.clear();
  expand(*tree, kRoot, 1.0f);
  while (!heap_.empty() && tree->size() < most) {
    const Candidate best = heap_.front();
    std::pop_heap(heap_.begin(), heap_.end());
    heap_.pop_back();
    const int node = tree->add(best.parent, best.token, best.chance);
    expand(*tree, node, best.path_chance);
  }
}

}  // namespace troika::draft
