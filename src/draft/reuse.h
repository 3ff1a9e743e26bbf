// Parts of rejected drafts that come back (D4). When the model rejects a guess, it still says what
// would follow the guesses behind it. Where it agrees with these, it may want them one step later:
// behind a token that was missing, or instead of another token.
#pragma once

#include <array>

#include "draft/source.h"

namespace troika::draft {

class ReuseSource : public Source {
 public:
  const char* name() const override { return "reuse"; }
  void reserve(int most_text, int most_nodes) override;
  void reset() override { segments_.clear(); }
  void observe(std::span<const Token> tokens) override;
  void propose(int most, Tree* tree) override;
  bool uses_predictions() const override { return true; }
  void learn(const Verdict& verdict) override;

 private:
  // A longer segment is cut. If the draft of a step is longer than kEnoughDraft, older segments are
  // dropped.
  static constexpr int kMostSegment = 16;
  static constexpr int kEnoughDraft = 16;
  static constexpr int kMostSteps = 4;  // for at most this many steps a segment may come true

  struct Segment {
    std::array<Token, kMostSegment> tokens;
    int n_tokens = 0;
    int n_steps = 0;  // counts steps since the segment was kept

    std::span<const Token> text() const { return {tokens.data(), static_cast<size_t>(n_tokens)}; }
    void drop_first();
  };
  std::vector<Segment> segments_;  // the newest one stands last
  std::vector<int> scratch_;
};

}  // namespace troika::draft
