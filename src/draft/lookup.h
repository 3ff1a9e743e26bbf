// Prompt lookup (D6): finds the last place where the text's last few tokens stood, and guesses what
// came behind them there.
#pragma once

#include <unordered_map>

#include "draft/source.h"

namespace troika::draft {

class LookupSource : public Source {
 public:
  const char* name() const override { return "lookup"; }
  void reset() override;
  void observe(std::span<const Token> tokens) override;
  void propose(int most, Tree* tree) override;

 private:
  static constexpr int kMostTokens = 3;  // at most this many tokens at a text's end are looked for
  uint64_t key_of(size_t end, int n) const;

  std::vector<Token> text_;
  // Where some tokens ended last, and where they ended the time before that.
  struct Ends {
    int last = 0;
    int before = 0;
  };
  std::unordered_map<uint64_t, Ends> ends_[kMostTokens];
};

}  // namespace troika::draft
