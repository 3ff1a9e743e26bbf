// In-context calibration (D2): what the model itself would have said after the tokens of the
// prompt, from logits that the prompt's pass gives. People write other words than the model would.
// So a draft that takes the model's next token, and goes on where that token stands in the context,
// follows the model better than a draft that only copies.
#pragma once

#include <vector>

#include "draft/flat_table.h"
#include "draft/source.h"

namespace troika::draft {

// Returns the likeliest tokens of a row of logits that follow `position`.
LikelyNext likely_next(int position, std::span<const float> logits);

class CalibratedSource : public Source {
 public:
  const char* name() const override { return "calibrated"; }
  void reserve(int most_text, int most_nodes) override;
  void reset() override;
  void observe(std::span<const Token> tokens) override;
  void calibrate(std::span<const LikelyNext> likely) override;
  // Proposes nothing until something was learned of the model. Then it searches a graph of tokens
  // from the text's end, the likeliest path first. An edge leads from a token to one that followed
  // it, or that the model wanted behind it.
  void propose(int most, Tree* tree) override;
  // Learns from the answer's own positions: their logits are there anyway.
  void learn(const Verdict& verdict) override;

 private:
  static constexpr int kContext = 3;  // at most this many tokens up to a place are compared
  struct Candidate {
    float path_chance;  // the chance that all nodes up to this one are right
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
  std::vector<int> before_;     // by position: the last position before it with the same token
  FlatTable<int> ends_;         // by token: one more than its last position
  std::vector<int> likely_at_;  // by position: an index into likely_, or -1
  std::vector<LikelyNext> likely_;
  // The vectors below are kept between calls for their memory.
  std::vector<Candidate> heap_;
  std::vector<Follower> followers_;
};

}  // namespace troika::draft
