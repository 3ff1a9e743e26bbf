// Joins what the sources guess into one tree of the width that pays (D3), and learns from every
// verification what their guesses are worth and what each width costs.
#pragma once

#include <climits>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "draft/odds.h"
#include "draft/rules.h"
#include "draft/source.h"
#include "draft/width_costs.h"

namespace troika::draft {

// Rows of one verification, the text's last token included: the widths that share the numerics
// class of decoding.
inline constexpr int kMostWidth = 32;
// Rows of a pass that several texts share: what their costs are known for.
inline constexpr int kMostPassRows = 64;

struct DrafterOptions {
  int most_width = kMostWidth;
  // Always drafts to the most width, whatever it costs: to measure. Otherwise the width is the one
  // with the most expected tokens for its time, and 1 where none is better than plain decoding.
  bool is_fixed = false;
  int n_vocab = INT_MAX;  // guesses beyond it are dropped
  int coverage = 0;       // percent of a prompt's positions whose logits `calibrate` is to get (D2)
  // What passes of so many rows took before; none: every drafter finds out by itself.
  std::vector<std::pair<int, double>> costs_ms = {};
  // Guesses that they forbid are dropped; null: none are known.
  std::shared_ptr<Rules> rules = nullptr;
  int most_text = 0;  // tokens for which room is taken at once, so that steps allocate nothing
};

struct Statistics {
  struct OfSource {
    std::string name;
    int64_t n_verified = 0;  // nodes whose guess it was
    int64_t n_accepted = 0;
  };
  int64_t n_verifications = 0;  // passes, those without a draft too
  int64_t n_with_draft = 0;
  int64_t n_tokens = 0;  // that they gave, one each of them the model's own
  int64_t n_verified = 0;
  int64_t n_accepted = 0;
  double draft_ms = 0.0;                    // finding, joining and learning
  double pass_ms = 0.0;                     // verifying
  std::vector<int64_t> n_of_draft_nodes{};  // drafts by their size
  std::vector<int64_t> n_of_accepted{};     // verifications by accepted nodes
  std::vector<OfSource> sources{};

  double tokens_per_verification() const {
    return n_verifications > 0
               ? static_cast<double>(n_tokens) / static_cast<double>(n_verifications)
               : 0.0;
  }
};

// Other texts in a pass: their rows, and how many tokens they are expected to get from it.
struct Company {
  int n_rows = 0;
  double n_tokens = 0.0;
};

class Drafter {
 public:
  // REQUIRES: 1 <= most_width <= kMostWidth.
  explicit Drafter(std::vector<std::unique_ptr<Source>> sources,
                   const DrafterOptions& options = {});

  // The text from now on; what it shares with the one before at its beginning is kept, if it only
  // got longer.
  void begin(std::span<const Token> text);
  // Percent of a prompt's positions whose logits help, for `calibrate` behind `begin`.
  int coverage() const { return options_.coverage; }
  void calibrate(std::span<const LikelyNext> likely);
  // A draft of what follows the text, of at most so many nodes; empty where plain decoding is
  // better for all who share its pass: a row that pays for one text makes the others wait. Valid
  // until the next call. REQUIRES: the text goes on where it was.
  const Tree& propose(std::span<const Token> text, int most_nodes, Company company = {});
  // How many tokens the pass with the draft last proposed should give, the model's own token
  // included.
  double expected_tokens() const { return expected_tokens_; }
  bool uses_predictions() const { return uses_predictions_; }
  // What became of the tree last proposed.
  void learn(const Verdict& verdict);
  // What its pass took; `width` counts the text's last token too, and the rows of other texts.
  void measured(int width, double ms);

  const Statistics& statistics() const { return statistics_; }
  void clear_statistics();
  const WidthCosts& costs() const { return costs_; }

 private:
  struct Guess {
    int node;  // of joined_
    float path_chance;
  };
  void reserve();
  void follow(std::span<const Token> text);
  void join();
  int best_size(int most_nodes, Company company) const;
  void learn_odds(const Tree& guesses, int source, const Verdict& verdict);
  void count(const Verdict& verdict);

  std::vector<std::unique_ptr<Source>> sources_;
  DrafterOptions options_;
  bool uses_predictions_ = false;
  Odds odds_;
  WidthCosts costs_;
  Statistics statistics_;
  std::vector<Token> seen_;    // what the sources have observed
  std::vector<Tree> guesses_;  // of each source
  Pruner pruner_;
  Tree joined_;               // of all of them
  std::vector<Guess> order_;  // its nodes, the most likely first
  Tree tree_;                 // the first of them
  double expected_tokens_ = 1.0;
  std::vector<int> moved_;   // scratch: a node of one tree in another
  std::vector<float> sums_;  // scratch
};

}  // namespace troika::draft
