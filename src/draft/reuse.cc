#include "draft/reuse.h"

#include <algorithm>

namespace troika::draft {
namespace {

// These chances are the first estimates; the drafter learns better ones.
constexpr float kChance = 0.4f;
constexpr float kOldChance = 0.2f;
constexpr float kNextChance = 0.75f;
constexpr size_t kUsualSegments = 64;

}  // namespace

// Keeps a segment by eq. (3), applied to a tree: the longest chain of nodes that were not accepted,
// but are what the model predicted behind their parents.
void ReuseSource::learn(const Verdict& verdict) {
  const Tree& tree = verdict.tree;
  const bool is_full = tree.size() > kEnoughDraft;
  const auto is_old = [&](const Segment& s) { return is_full || s.n_steps >= kMostSteps; };
  segments_.erase(segments_.begin(), std::find_if_not(segments_.begin(), segments_.end(), is_old));
  std::vector<int>& run = scratch_;  // the length of the chain up to each node
  run.assign(static_cast<size_t>(tree.size()), 0);
  int last = kRoot, longest = 0;
  for (int node = 0; node < tree.size(); ++node) {
    const auto index = static_cast<size_t>(node);
    const int parent = tree[node].parent;
    const bool is_accepted =
        std::find(verdict.path.begin(), verdict.path.end(), node) != verdict.path.end();
    if (is_accepted || parent == kRoot) continue;
    if (verdict.predicted[static_cast<size_t>(parent) + 1] != tree[node].token) continue;
    run[index] = run[static_cast<size_t>(parent)] + 1;
    if (run[index] > longest) longest = run[index], last = node;
  }
  if (longest == 0) return;
  // A chain that is too long keeps its first tokens, which stand nearest to the root.
  int node = last;
  for (int i = longest; i > kMostSegment; --i) node = tree[node].parent;
  Segment segment;
  segment.n_tokens = std::min(longest, kMostSegment);
  for (int i = segment.n_tokens; i-- > 0; node = tree[node].parent) {
    segment.tokens[static_cast<size_t>(i)] = tree[node].token;
  }
  std::erase_if(segments_,
                [&](const Segment& s) { return std::ranges::equal(s.text(), segment.text()); });
  segments_.push_back(segment);
}

void ReuseSource::reserve(int /*most_text*/, int most_nodes) {
  segments_.reserve(kUsualSegments);
  scratch_.reserve(static_cast<size_t>(most_nodes));
}

void ReuseSource::Segment::drop_first() {
  std::copy(tokens.begin() + 1, tokens.begin() + n_tokens, tokens.begin());
  --n_tokens;
}

// Cuts the tokens off a segment that the text has followed; a segment that was followed to its end
// is dropped. New segments are left alone: they stand behind the tokens that are observed now.
void ReuseSource::observe(std::span<const Token> tokens) {
  for (const Token token : tokens) {
    for (Segment& segment : segments_) {
      const bool follows =
          segment.n_steps > 0 && segment.n_tokens > 0 && segment.tokens.front() == token;
      if (follows) segment.drop_first();
    }
  }
  std::erase_if(segments_, [](const Segment& s) { return s.n_tokens == 0; });
}

// Proposes the newest segments first. Segments for which there is no room grow older, too, so that
// the oldest ones stay in front.
void ReuseSource::propose(int most, Tree* tree) {
  for (auto at = segments_.rbegin(); at != segments_.rend(); ++at) {
    Segment& segment = *at;
    const float first = segment.n_steps == 0 ? kChance : kOldChance;
    ++segment.n_steps;
    int parent = kRoot;
    for (const Token token : segment.text()) {
      if (tree->size() >= most) break;
      parent = tree->add(parent, token, parent == kRoot ? first : kNextChance);
    }
  }
}

}  // namespace troika::draft
