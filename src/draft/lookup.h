// Prompt lookup (D6): finds the last place where the text's last few tokens stood, and guesses what
// came behind them there.
#pragma once

#include <vector>

#include "draft/flat_table.h"
#include "draft/source.h"

namespace troika::draft {

class LookupSource : public Source {
 public:
  const char* name() const override { return "lookup"; }
  void reserve(int most_text, int most_nodes) override;
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
  FlatTable<Ends> ends_[kMostTokens];
};

}  // namespace troika::draft
