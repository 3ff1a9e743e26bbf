// In-context calibration (D2): what the model itself would have said after the tokens of the
// prompt, from logits that the prompt's pass gives. People write other words than the model would;
// a draft that takes the model's next token and goes on where that stands in the context follows
// the model better than one that only copies.
#pragma once

#include <unordered_map>

#include "draft/source.h"

namespace troika::draft {

// The likeliest tokens of a row of logits. `position`: what they follow.
LikelyNext likely_next(int position, std::span<const float> logits);

class CalibratedSource : public Source {
 public:
  const char* name() const override { return "calibrated"; }
  void reset() override;
  void observe(std::span<const Token> tokens) override;
  void calibrate(std::span<const LikelyNext> likely) override;
  // Nothing before something was learned of the model. Else the graph of tokens, in which an edge
  // is what followed a token or what the model wanted behind it, is searched from the text's end,
  // the likeliest path first.
  void propose(int most, Tree* tree) override;
  // The answer's own positions: their logits are there anyway.
  void learn(const Verdict& verdict) override;

 private:
  static constexpr int kContext = 3;  // tokens that are compared at most
  struct Candidate {
    float path_chance;  // of all nodes up to this one
    float chance;
    int parent;
    Token token;
    bool operator<(const Candidate& other) const { return path_chance < other.path_chance; }
  };
  struct Follower {
    Token token;
    float mass;
  };
  void expand(const Tree& tree, int node, float path_chance);
  void add_follower(Token token, float mass);
  void set_likely(size_t position, const LikelyNext& likely);

  std::vector<Token> text_;
  std::vector<int> before_;                 // of a position: the last one before with its token
  std::unordered_map<Token, int> last_at_;  // where a token stands last
  std::vector<int> likely_at_;              // of a position: index into likely_, or -1
  std::vector<LikelyNext> likely_;
  // Scratch.
  std::vector<Candidate> heap_;
  std::vector<Follower> followers_;
};

}  // namespace troika::draft
