#include "draft/reuse.h"

#include <algorithm>

namespace troika::draft {
namespace {

// First guesses; the drafter learns better ones.
constexpr float kChance = 0.4f;
constexpr float kOldChance = 0.2f;
constexpr float kNextChance = 0.75f;

}  // namespace

// Eq. (3) over a tree: the longest run of nodes, each the child of the one before, that were not
// accepted but are what the model predicted behind their parents.
void ReuseSource::learn(const Verdict& verdict) {
  const Tree& tree = verdict.tree;
  const bool is_full = tree.size() > kEnoughDraft;
  while (!segments_.empty() && (is_full || segments_.back().n_steps >= kMostSteps)) {
    segments_.pop_back();
  }
  std::vector<int>& run = scratch_;  // how long it is up to each node
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
  Segment segment;
  for (int node = last, i = 0; i < longest; ++i, node = tree[node].parent) {
    segment.tokens.push_back(tree[node].token);
  }
  std::reverse(segment.tokens.begin(), segment.tokens.end());
  if (segment.tokens.size() > kMostSegment) segment.tokens.resize(kMostSegment);
  std::erase_if(segments_, [&](const Segment& s) { return s.tokens == segment.tokens; });
  segments_.push_front(std::move(segment));
}

// A segment that the text has begun to follow goes on behind that; whole ones are used up. Those
// that are new stand behind what is observed now.
void ReuseSource::observe(std::span<const Token> tokens) {
  for (const Token token : tokens) {
    for (Segment& segment : segments_) {
      if (segment.n_steps > 0 && !segment.tokens.empty() && segment.tokens.front() == token) {
        segment.tokens.erase(segment.tokens.begin());
      }
    }
  }
  std::erase_if(segments_, [](const Segment& s) { return s.tokens.empty(); });
}

void ReuseSource::propose(int most, Tree* tree) {
  for (Segment& segment : segments_) {
    const float first = segment.n_steps == 0 ? kChance : kOldChance;
    ++segment.n_steps;
    int parent = kRoot;
    for (const Token token : segment.tokens) {
      if (tree->size() >= most) return;
      parent = tree->add(parent, token, parent == kRoot ? first : kNextChance);
    }
  }
}

}  // namespace troika::draft
